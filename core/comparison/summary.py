"""`Summary`: the row of one tuner on one task, over all seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pegbox.comparison.runs import Run, TaskInfo
from pegbox.comparison.statistics import median, median_interval

SHARES = (0.9, 0.95, 0.99)
"""The shares of the best known speed that are targets."""


@dataclass(frozen=True)
class Reach:
    """The number of trials to a `share` of the best known speed.

    `trials` is the median over all runs, infinite if fewer than half reached it; `reached` of `runs` did.
    """

    share: float
    trials: float
    reached: int
    runs: int


@dataclass(frozen=True)
class Summary:
    """Medians over the seeds of one tuner on one task.

    `cost` is the median of the final costs in seconds (or another `unit`), and `interval` its 95% bootstrap interval.
    `share` is the median speed as a share of the best known, `gflops` and `gigabytes` are the median's work and traffic
    a second. `area` is the mean over the trials of that share. `invalid` and `not_recorded` are shares of all trials,
    the latter None if nothing is simulated. `overhead` is the tuner's own seconds per trial, `seconds` the duration of
    a run; `accuracy` and `correlation` are those of its model on unseen trials, None without a model.
    """

    task: str
    tuner: str
    seeds: int
    cost: float
    interval: tuple[float, float]
    gflops: float
    share: float
    reach: tuple[Reach, ...]
    area: float
    invalid: float
    not_recorded: float | None
    overhead: float
    seconds: float
    gigabytes: float = 0.0
    accuracy: float | None = None
    correlation: float | None = None
    unit: str = "s"


def summarize(task: TaskInfo, tuner: str, runs: Sequence[Run], *, best_known: float, trials: int) -> Summary:
    """Summarize a tuner's runs on a task; there must be at least one."""
    finals = [run.final_cost for run in runs]
    cost = median(finals)
    return Summary(
        task=task.name,
        tuner=tuner,
        seeds=len(runs),
        cost=cost,
        interval=median_interval(finals),
        gflops=task.flop / cost / 1e9 if 0 < cost < math.inf else 0.0,
        gigabytes=task.bytes_moved / cost / 1e9 if 0 < cost < math.inf else 0.0,
        share=best_known / cost if cost < math.inf else 0.0,
        reach=tuple(_reach(runs, share, best_known) for share in SHARES),
        area=median([run.area(best_known, trials) for run in runs]),
        invalid=_share_of_trials(runs, lambda run: run.invalid),
        not_recorded=_share_of_trials(runs, lambda run: run.not_recorded) if task.simulated else None,
        overhead=median([run.tuner_seconds / max(len(run.curve), 1) for run in runs]),
        seconds=median([run.seconds for run in runs]),
        accuracy=_median_of_models([run.model.pairwise_accuracy for run in runs if run.model is not None]),
        correlation=_median_of_models([run.model.rank_correlation for run in runs if run.model is not None]),
        unit=task.unit,
    )


def _reach(runs: Sequence[Run], share: float, best_known: float) -> Reach:
    counts = [run.trials_to(best_known / share) for run in runs]
    return Reach(share, median(counts), sum(count < math.inf for count in counts), len(runs))


def _share_of_trials(runs: Sequence[Run], count: Callable[[Run], int]) -> float:
    return sum(map(count, runs)) / max(sum(len(run.curve) for run in runs), 1)


def _median_of_models(values: Sequence[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return median(known) if known else None
