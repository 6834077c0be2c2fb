"""Plain JSON values: numbers that are not finite become null, tuples lists."""

import math
from collections.abc import Mapping
from typing import Any


def jsonable(value: Any) -> Any:
    """A copy that `json.dumps(…, allow_nan=False)` takes."""
    if isinstance(value, Mapping):
        return {name: jsonable(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
