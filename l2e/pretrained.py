"""Exporting a trained sampler and loading it again, years later.

A sampler is a folder with two files: `sampler.safetensors`, the float32 arrays of φ, and
`manifest.json`, everything else. Loading needs jax, numpy and safetensors alone, executes nothing
from the files, and refuses what it does not understand.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from l2e.checks import check_momentum_decay, check_positive
from l2e.dynamics import PHYSICS
from l2e.features import FEATURE_VERSION
from l2e.kinetic import KINETICS
from l2e.samplers import SAMPLERS
from l2e.tables import lookup
from l2e.types import Kinetic, Params, Potential, Sampler, Schedule

FORMAT = 1
WEIGHTS_FILE = "sampler.safetensors"
MANIFEST_FILE = "manifest.json"
_REQUIRED = {
    "format": int,
    "name": str,
    "feature_version": int,
    "kinetic": str,
    "kinetic_options": dict,
    "physics": str,
    "learning_rate": Real,
    "momentum_decay": Real,
    "weights_sha256": str,
}
_NAMES = {int: "a whole number", Real: "a number", str: "text", dict: "an object"}


class SamplerFileError(ValueError):
    """A sampler folder is missing, damaged, or not valid for this version of the code."""


@dataclass(frozen=True)
class LearnedSampler:
    """Trained meta-parameters and what they need to run.

    Attributes:
        phi: φ, a dictionary of float32 arrays.
        manifest: the content of `manifest.json`; `manifest["training"]` says what φ was
            trained on.
    """

    phi: Params
    manifest: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name under which it was exported."""
        return self.manifest["name"]

    def build(
        self,
        potential: Potential,
        *,
        step_size: float | jax.Array | Schedule | None = None,
        momentum_decay: float | jax.Array | None = None,
        temperature: float = 1.0,
        network: str = "xla",
    ) -> Sampler:
        """A kernel on the given potential, at the step size it was trained with by default.

        Args:
            potential: from `l2e.minibatch`.
            step_size: h = ε²; by default ℓ/n with the learning rate ℓ used in meta-training.
            momentum_decay: a = εC; by default the one used in meta-training.
            temperature: T; 1 is the posterior.
            network: a row of `l2e.network.NETWORKS`, by which the trained network is evaluated.
        """
        if step_size is None:
            step_size = self.manifest["learning_rate"] / potential.num_data
        if momentum_decay is None:
            momentum_decay = self.manifest["momentum_decay"]
        return SAMPLERS["l2e"](
            potential,
            kinetic=_kinetic(self.manifest, network),
            phi=self.phi,
            step_size=step_size,
            momentum_decay=momentum_decay,
            temperature=temperature,
            physics=self.manifest["physics"],
        )


def export(folder: str | Path, phi: Params, manifest: Mapping[str, Any]) -> LearnedSampler:
    """Write a sampler folder and return the sampler as `load` reads it back.

    Args:
        folder: made if need be; files of an earlier export are replaced.
        phi: φ, a dictionary of float32 arrays.
        manifest: name, kinetic, kinetic_options, physics, learning_rate, momentum_decay, and
            anything else that JSON holds (by custom under "training"). Format, feature version
            and checksum are added here.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = safetensors.numpy.save({name: np.asarray(value) for name, value in phi.items()})
    complete = {
        "format": FORMAT,
        "feature_version": FEATURE_VERSION,
        **manifest,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    _replace(folder / WEIGHTS_FILE, weights)
    _replace(folder / MANIFEST_FILE, (json.dumps(complete, indent=2) + "\n").encode())
    return load(folder)


def load(name: str | Path) -> LearnedSampler:
    """Load a sampler that comes with the package, by name, or from a folder.

    Raises:
        SamplerFileError: saying what is wrong with which file: not found, truncated, foreign,
            of another feature version, or with arrays of other names or shapes.

    Example:
        >>> import l2e
        >>> l2e.load("l2e-quick").manifest["kinetic"]
        'anchored'
    """
    folder = _find(name)
    manifest = _read_manifest(folder / MANIFEST_FILE)
    arrays = _read_weights(folder / WEIGHTS_FILE, manifest["weights_sha256"])
    _check_shapes(arrays, manifest, folder)
    return LearnedSampler(phi=jax.tree.map(jnp.asarray, arrays), manifest=manifest)


def bundled() -> dict[str, Path]:
    """Names and folders of the samplers that come with the package."""
    package = Path(__file__).parent
    folders = [
        manifest.parent
        for root in (package / "checkpoints", package.parent / "checkpoints")
        for manifest in sorted(root.glob(f"*/{MANIFEST_FILE}"))
    ]
    return {folder.name: folder for folder in reversed(folders)}


def _find(name: str | Path) -> Path:
    known = bundled()
    if isinstance(name, str) and name in known:
        return known[name]
    folder = Path(name)
    if folder.is_dir():
        return folder
    raise SamplerFileError(
        f"no sampler {str(name)!r}: it is neither a folder nor one of the bundled samplers "
        f"({', '.join(sorted(known)) or 'none'})"
    )


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise SamplerFileError(
            f"{path} is missing; expected a folder with {MANIFEST_FILE} and {WEIGHTS_FILE}, as "
            "meta_train.py writes under its --out in 'sampler'"
        ) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SamplerFileError(f"{path} is not JSON ({error}); fetch the sampler again") from error
    for key, kind in _REQUIRED.items():
        value = manifest.get(key) if isinstance(manifest, dict) else None
        if not isinstance(value, kind):
            raise SamplerFileError(
                f"{path}: {key!r} is {value!r}; expected {_NAMES[kind]}: this is not the "
                "manifest of an L2E sampler, or it is damaged"
            )
    _check_values(manifest, path)
    return manifest


def _check_values(manifest: dict[str, Any], path: Path) -> None:
    for key, ours in (("format", FORMAT), ("feature_version", FEATURE_VERSION)):
        if manifest[key] != ours:
            raise SamplerFileError(
                f"{path}: {key} is {manifest[key]}; this version of l2e runs {key} {ours} only: "
                "install the version named in the manifest's 'versions', or another sampler"
            )
    try:
        check_positive("learning_rate", manifest["learning_rate"])
        check_momentum_decay(manifest["momentum_decay"])
        lookup(PHYSICS, manifest["physics"], "physics")
        _kinetic(manifest)
    except (TypeError, ValueError) as error:
        raise SamplerFileError(f"{path}: {error}") from error


def _kinetic(manifest: Mapping[str, Any], network: str = "xla") -> Kinetic:
    build = lookup(KINETICS, manifest["kinetic"], "kinetic energy")
    options = dict(manifest["kinetic_options"])
    if "widths" in options:
        options["widths"] = tuple(options["widths"])
    return build(**options, network=network)


def _read_weights(path: Path, sha256: str) -> dict[str, np.ndarray]:
    try:
        content = path.read_bytes()
        arrays = safetensors.numpy.load(content)
    except FileNotFoundError as error:
        raise SamplerFileError(f"{path} is missing; fetch the sampler again") from error
    except safetensors.SafetensorError as error:
        raise SamplerFileError(
            f"{path} cannot be read ({error}): truncated or no safetensors file; fetch it again"
        ) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise SamplerFileError(
            f"{path} is not the file that {MANIFEST_FILE} describes (its checksum differs); "
            "fetch both from one place"
        )
    return arrays


def _check_shapes(arrays: dict[str, np.ndarray], manifest: dict[str, Any], folder: Path) -> None:
    """Compare every array with what the kinetic energy itself would make."""
    expected = jax.eval_shape(_kinetic(manifest).init, jax.random.key(0))
    for name in sorted(expected.keys() | arrays.keys()):
        found = _describe(arrays.get(name))
        wanted = _describe(expected.get(name))
        if found != wanted:
            raise SamplerFileError(
                f"{folder / WEIGHTS_FILE}: {name!r} is {found}; expected {wanted} for the "
                f"kinetic energy {manifest['kinetic']!r} with {manifest['kinetic_options']}"
            )


def _describe(array: Any) -> str:
    return "absent" if array is None else f"{array.dtype}{list(array.shape)}"


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)
