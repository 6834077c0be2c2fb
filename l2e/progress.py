"""A progress bar for long loops on the host; `rich` is needed only when one is shown."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def track(items: Sequence[Item], *, show: bool, description: str = "sampling") -> Iterable[Item]:
    """Iterate, with a bar when `show`.

    Raises:
        ModuleNotFoundError: when a bar is asked for and `rich` is not installed.
    """
    if not show:
        return items
    try:
        from rich.progress import track as rich_track
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "progress=True needs rich: pip install rich, or pass progress=False"
        ) from error
    return rich_track(items, description=description)
