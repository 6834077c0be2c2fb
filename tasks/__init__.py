"""Tasks: data sets, networks and distributions over both. Knows no sampler.

`spec` names a task, `datasets` loads its data, `models` and `convolution` make its network, `build`
joins the two, `distribution` says which tasks there are.
"""
