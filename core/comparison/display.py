"""The progress of a comparison on many spaces: a live table on a terminal, otherwise one line for each run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from pegbox.comparison.aggregate.performance import performance
from pegbox.comparison.progress import RunListener
from pegbox.comparison.runs import Run, TaskInfo, print_run, run_line
from pegbox.report.text_table import text_table
from pegbox.search.loop.display import text_stream
from pegbox.shown import escaped

HEADER = ("tuner", "runs", "score so far")


class RunTable:
    """A table of the tuners: their finished runs, and the mean performance of the runs."""

    def __init__(self, trials: int) -> None:
        self._trials = trials
        self._scores: dict[str, list[float]] = {}
        self._runs: dict[str, int] = {}
        self._latest = ""

    def add(self, run: Run, task: TaskInfo, number: int, planned: int) -> None:
        """Count a finished run."""
        self._runs[run.tuner] = self._runs.get(run.tuner, 0) + 1
        self._latest = run_line(run, task, number, planned)
        if task.landscape is not None:
            score = float(performance([run], task.landscape, self._trials).mean())
            self._scores.setdefault(run.tuner, []).append(score)

    def rows(self) -> list[list[str]]:
        """Write the header and the rows, the best tuner first."""
        means = {tuner: sum(some) / len(some) for tuner, some in self._scores.items()}
        order = sorted(self._runs, key=lambda tuner: -means.get(tuner, float("-inf")))
        return [
            list(HEADER),
            *([name, str(self._runs[name]), f"{means[name]:+.3f}" if name in means else "-"] for name in order),
        ]

    def text(self) -> str:
        """Write the table, and the latest run below it."""
        return "\n".join([*text_table(self.rows()), self._latest])


@contextmanager
def run_listener(trials: int, stream: TextIO | None = None) -> Iterator[RunListener]:
    """Show runs on a stream, by default standard error: in a table that rich redraws, or line by line."""
    chosen = text_stream(stream)
    if chosen is None or not chosen.isatty():
        yield print_run
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    table = RunTable(trials)
    console: Any = Console(file=getattr(chosen, "obeying", chosen))  # rich moves the cursor
    with Live(console=console, auto_refresh=False) as live:

        def show(run: Run, task: TaskInfo, number: int, planned: int) -> None:
            table.add(run, task, number, planned)
            live.update(Text(escaped(table.text(), kept="\n")), refresh=True)

        yield show
