"""What a run says while it runs: metrics.jsonl, TensorBoard events, one line on the console."""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text
from tensorboardX import SummaryWriter

from l2e.jsonable import jsonable
from l2e.meta.files import METRICS_FILE

_AVERAGED = 10
_SECONDS_BETWEEN_LINES = 10.0


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All whole lines of a run's metrics.jsonl, oldest first; a line cut short is left out."""
    path = folder / METRICS_FILE
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


class Journal:
    """Writes one record an outer step. Use it as a context manager.

    Args:
        folder: the run's folder.
        total: outer steps in the whole run.
        done: outer steps already taken; records of later steps are removed, since a resumed run
            takes those steps again (and a run that starts anew records its step 0 again).
        console: where the progress line appears.
    """

    def __init__(self, folder: Path, *, total: int, done: int, console: Console) -> None:
        self._total, self._done, self._console = total, done, console
        kept = [record for record in read_metrics(folder) if done and record["step"] <= done]
        _rewrite(folder / METRICS_FILE, kept)
        self._file = (folder / METRICS_FILE).open("a")
        self._events = SummaryWriter(str(folder), purge_step=done + 1)
        self._recent: deque[Mapping[str, Any]] = deque(kept[-_AVERAGED:], maxlen=_AVERAGED)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._started, self._first, self._last_line = perf_counter(), done, 0.0

    def __enter__(self) -> "Journal":
        """Start the live line."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all files, whatever happened."""
        self._live.stop()
        self._file.close()
        self._events.close()

    def record(self, record: Mapping[str, Any]) -> None:
        """Write one outer step, which must carry `step` and `seconds`."""
        self._write(record)
        for name, value in record.items():
            if isinstance(value, (int, float)) and name != "step":
                self._events.add_scalar(f"meta/{name}", value, record["step"])
        self._events.flush()
        self._recent.append(record)
        self._done = record["step"]
        self._show()

    def _write(self, record: Mapping[str, Any]) -> None:
        self._file.write(_to_line(record))
        self._file.flush()

    def _show(self) -> None:
        if self._console.is_terminal:
            self._live.update(Text(self.line()), refresh=True)
            return
        now = perf_counter()
        if now - self._last_line >= _SECONDS_BETWEEN_LINES or self._done == self._total:
            self._console.print(self.line(), highlight=False)
            self._last_line = now

    def line(self) -> str:
        """Step, meta-loss averaged over ten steps, inner steps a second, time left."""
        records = [record for record in self._recent if record.get("meta_loss") is not None]
        if not records:
            return f"step {self._done}/{self._total}"
        loss = sum(record["meta_loss"] for record in records) / len(records)
        speed = sum(record["inner_steps"] for record in records) / sum(
            record["seconds"] for record in records
        )
        taken = max(self._done - self._first, 1)
        left = (self._total - self._done) * (perf_counter() - self._started) / taken
        return (
            f"step {self._done:>{len(str(self._total))}}/{self._total}"
            f"   meta-loss {loss:.4f} (mean of {len(records)})"
            f"   {speed:,.0f} inner steps/s"
            f"   {int(left) // 60}:{int(left) % 60:02d} left"
        )


def _rewrite(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text("".join(map(_to_line, records)))
    partial.replace(path)


def _to_line(record: Mapping[str, Any]) -> str:
    return json.dumps(jsonable(record), allow_nan=False) + "\n"
