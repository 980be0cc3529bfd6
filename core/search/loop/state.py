"""The state of a running search, and its stop conditions."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pegbox.checks import check_float, check_int
from pegbox.errors import ArgumentError
from pegbox.measure.baselines.baseline import Baseline
from pegbox.records.simulation import VirtualClock
from pegbox.search.loop.outcome import StopReason
from pegbox.search.loop.trial import Trial, failure_counts
from pegbox.search.models.report import ModelReport
from pegbox.search.subject import Subject


@dataclass(frozen=True)
class Limits:
    """The conditions to stop: after `trials` new measurements, `budget_seconds`, or `early_stopping` trials in a row
    without an improvement. None means no limit; without any, only an exhausted space or Ctrl-C ends the run.
    """

    trials: int | None = None
    budget_seconds: float | None = None
    early_stopping: int | None = None

    def __post_init__(self) -> None:
        if self.trials is None and self.budget_seconds is None:
            raise ArgumentError("a search needs an end: give trials=... (a count), budget_seconds=..., or both")
        if self.trials is not None:
            check_int("trials", self.trials, minimum=0)
        if self.budget_seconds is not None:
            check_float("budget_seconds", self.budget_seconds)
        if self.early_stopping is not None:
            check_int("early_stopping", self.early_stopping)

    def reached(self, state: SearchState) -> StopReason | None:
        """Find the limit that `state` has reached, if any."""
        if self.trials is not None and len(state.trials) >= self.trials:
            return "trials"
        if self.budget_seconds is not None and state.elapsed >= self.budget_seconds:
            return "budget"
        if self.early_stopping is not None and state.since_improvement >= self.early_stopping:
            return "early stopping"
        return None


@dataclass
class SearchState:
    """The state of a run. Callbacks read it; only the loop writes it.

    `best` is the fastest trial so far, including history; `failures` counts failed trials by kind; `not_recorded`
    counts those without a recorded result in a simulation; `model` is the tuner's report on its model; `baseline` has
    the baselines, once they are measured; `activity` is the present activity, in words.
    """

    tuner: str
    limits: Limits
    subject: Subject = Subject()
    clock: Callable[[], float] = time.monotonic
    trials: list[Trial] = field(default_factory=list)
    best: Trial | None = None
    since_improvement: int = 0
    model: ModelReport | None = None
    baseline: Baseline | None = None
    activity: str = ""
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def failures(self) -> Counter[str]:
        return Counter(failure_counts(trial.result for trial in self.trials if not trial.not_recorded))

    @property
    def not_recorded(self) -> int:
        return sum(trial.not_recorded for trial in self.trials)

    @property
    def elapsed(self) -> float:
        """The seconds since the run began."""
        return self.clock() - self.started

    @property
    def simulated(self) -> bool:
        """True if time comes from records, not from this machine."""
        return isinstance(self.clock, VirtualClock)

    @property
    def trials_per_second(self) -> float:
        elapsed = self.elapsed
        return len(self.trials) / elapsed if elapsed > 0 else 0.0

    def room(self, wanted: int, *, outstanding: int = 0) -> int:
        """Compute how many of `wanted` trials the limit allows, in addition to `outstanding` ones."""
        left = math.inf if self.limits.trials is None else self.limits.trials - len(self.trials) - outstanding
        return int(min(wanted, left))

    def add(self, trial: Trial) -> None:
        """Add a new trial."""
        self.trials.append(trial)
        self.since_improvement += 1
        if self.consider(trial):
            self.since_improvement = 0

    def consider(self, trial: Trial) -> bool:
        """Make `trial` the best if it is faster than all before; return whether it was."""
        better = trial.ok and (self.best is None or trial.cost < self.best.cost)
        if better:
            self.best = trial
        return better


class PhaseClock:
    """The wall-clock seconds of each phase that the loop waits for, one after the other: phases do not nest."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the block's time towards `name`, also if it raises."""
        began = self._clock()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self._clock() - began
