"""Tables of comparison rows, for the console and for documents."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from l2e.comparison import Row


def as_table(rows: Sequence[Row], title: str) -> Table:
    """For the console."""
    header, *lines = _cells(rows)
    table = Table(title=title, title_justify="left", title_style="", box=box.SIMPLE)
    for column, name in enumerate(header):
        table.add_column(name, justify="left" if column == 0 else "right")
    for line in lines:
        table.add_row(*line)
    return table


def as_markdown(rows: Sequence[Row]) -> str:
    """For documents."""
    header, *lines = _cells(rows)
    rule = ["---"] + ["--:"] * (len(header) - 1)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *lines))


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    header = ["sampler", "rate ℓ", *rows[0].metrics, "seeds"]
    lines = [
        [
            row.name,
            f"{row.learning_rate:g}",
            *(f"{mean:.4f} ± {error:.4f}" for mean, error in row.metrics.values()),
            f"{row.seeds}" + (f" ({row.diverged} diverged)" if row.diverged else ""),
        ]
        for row in rows
    ]
    return [header, *lines]
