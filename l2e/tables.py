"""Looking a name up in a table, with an error that lists the legal ones."""

from collections.abc import Mapping
from typing import TypeVar

Row = TypeVar("Row")


def lookup(table: Mapping[str, Row], name: str, what: str) -> Row:
    """The row called `name`.

    Raises:
        ValueError: naming `what` was looked up, the unknown name and every known one.
    """
    if name not in table:
        raise ValueError(f"unknown {what} {name!r}; known: {', '.join(sorted(table))}")
    return table[name]
