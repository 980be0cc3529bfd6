"""Performance between random search and the optimum, after Willemsen et al.

After t trials, or a time, the performance is (baseline - best) / (baseline - optimum): 0 for a tuner as good as the
expectation of random search, 1 at the optimum, below 0 for a worse one. The baseline is calculated from all costs of a
space (`pegbox.comparison.landscape`). A score is the mean over the trials up to the cutoff, where random search has
gone 95% of the way from the median to the optimum: after it, little is left to gain, and the quotient is uncertain.

Willemsen, Schoonhoven, Filipovič, Tørring, van Nieuwpoort, van Werkhoven, "A Methodology for Comparing Auto-Tuning
Optimization Algorithms", Future Generation Computer Systems 159 (2024). Their baseline is the cost at the expected rank
of the best draw, among the valid configurations; ours is the expected cost, failures included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pegbox.comparison.landscape import Landscape
from pegbox.comparison.runs import Run

Floats = NDArray[np.float64]

CUTOFF = 0.95
"""The share of the way from the median to the optimum that random search covers by the cutoff."""

_POINTS = 200
"""The number of points of a curve over time."""


def cutoff_trials(landscape: Landscape, trials: int) -> int:
    """Find the trials until random search is expected at the cutoff; at most `trials`, at least 1."""
    goal = landscape.optimum + (1.0 - CUTOFF) * (landscape.median - landscape.optimum)
    return next((n for n, best in enumerate(landscape.random[:trials], start=1) if best <= goal), trials)


def best_costs(run: Run, landscape: Landscape, trials: int) -> Floats:
    """Return the best cost after each trial; until a valid one is found, the slowest of the space."""
    held = [run.best_after(count) for count in range(1, trials + 1)]
    return np.asarray(np.minimum(np.array(held), landscape.slowest))


def performance(runs: Sequence[Run], landscape: Landscape, trials: int) -> Floats:
    """Compute the performance of each run (a row) after each trial up to the cutoff."""
    count = cutoff_trials(landscape, trials)
    best = np.stack([best_costs(run, landscape, count) for run in runs])
    return normalized(best, np.array(landscape.random[:count]), landscape.optimum)


def performance_in_time(runs: Sequence[Run], landscape: Landscape, trials: int) -> Floats:
    """Compute the performance of each run (a row) at times up to that of the cutoff; a tuner's own time counts.

    The times run from that of a mean trial to that of all trials until the cutoff. In runs without recorded times, all
    trials take the same time.
    """
    count = cutoff_trials(landscape, trials)
    times = np.linspace(landscape.seconds, landscape.seconds * count, _POINTS)
    places = np.clip(times / landscape.seconds, 1, count)
    baseline = np.interp(places, np.arange(1, count + 1), landscape.random[:count])
    best = np.stack([_best_in_time(run, landscape, times) for run in runs])
    return normalized(best, baseline, landscape.optimum)


def normalized(best: Floats, baseline: Floats, optimum: float) -> Floats:
    """Put costs on the scale from the baseline, 0, to the optimum, 1; 1 if the baseline is at the optimum."""
    gap = baseline - optimum
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (baseline - best) / gap
    return np.where(gap > 1e-12 * abs(optimum), found, np.where(best <= optimum, 1.0, 0.0))


def _best_in_time(run: Run, landscape: Landscape, times: Floats) -> Floats:
    count = len(run.curve)
    if not count:
        return np.full(len(times), landscape.slowest)
    spent = np.array(run.times) if run.times else landscape.seconds * np.arange(1, count + 1)
    own = run.tuner_seconds / count * np.arange(1, count + 1) if run.times else 0.0
    reached = np.searchsorted(spent + own, times * (1 + 1e-12), side="right")
    best = best_costs(run, landscape, count)
    return np.asarray(
        best[np.maximum(reached, 1) - 1]
    )  # the first result counts from the beginning, like the baseline's


def mean_of_spaces(scores: Sequence[float]) -> float:
    """Compute the mean over spaces; NaN without any."""
    return math.fsum(scores) / len(scores) if scores else math.nan
