"""meta_train.py: presets and options, and bad input refused before any compute."""

import shlex
import sys
from pathlib import Path

import pytest

import meta_train


@pytest.fixture(autouse=True)
def _no_devices(monkeypatch):
    """The tests' own two CPU devices stay; they can be set only once."""
    monkeypatch.setattr(meta_train, "prepare", lambda: None)


def arguments(tmp_path, **changes):
    return meta_train.Arguments(**({"out": tmp_path / "run"} | changes))


BAD = {
    "preset": ({"preset": "huge"}, "unknown preset 'huge'; known: paper, quick, reference, small"),
    "kinetic": ({"kinetic": "magnetic"}, "unknown kinetic energy 'magnetic'; known: anchored"),
    "strategy": ({"strategy": "guess"}, "unknown strategy 'guess'; known: open_es"),
    "backend": ({"backend": "pigeon"}, "unknown backend 'pigeon'; known: serial"),
    "nothing to learn": ({"kinetic": "gaussian"}, "has nothing to learn; learnable: gradient"),
    "steps": ({"steps": 0}, "outer_steps is 0; expected a whole number of at least 1"),
    "seeds": ({"seeds": 1}, "eval-seeds is 1; expected at least 2"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_name_the_legal_ones(tmp_path, capsys, case):
    changes, message = BAD[case]
    assert meta_train.main(arguments(tmp_path, **changes)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_missing_data_is_named_with_a_remedy(tmp_path, capsys, monkeypatch):
    from tasks import datasets

    monkeypatch.delenv("L2E_DATA", raising=False)
    offline = {
        name: datasets.Dataset(row.about, row.sources[:1])
        for name, row in datasets.DATASETS.items()
    }
    monkeypatch.setattr(datasets, "DATASETS", offline)
    empty = tmp_path / "empty"
    empty.mkdir()
    status = meta_train.main(arguments(tmp_path, preset="small", data_dir=empty))
    error = capsys.readouterr().err
    assert status == 2
    assert "mnist.npz" in error
    assert str(empty) in error
    assert not (tmp_path / "run").exists()


def test_options_change_the_preset():
    config = meta_train.configure(
        meta_train.Arguments(out=Path("x"), preset="small", steps=7, seed=3, kinetic="gradient")
    )
    assert (config.outer_steps, config.seed, config.kinetic.name) == (7, 3, "gradient")
    assert config.tasks == "small"


def test_another_kinetic_energy_brings_its_own_scales():
    arguments = meta_train.Arguments(out=Path("x"), preset="reference", kinetic="anchored")
    assert meta_train.configure(arguments).kinetic.build().options["alpha_scale"] == 0.1


def test_resume_command_repeats_the_call(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["meta_train.py", "--out", "my runs/a"])
    words = shlex.split(meta_train.resume_command())
    assert words[1:] == ["meta_train.py", "--out", "my runs/a", "--resume"]
    assert Path(words[0]).absolute() == Path(sys.executable)
    monkeypatch.setattr(sys, "argv", ["meta_train.py", "--out", "a", "--resume"])
    assert meta_train.resume_command().count("--resume") == 1
