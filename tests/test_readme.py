"""The README's example runs as it stands, in JAX's own default settings, and learns something."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from l2e.meta.config import PRESETS
from l2e.pretrained import bundled, load

README = Path(__file__).parents[1] / "README.md"


def test_the_quick_start_runs():
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    command = [sys.executable, "-c", example]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=README.parent)
    assert run.returncode == 0, run.stderr
    assert float(re.search(r"accuracy (\d\.\d+)", run.stdout)[1]) > 0.85


@pytest.mark.parametrize("name", PRESETS)
def test_the_presets_are_as_the_table_says(name):
    (row,) = re.findall(rf"^\| `{name}` \|(.*)\|$", README.read_text(), re.MULTILINE)
    *_, inner, outer = (cell.strip().replace(",", "") for cell in row.split("|"))
    assert (int(inner), int(outer)) == (PRESETS[name].inner.steps, PRESETS[name].outer_steps)


@pytest.mark.parametrize("name", bundled())
def test_bundled_samplers_carry_their_own_name(name):
    assert load(name).manifest["name"] == name
    card = (bundled()[name] / "README.md").read_text()
    assert card.startswith(f"# {name}\n")
    assert f'l2e.load("{name}")' in card
