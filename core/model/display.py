"""Display of a model's search: a live table on a terminal, otherwise one line after each round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from pegbox.model.latency import Latency
from pegbox.model.model_task import ModelTask
from pegbox.model.result import share
from pegbox.search.allocation import UNKNOWN
from pegbox.search.loop.display import text_stream
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.task_scheduler import TaskScheduler
from pegbox.shown import escaped
from pegbox.task.speed_text import format_seconds

HEADER = ("task", "calls", "share", "best", "trials", "last gain")


@dataclass(frozen=True)
class Snapshot:
    """The calls, seconds and trials of each task between two rounds, the seconds of all calls, and all trials."""

    calls: Sequence[int]
    seconds: Sequence[float]
    trials: Sequence[int]
    total: float
    all_trials: int

    @classmethod
    def of(cls, scheduler: TaskScheduler, latency: Latency) -> Snapshot:
        """Make a snapshot with the seconds of each task's best."""
        costs = [each.cost if each.cost < UNKNOWN else math.inf for each in scheduler.progress]
        seconds = latency.best(costs)
        trials = [0] * len(seconds)
        for searched, count in zip(latency.searches, scheduler.trials, strict=True):
            for number, _ in searched:
                trials[number] += count
        return cls(latency.calls(seconds), seconds, trials, latency.of_tasks(seconds), sum(scheduler.trials))


class ModelProgress:
    """A display for logs, with one line after each round.

    Args:
        stream: a stream of text; by default standard error.
    """

    def __init__(self, tasks: Sequence[ModelTask], latency: Latency, stream: TextIO | None = None) -> None:
        self.stream = text_stream(stream)
        self._tasks, self._latency = tasks, latency
        self._gains: dict[int, float] = {}
        self._last: Snapshot | None = None

    def on_round(self, scheduler: TaskScheduler, number: int, result: TuneResult) -> None:
        """Show the state after a round."""
        now, (place, _) = Snapshot.of(scheduler, self._latency), self._latency.searches[number][0]
        if self._last is not None and self._last.seconds[place] < math.inf:
            self._gains[place] = now.calls[place] * (self._last.seconds[place] - now.seconds[place])
        self._last = now
        if self.stream is not None:
            self.show(now, place)

    def show(self, now: Snapshot, place: int) -> None:
        """Print the line of the task of the latest round."""
        whole = format_seconds(now.total) if now.total < math.inf else "not known yet"
        name, calls, _, best, trials, gain = self.row(now, place)
        about = ", ".join(filter(None, [f"best {best}", f"{trials} trials", f"gain {gain}" if gain else ""]))
        print(f"all calls {whole}  {calls} x {name}: {about}", file=self.stream, flush=True)

    def row(self, now: Snapshot, place: int) -> tuple[str, str, str, str, str, str]:
        """Write the cells of a task's row."""
        calls, seconds = now.calls[place], now.seconds[place]
        gain = self._gains.get(place)
        return (
            self._tasks[place].name,
            str(calls),
            share(calls * seconds, now.total),
            format_seconds(seconds) if seconds < math.inf else "nothing ran" if now.trials[place] else "",
            str(now.trials[place]),
            "" if gain is None else format_seconds(gain) if gain > 0 else "0",
        )

    def close(self) -> None:
        """End the display; its last state stays."""


class LiveModelProgress(ModelProgress):
    """A table that rich redraws in place; its last state stays on the terminal."""

    _live: Any = None

    def show(self, now: Snapshot, place: int) -> None:
        from rich.console import Console
        from rich.live import Live

        if self._live is None:
            console = Console(file=getattr(self.stream, "obeying", self.stream))  # rich moves the cursor
            self._live = Live(console=console, auto_refresh=False, transient=False)
            self._live.start()
        self._live.update(self._table(now, place), refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _table(self, now: Snapshot, latest: int) -> Any:
        from rich.table import Table

        whole = format_seconds(now.total) if now.total < math.inf else "not known yet"
        table = Table(title=f"all calls: {whole}, {now.all_trials} trials", title_justify="left", box=None)
        for place, header in enumerate(HEADER):
            table.add_column(header, justify="right" if place else "left", no_wrap=True)
        order = sorted(range(len(self._tasks)), key=lambda n: -now.calls[n] * min(now.seconds[n], UNKNOWN))
        for number in order:
            cells = map(escaped, self.row(now, number))
            table.add_row(*cells, style="bold" if number == latest else None)
        return table


def model_progress(tasks: Sequence[ModelTask], latency: Latency, stream: TextIO | None = None) -> ModelProgress:
    """Choose the display that suits a stream, by default standard error."""
    chosen = text_stream(stream)
    live = chosen is not None and chosen.isatty()
    return (LiveModelProgress if live else ModelProgress)(tasks, latency, chosen)
