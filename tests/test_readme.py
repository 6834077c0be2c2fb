"""The README's example runs as it stands, in JAX's own default settings, and learns something."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_quick_start_runs():
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    command = [sys.executable, "-c", example]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=README.parent)
    assert run.returncode == 0, run.stderr
    assert float(re.search(r"accuracy (\d\.\d+)", run.stdout)[1]) > 0.85
