"""Looking a name up in a table, with an error that lists the legal ones.

`l2e.tables` does the same for the library; tasks import nothing of it but its types.
"""

from collections.abc import Mapping
from typing import TypeVar

Row = TypeVar("Row")


def lookup(table: Mapping[str, Row], name: str, what: str) -> Row:
    """The row called `name`.

    Raises:
        ValueError: unknown name; lists the known ones.
    """
    if name not in table:
        raise ValueError(f"Unknown {what} {name!r}; known: {', '.join(table)}.")
    return table[name]
