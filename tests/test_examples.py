"""The examples in docstrings give what they print."""

import doctest
import importlib
import pkgutil

import jax
import pytest

import l2e


def modules():
    """The core's modules; `l2e.meta` and `l2e.report` need more than the library does."""
    found = [l2e.__name__]
    for package in (l2e, importlib.import_module("l2e.samplers")):
        prefix = package.__name__ + "."
        found += [m.name for m in pkgutil.iter_modules(package.__path__, prefix) if not m.ispkg]
    return found


def examples(name):
    tests = doctest.DocTestFinder().find(importlib.import_module(name))
    return [test for test in tests if test.examples]


EXAMPLES = [test for name in modules() for test in examples(name)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example(example):
    report = []
    # Examples are run as users run them.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        result = doctest.DocTestRunner().run(example, out=report.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(report)


def test_every_sampler_shows_an_example():
    shown = {example.name for example in EXAMPLES}
    assert {
        "l2e.samplers.sgld.build",
        "l2e.samplers.sghmc.build",
        "l2e.potential.minibatch",
    } <= shown
