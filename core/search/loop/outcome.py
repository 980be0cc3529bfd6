"""`TuneResult`: the trials of a run, the best of them, and the time of each phase."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.search.models.report import ModelReport
from pegbox.task.work import format_speed

if TYPE_CHECKING:
    from pegbox.space import Config

StopReason: TypeAlias = Literal[
    "trials", "budget", "early stopping", "exhausted", "interrupted", "stopped by a callback", "error"
]


@dataclass(frozen=True, slots=True)
class Trial:
    """One measured configuration. `number` counts from 0; history that was only told has negative numbers.

    `elapsed` is when the result came, in seconds since the run began. `remeasured` marks the careful measurements at
    the end of a run, which repeat the configuration of an earlier trial under the same number.
    """

    number: int
    config: Config
    result: Result
    gflops: float = 0.0
    elapsed: float = 0.0
    remeasured: bool = False

    @property
    def ok(self) -> bool:
        return self.result.ok

    @property
    def not_recorded(self) -> bool:
        """A simulation had no answer: this says nothing of the configuration."""
        return isinstance(self.result, Failed) and self.result.kind is FailureKind.NOT_RECORDED

    @property
    def cost(self) -> float:
        """Seconds of one call; infinity for a failed trial."""
        return self.result.cost


@dataclass(frozen=True)
class BestTrial:
    """The winner: `cost` in seconds (or another `unit`), `gflops` of it, `result` as measured last, `phases` of the run
    that found it.

    `remeasured` tells whether the cost comes from the careful measurement at the end or from the trial itself.
    `bytes_moved` (per call, at least) tell the speed of what has no arithmetic.
    """

    config: Config
    cost: float
    gflops: float
    result: Ok
    number: int
    remeasured: bool = False
    phases: Mapping[str, float] = field(default_factory=dict)
    bytes_moved: float = 0.0
    unit: str = "s"

    @classmethod
    def of(
        cls,
        trial: Trial | None,
        *,
        phases: Mapping[str, float] | None = None,
        bytes_moved: float = 0.0,
        unit: str = "s",
    ) -> BestTrial | None:
        """The trial as the winner; None where there is none that succeeded."""
        if trial is None or not isinstance(trial.result, Ok):
            return None
        found = (trial.config, trial.cost, trial.gflops, trial.result, trial.number, trial.remeasured)
        return cls(*found, phases=phases or {}, bytes_moved=bytes_moved, unit=unit)

    def __str__(self) -> str:
        told = format_speed(self.cost, flop=self.gflops * 1e9 * self.cost, bytes_moved=self.bytes_moved)
        speed = f", {told}" if told else ""
        origin = "history" if self.number < 0 else f"trial {self.number}"
        again = ", measured again at the end" if self.remeasured else ""
        lines = [f"{format_cost(self.cost, self.unit)}{speed} ({origin}{again})", f"  config: {self.config}"]
        if self.phases:
            lines.append(f"  where the time went: {format_phases(self.phases)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class TuneResult:
    """Everything that a run measured.

    `best` is None when nothing valid was found. `elapsed` and `phases` are wall-clock seconds of the run, and the
    phases add up to nearly all of it. `finalists` are the careful measurements that `best` was picked from; `model`
    tells how good the tuner's model was on trials that it had not seen. Where `simulated`, all seconds are those of the
    virtual clock: what the trials took when they were recorded, and what the tuner took now. `dropped` counts what the
    tuner proposed and nobody measured, by reason: repetitions, and more than was asked for.
    """

    best: BestTrial | Any  # None where nothing ran; `Any` spares `result.best.config` a check that most never need
    trials: Sequence[Trial]
    elapsed: float
    phases: Mapping[str, float]
    stopped_because: StopReason
    tuner: str = "tuner"
    flop: float = 0.0
    finalists: Sequence[Trial] = ()
    model: ModelReport | None = None
    simulated: bool = False
    dropped: Mapping[str, int] = field(default_factory=dict)
    bytes_moved: float = 0.0
    unit: str = "s"

    @property
    def failures(self) -> dict[str, int]:
        """How many trials failed, by kind, the most frequent first; those not recorded are not failures."""
        return failure_counts(trial.result for trial in self.trials if not trial.not_recorded)

    @property
    def not_recorded(self) -> int:
        """How many trials a simulation had no answer for."""
        return sum(trial.not_recorded for trial in self.trials)

    @property
    def finals(self) -> Sequence[Trial]:
        """The old name of `finalists`."""
        warnings.warn("TuneResult.finals is called finalists now", DeprecationWarning, stacklevel=2)
        return self.finalists

    @property
    def trials_per_second(self) -> float:
        return len(self.trials) / self.elapsed if self.elapsed > 0 else 0.0

    def best_costs(self) -> list[float]:
        """The best cost so far after each trial, in seconds; infinity until the first success."""
        return best_so_far([trial.cost for trial in self.trials])

    def __str__(self) -> str:
        rate = f" ({self.trials_per_second:.1f}/s)" if self.trials else ""
        time = "s of recorded time" if self.simulated else "s"
        spent = f"{len(self.trials)} trials in {self.elapsed:.1f} {time}{rate} with {self.tuner}"
        parts = [
            f"{spent}, stopped: {self.stopped_because}",
            str(self.best) if self.best else "nothing valid was found",
        ]
        if self.failures:
            parts.append(f"  failed: {format_counts(self.failures)}{self._example()}")
        if self.not_recorded:
            parts.append(f"  not recorded: {self.not_recorded} trials{self._unanswered()}")
        if self.dropped:
            parts.append(f"  proposals left out: {format_counts(self.dropped)}")
        if self.model is not None and self.model.pairs:
            parts.append(f"  {self.model}")
        return "\n".join(parts)

    def _example(self) -> str:
        """With no winner the user needs a reason, not only a count."""
        if self.best is not None:
            return ""
        failed = next(t.result for t in self.trials if isinstance(t.result, Failed) and not t.not_recorded)
        return f"; the first said: {failed.message}"

    def _unanswered(self) -> str:
        message = next(str(getattr(trial.result, "message", "")) for trial in self.trials if trial.not_recorded)
        return f"; the first: {message}"


def failure_counts(results: Iterable[Result]) -> dict[str, int]:
    """How many of the results are failures, by kind, the most frequent first."""
    return dict(Counter(str(result.kind) for result in results if isinstance(result, Failed)).most_common())


def best_so_far(costs: Sequence[float]) -> list[float]:
    """The running minimum of `costs`."""
    curve: list[float] = []
    best = math.inf
    for cost in costs:
        best = min(best, cost)
        curve.append(best)
    return curve


def validated(result: Result) -> Result:
    """What a measurer gave, or a failure where it succeeded with NaN, infinitely many or no seconds as its cost.

    NaN compares with nothing: as the first trial it would stay the best, and a cost model would learn it.
    """
    if not isinstance(result, Ok) or 0.0 < result.cost < math.inf:
        return result
    message = f"the measurer gave {result.cost!r} seconds as the cost; a cost is finite and above 0"
    return Failed(FailureKind.RUN_ERROR, message, result.total_seconds, result.timestamp, result.phases)


def gflops_of(result: Result, flop: float) -> float:
    """GFLOP/s of one result; 0 for a failed one or when the work is not known."""
    cost = result.cost
    return flop / cost / 1e9 if 0 < cost < math.inf else 0.0


def format_seconds(seconds: float) -> str:
    """A cost with a unit that keeps it readable."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"


def format_cost(cost: float, unit: str) -> str:
    """A cost with its unit: seconds as `format_seconds` writes them, any other as a number."""
    if unit == "s":
        return format_seconds(cost)
    number = f"{cost:,.0f}" if cost == round(cost) < 1e15 else f"{cost:.6g}"
    return f"{number} {unit}".rstrip()


def format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def format_phases(phases: Mapping[str, float]) -> str:
    shown = sorted(phases.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {seconds:.2f} s" for name, seconds in shown)
