"""Tasks: data sets, networks and distributions over both. Knows no sampler.

`spec` names a task, `datasets` loads its data, `models`, `resnet` and `convolution` make its
network, `tuning` suits it to the machine, `build` joins all, `distribution` says which there are.
"""
