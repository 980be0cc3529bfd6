"""`BestTrial`, the winner of a search with the known comparisons, and `Gain`, the gain of the whole search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pegbox.measure.baselines.baseline import Baseline
from pegbox.measure.result import Ok
from pegbox.search.loop.trial import Trial
from pegbox.search.subject import Subject
from pegbox.task.group import task_of
from pegbox.task.speed_text import format_phases

if TYPE_CHECKING:
    from pegbox.records.record import Record
    from pegbox.space import Config

FIRST_TRIALS = 10
"""The number of first trials that a search's gain compares with."""


class Gain(NamedTuple):
    """The gain of a search: the best of all trials is `ratio` times as fast as the best of the `first` ones.

    `others` is the number of later trials, and `found_first` is true if the winner is one of the first ones.
    """

    first: int
    ratio: float
    others: int
    found_first: bool = True

    @classmethod
    def of(cls, trials: Sequence[Trial | Record], winner: Trial | Record | None = None) -> Gain | None:
        """Compare with the first ten trials, or half of them if there are fewer; None if there is nothing to compare.

        The `winner` may be a later trial even if none was faster at first, since finalists are timed again.
        """
        first = min(FIRST_TRIALS, len(trials) // 2)
        began = min((trial.cost for trial in trials[:first]), default=math.inf)
        if began == math.inf:
            return None
        found_first = winner is None or any(trial.config == winner.config for trial in trials[:first])
        return cls(first, began / min(trial.cost for trial in trials), len(trials) - first, found_first)

    def __str__(self) -> str:
        first = f"the first {self.first} trials" if self.first > 1 else "the first trial"
        if self.ratio > 1:
            return f"{self.ratio:.2f}x as fast as {'the best of ' if self.first > 1 else ''}{first}"
        others = f"other {self.others}" if self.others > 1 else "other one"
        if not self.found_first:
            return f"by first timings, {first} had the best; finalists are timed again"
        found = f"found within {first}" if self.first > 1 else first
        return f"the best was {found}; the {others} did not improve on it"


@dataclass(frozen=True)
class BestTrial:
    """The winner: its `cost` in seconds (or another `unit`), its `gflops`, its latest `result`, and the `phases` of the
    run that found it.

    `remeasured` is True if the cost comes from the careful measurement at the end, not from the trial itself. `subject`
    is the computation or function, with the unit of the cost. `baseline` has NumPy's time for the same computation and
    the machine's limits, and `gain` is the gain of the search; None if they are unknown. `recorded` trials came from
    the records of an earlier run.
    """

    config: Config
    cost: float
    gflops: float
    result: Ok
    number: int
    remeasured: bool = False
    phases: Mapping[str, float] = field(default_factory=dict)
    subject: Subject = Subject()
    baseline: Baseline | None = None
    gain: Gain | None = None
    recorded: int = 0

    @classmethod
    def of(
        cls,
        trial: Trial | None,
        *,
        phases: Mapping[str, float] | None = None,
        subject: Subject = Subject(),
        baseline: Baseline | None = None,
        gain: Gain | None = None,
        recorded: int = 0,
    ) -> BestTrial | None:
        """Make the trial the winner; None if no trial succeeded."""
        if trial is None or not isinstance(trial.result, Ok):
            return None
        found = (trial.config, trial.cost, trial.gflops, trial.result, trial.number, trial.remeasured)
        return cls(*found, phases or {}, subject, baseline, gain, recorded)

    @property
    def place(self) -> int:
        """The number of the trial among all trials, recorded ones first, counted from 1 for people."""
        return self.recorded + self.number + 1

    @property
    def origin(self) -> str:
        """The trial that found the winner, as text."""
        where = ", from the records" if self.number < 0 else ""
        return f"trial {self.place}{where}{', measured again at the end' if self.remeasured else ''}"

    @property
    def speed(self) -> str:
        """The cost as text, with GFLOP/s or GB/s if the work is known."""
        return self.subject.speed(self.cost)

    @property
    def unit(self) -> str:
        """The unit of the cost, "s" for seconds."""
        return self.subject.unit

    @property
    def quality(self) -> list[str]:
        """The comparison with NumPy and the machine's limits, and the gain of the search, as far as they are known."""
        result, known = self.result, self.baseline
        beside = "" if known is None else known.text(self.cost, result.costs, result.wait_in_costs)
        return [*filter(None, [beside, self.accuracy]), *([] if self.gain is None else [str(self.gain)])]

    @property
    def accuracy(self) -> str:
        """The error of the winner, and the largest that its task allows, as text; empty if it is unknown."""
        task = self.subject.task
        if self.result.error is None or task is None:
            return ""
        owner = task_of(task, self.config)
        if not owner.accuracy:  # integers are exact
            return ""
        return f"error {self.result.error:.2g} of the largest magnitude; {owner.accuracy:.2g} is allowed"

    def __repr__(self) -> str:
        return f"<BestTrial {'; '.join([self.speed, *self.quality])}; config: {self.config}>"

    @property
    def is_below_numpy(self) -> bool:
        """True if NumPy is faster, and the times are comparable."""
        known = self.baseline
        if known is None or known.is_call or not known.is_comparable(self.result.costs, self.result.run_queue_wait):
            return False
        speedup = known.speedup(self.cost)
        return speedup is not None and speedup < 1

    def __str__(self) -> str:
        return self.text(str(self.config))

    def text(self, config: str) -> str:
        """Describe the winner, with text for its configuration."""
        lines = [f"{self.speed} ({self.origin})", *(f"  {line}" for line in self.quality), f"  config: {config}"]
        if self.phases:
            lines.append(f"  where the time went: {format_phases(self.phases)}")
        return "\n".join(lines)
