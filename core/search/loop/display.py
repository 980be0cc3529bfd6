"""Display of a search's progress: one live line on a terminal, otherwise one line per batch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TextIO

from pegbox.errors import ArgumentError
from pegbox.search.loop.callbacks import Callback
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.loop.state import SearchState
from pegbox.search.loop.trial import Trial, format_counts
from pegbox.shown import escaped, value_text
from pegbox.task.speed_text import format_speed


def progress(stream: TextIO | None = None) -> Callback:
    """Choose the progress display that suits `stream` (standard error by default); None without a stream."""
    stream = text_stream(stream)
    if stream is None:  # the program was started with standard error closed
        return Callback()
    return LiveProgress(stream) if stream.isatty() else LineProgress(stream)


def text_stream(stream: object) -> Any:
    """Return the text stream, by default standard error, which may be None."""
    if stream is None:
        return sys.stderr
    if callable(getattr(stream, "isatty", None)) and callable(getattr(stream, "write", None)):
        return stream
    raise ArgumentError(f"stream={value_text(stream)} is not a stream of text; give one such as sys.stderr")


def status_line(state: SearchState) -> str:
    """Write trials, the best so far, trials per second and failures on one line."""
    limits = state.limits
    planned = f"/{limits.trials}" if limits.trials is not None else ""
    best, about = "best: none yet", state.subject
    if state.best is not None:
        cost = state.best.cost
        best = f"best {format_speed(cost, flop=about.flop, bytes_moved=about.bytes_moved) or about.speed(cost)}"
    budget = f"/{limits.budget_seconds:.0f}" if limits.budget_seconds is not None else ""
    parts = [
        f"{state.tuner}: {len(state.trials)}{planned} trials",
        best,
        f"{state.trials_per_second:.1f} trials/s",
        f"{state.elapsed:.1f}{budget} s{' simulated' if state.simulated else ''}",
    ]
    if (left := _seconds_left(state)) is not None:
        parts.append(f"{format_duration(left)} left")
    if state.model is not None and state.model.trust:
        parts.append(f"predictions {state.model.trust}")
    if state.failures:
        parts.append(f"failed: {format_counts(state.failures)}")
    if state.not_recorded:
        parts.append(f"not recorded: {state.not_recorded}")
    return "  ".join(parts)


def format_duration(seconds: float) -> str:
    """Write a rough duration: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _seconds_left(state: SearchState) -> float | None:
    """Estimate the time until the first limit, from the trials so far; None if that is impossible."""
    limits, done, elapsed = state.limits, len(state.trials), state.elapsed
    left: list[float] = []
    if limits.trials is not None and done and elapsed > 0:
        left.append((limits.trials - done) * elapsed / done)
    if limits.budget_seconds is not None and done:
        left.append(limits.budget_seconds - elapsed)
    soonest = min(left, default=0.0)
    return soonest if soonest > 0 else None


class LineProgress(Callback):
    """A display for logs: one plain line after each batch, and one for each new activity."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = text_stream(stream)
        self._said: set[str] = set()

    def on_start(self, state: SearchState) -> None:
        self._said.clear()

    def on_activity(self, state: SearchState) -> None:
        if state.activity not in self._said:
            self._said.add(state.activity)
            print(f"{state.tuner}: {state.activity} ...", file=self.stream, flush=True)

    def on_batch(self, trials: Sequence[Trial], state: SearchState) -> None:
        print(status_line(state), file=self.stream, flush=True)


class LiveProgress(Callback):
    """A line that rich redraws in place; its last state stays on the terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = text_stream(stream)
        self._live: Any = None
        self._state: SearchState | None = None

    def on_start(self, state: SearchState) -> None:
        # rich is slow to import, and only a terminal needs it.
        from rich.console import Console
        from rich.live import Live

        self._state = state
        console = Console(file=getattr(self.stream, "obeying", self.stream))  # rich moves the cursor
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=8, transient=False)
        self._live.start()

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        # Live redraws by itself eight times a second, so that a trial need not redraw.
        self._state = state

    def on_end(self, result: TuneResult) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _render(self) -> Any:
        from rich.text import Text

        line = ""
        if self._state is not None:
            doing = f"  {self._state.activity} ..." if self._state.activity else ""
            line = status_line(self._state) + doing
        return Text(escaped(line), no_wrap=True, overflow="ellipsis")
