"""Who may import whom, and how long a file and a function may be."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("l2e", "tasks", "benchmarks", "cluster", "tests")
FILES = sorted([*ROOT.glob("*.py"), *(f for name in PACKAGES for f in (ROOT / name).rglob("*.py"))])
CORE = [*(ROOT / "l2e").glob("*.py"), *(ROOT / "l2e" / "samplers").glob("*.py")]
# What `pip install l2e` brings. A progress bar alone may ask for more, when it is shown.
CORE_NEEDS = {"jax", "numpy", "safetensors", "l2e"}
OPTIONAL = {"l2e/progress.py": {"rich"}}
EXECUTES_FILES = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}


def imports(file):
    """Full names of the modules that a file imports, at any depth of nesting."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def tops(file):
    return {name.partition(".")[0] for name in imports(file)}


def name(file):
    return file.relative_to(ROOT).as_posix()


def inside(*packages):
    return [file for file in FILES if name(file).split("/")[0] in packages]


def test_the_files_are_found():
    assert {"l2e/chain.py", "tasks/build.py", "meta_train.py"} <= set(map(name, FILES))


@pytest.mark.parametrize("file", inside("l2e"), ids=name)
def test_the_library_knows_no_task(file):
    assert "tasks" not in tops(file)


@pytest.mark.parametrize("file", inside("tasks"), ids=name)
def test_tasks_know_the_contract_alone(file):
    assert [
        n for n in imports(file) if n.startswith("l2e") and not n.startswith("l2e.types.")
    ] == []


@pytest.mark.parametrize("file", FILES, ids=name)
def test_nothing_imports_the_cluster(file):
    assert "cluster" not in tops(file)


@pytest.mark.parametrize("file", CORE, ids=name)
def test_the_core_needs_what_pip_installs_with_it(file):
    third_party = tops(file) - sys.stdlib_module_names
    assert third_party <= CORE_NEEDS | OPTIONAL.get(name(file), set())
    outward = ("l2e.meta", "l2e.report", "l2e.interop")
    assert [n for n in imports(file) if n.startswith(outward)] == []


@pytest.mark.parametrize("file", inside("l2e", "tasks"), ids=name)
def test_no_weights_or_data_are_executed(file):
    assert not tops(file) & EXECUTES_FILES
    assert "allow_pickle=True" not in file.read_text()


@pytest.mark.parametrize("file", FILES, ids=name)
def test_files_and_functions_fit_on_a_page(file):
    source = file.read_text()
    assert len(source.splitlines()) <= 300
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno - node.lineno < 60, f"{node.name} is too long"
