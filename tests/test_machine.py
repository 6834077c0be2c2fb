"""Settings of the process: compiled programs outlive it, and its memory is known."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

PROGRAM = """
import collections, pathlib, sys
import jax
events = collections.Counter()
jax.monitoring.register_event_listener(lambda event, **_: events.update([event]))
from l2e.machine import prepare
folder = prepare()
assert folder.is_relative_to(sys.argv[1]), folder
from tiny import TinyTasks, tiny_config
from l2e.meta import outer, workers
config, tasks = tiny_config(outer_steps=3), TinyTasks()
strategy = outer.make_strategy(config, outer.initial_phi(config))
setup = outer.Training(config, strategy, tasks, workers.SerialWorkers(config, tasks))
state = outer.initial_state(config, strategy)
for _ in range(3):
    state, _ = outer.meta_step(setup, state)
print(events["/jax/compilation_cache/cache_misses"], events["/jax/compilation_cache/cache_hits"])
print(*(float(leaf.sum()).hex() for leaf in jax.tree.leaves(strategy.mean(state.strategy))))
"""


def test_a_new_process_compiles_nothing(tmp_path):
    """And a loaded program gives the bits of a compiled one."""
    environment = {"L2E_CACHE": str(tmp_path), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'meta'}"}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    first, second = (
        subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for _ in range(2)
    )
    misses, hits = map(int, first[0].split())
    assert misses > 10
    assert list(map(int, second[0].split())) == [0, misses + hits]
    assert first[1] == second[1]


def test_peak_memory_is_in_bytes():
    program = """
import numpy as np
from l2e.machine import peak_memory
before = peak_memory()
np.ones(25_000_000)
print(before, peak_memory())
"""
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    before, after = map(float, run.stdout.split())
    assert before < 2e9
    assert 150e6 < after - before < 300e6
