"""The data of a comparison's charts: share of the best known speed per trial, share of runs at the target."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pegbox.comparison.statistics import median, quantile

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison


@dataclass(frozen=True)
class Band:
    """After each trial, over the seeds: the median of what is shown and its lower and upper quartile."""

    low: tuple[float, ...]
    middle: tuple[float, ...]
    high: tuple[float, ...]


def band_of(report: Comparison, task: str, tuner: str) -> Band:
    """The share of the best known speed after each trial; 0 until something valid is found."""
    runs, best_known = report.runs_of(task)[tuner], report.best_known(task)
    columns = [[_share(best_known, run.best_after(count)) for run in runs] for count in range(1, report.trials + 1)]
    return Band(
        low=tuple(quantile(column, 0.25) for column in columns),
        middle=tuple(median(column) for column in columns),
        high=tuple(-quantile([-value for value in column], 0.25) for column in columns),
    )


def arrivals(report: Comparison, task: str, tuner: str, target: float) -> tuple[float, ...]:
    """After each trial, the share of the runs that have come to the share `target` of the best known speed."""
    cost = report.best_known(task) / target
    counts = [run.trials_to(cost) for run in report.runs_of(task)[tuner]]
    return tuple(sum(count <= trial for count in counts) / len(counts) for trial in range(1, report.trials + 1))


def lowest_shown(bands: Iterable[Band]) -> float:
    """Choose the lower end of the axis of shares: the first twentieth of the trials does not compress the rest."""
    lows = [band.middle[min(len(band.middle) // 20, len(band.middle) - 1)] for band in bands]
    return min(0.8, math.floor(10 * min(lows, default=0.0)) / 10)


def _share(best_known: float, cost: float) -> float:
    return best_known / cost if cost < math.inf else 0.0
