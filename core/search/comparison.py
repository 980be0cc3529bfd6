"""What a comparison of tuners found, as plain data: curves, medians, quartiles, a table, JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pegbox.search.outcome import format_seconds

SHARES = (0.9, 0.95)
"""Shares of the best speed that `trials_to` is shown for."""


@dataclass(frozen=True)
class Run:
    """One tuner on one task with one seed. Costs and times are seconds; infinity where nothing valid was found.

    `curve` is the best cost so far after each trial; `final_cost` is the winner's, measured again beside the others.
    """

    task: str
    tuner: str
    seed: int
    flop: float
    curve: tuple[float, ...]
    final_cost: float
    config: Any = None
    failures: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    tuner_seconds: float = 0.0

    def trials_to(self, cost: float) -> int | None:
        """The number of trials after which the best was at most `cost`; None if it never was."""
        return next((count for count, best in enumerate(self.curve, start=1) if best <= cost < math.inf), None)


@dataclass(frozen=True)
class Summary:
    """All seeds of one tuner on one task.

    `cost` is (lower quartile, median, upper quartile) of the final costs in seconds. `relative` is the median speed
    as a share of the best that any tuner found for the task. `trials_to` maps a share of that best speed to the
    median number of trials it took, None when fewer than half of the seeds got there.
    """

    task: str
    tuner: str
    seeds: int
    cost: tuple[float, float, float]
    gflops: float
    relative: float
    trials_to: Mapping[float, float | None]
    seconds: float
    tuner_seconds: float
    failed: float


@dataclass(frozen=True)
class Comparison:
    """Every run of a comparison, with the same number of trials and the same seeds for each tuner."""

    trials: int
    seeds: tuple[int, ...]
    runs: Sequence[Run]

    def summaries(self) -> list[Summary]:
        """One for each task and tuner, in the order they were given."""
        groups = dict.fromkeys((run.task, run.tuner) for run in self.runs)
        return [self._summary(task, tuner) for task, tuner in groups]

    def best_cost(self, task: str) -> float:
        """The lowest final cost that anybody found for `task`, in seconds."""
        return min(run.final_cost for run in self.runs if run.task == task)

    def median_curve(self, task: str, tuner: str) -> list[float]:
        """The median over seeds of the best cost so far after each trial, in seconds."""
        curves = [_padded(run.curve, self.trials) for run in self._of(task, tuner)]
        return [_quantile(column, 0.5) for column in zip(*curves, strict=True)]

    def table(self) -> str:
        """A plain text table for people."""
        rows = [_HEADER, *(_row(summary) for summary in self.summaries())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        note = f"{self.trials} trials, {len(self.seeds)} seeds; winners measured again together; median [quartiles]"
        return "\n".join([*(line.rstrip() for line in lines), note])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; infinities become null."""
        runs = [{**vars(run), "curve": list(run.curve), "failures": dict(run.failures)} for run in self.runs]
        summaries = [
            {**vars(summary), "trials_to": {str(k): v for k, v in summary.trials_to.items()}}
            for summary in self.summaries()
        ]
        plain = {"trials": self.trials, "seeds": list(self.seeds), "runs": runs, "summaries": summaries}
        return dict(_finite(plain))

    def __str__(self) -> str:
        return self.table()

    def _of(self, task: str, tuner: str) -> Iterator[Run]:
        return (run for run in self.runs if (run.task, run.tuner) == (task, tuner))

    def _summary(self, task: str, tuner: str) -> Summary:
        runs = list(self._of(task, tuner))
        finals = [run.final_cost for run in runs]
        low, median, high = (_quantile(finals, q) for q in (0.25, 0.5, 0.75))
        best = self.best_cost(task)
        seen = min((run.curve[-1] for run in self.runs if run.task == task and run.curve), default=math.inf)
        return Summary(
            task=task,
            tuner=tuner,
            seeds=len(runs),
            cost=(low, median, high),
            gflops=runs[0].flop / median / 1e9 if 0 < median < math.inf else 0.0,
            relative=best / median if median < math.inf else 0.0,
            trials_to={share: _median_count([run.trials_to(seen / share) for run in runs]) for share in SHARES},
            seconds=_quantile([run.seconds for run in runs], 0.5),
            tuner_seconds=_quantile([run.tuner_seconds for run in runs], 0.5),
            failed=_quantile([float(sum(run.failures.values())) for run in runs], 0.5),
        )


_COUNTS = tuple(f"trials to {share:.0%}" for share in SHARES)
_HEADER = ("task", "tuner", "cost", "GFLOP/s", "of best", *_COUNTS, "failed", "s")


def _row(summary: Summary) -> tuple[str, ...]:
    low, median, high = summary.cost
    spread = f"{format_seconds(median)} [{format_seconds(low)}, {format_seconds(high)}]"
    counts = ["-" if count is None else f"{count:g}" for count in summary.trials_to.values()]
    return (
        summary.task,
        summary.tuner,
        spread if median < math.inf else "nothing valid",
        f"{summary.gflops:.1f}",
        f"{summary.relative:.1%}",
        *counts,
        f"{summary.failed:g}",
        f"{summary.seconds:.1f}",
    )


def _quantile(values: Sequence[float], q: float) -> float:
    """A quantile that is one of the values, or the mean of two for a median: infinities must not become NaN."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    return low if low == high else float(low + (high - low) * (position % 1.0))


def _median_count(counts: Sequence[int | None]) -> float | None:
    middle = _quantile([math.inf if count is None else float(count) for count in counts], 0.5)
    return None if middle == math.inf else middle


def _padded(curve: Sequence[float], length: int) -> list[float]:
    """A run that exhausted its space early keeps its best."""
    last = curve[-1] if curve else math.inf
    return [*curve, *[last] * (length - len(curve))]


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
