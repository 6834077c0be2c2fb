"""One file an algorithm; `SAMPLERS` maps names to their `build`."""

from collections.abc import Callable

from l2e.samplers import l2e, sghmc, sgld
from l2e.types import Sampler

SAMPLERS: dict[str, Callable[..., Sampler]] = {
    "sgld": sgld.build,
    "sghmc": sghmc.build,
    "l2e": l2e.build,
}

__all__ = ["SAMPLERS"]
