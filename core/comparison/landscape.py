"""`Landscape`: the features of a space with known costs, and random search's expectation on it.

Random search without replacement needs no simulation: of n draws from N configurations, the k-th best is the best of
the draws with the probability C(N - k, n - 1) / C(N, n). A failed draw leaves the best unchanged; until a valid one is
drawn, the slowest valid configuration counts as the best.

The two features of ruggedness are rank correlations, which are invariant under monotone changes of the costs: of a
configuration's cost with that of its nearest one (the autocorrelation of Weinberger, 1990, at the smallest step), and
with the distance to the best (Jones and Forrest, 1995). Distances count the knobs that differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pegbox.comparison.statistics import rank_correlation
from pegbox.records.recorded_space import RecordedSpace, seconds_of
from pegbox.search.objective import Objective, ObjectiveMeasurer

Floats = NDArray[np.float64]

MOST_EVALUATED = 5_000
"""The largest number of a function's configurations to evaluate completely."""

SAMPLED = 5_000
"""The number of configurations to draw from a larger space."""

_PAIRS = 600
"""The largest number of configurations for computing distances."""


@dataclass(frozen=True)
class Landscape:
    """The features of a space.

    Attributes:
        knobs: the number of knobs.
        failures: the share of configurations that fail.
        optimum, median, slowest: costs of the configurations that run.
        random: the expected best of random search after 1, 2, ... trials.
        random_trials: the expected number of random trials to 95% of the best speed.
        autocorrelation, fitness_distance: see the module; NaN if a space is too small.
        seconds: the mean time of a trial, compiling and running; 1 if trials take negligible time.
        sampled: True if it was computed from a sample; the optimum may be known nevertheless.
        optima: the number of configurations known to have the lowest cost, at least 1.
    """

    knobs: int
    failures: float
    optimum: float
    median: float
    slowest: float
    random: tuple[float, ...]
    random_trials: float
    autocorrelation: float = math.nan
    fitness_distance: float = math.nan
    seconds: float = 1.0
    sampled: bool = False
    optima: int = 1


def recorded_landscape(recorded: RecordedSpace, trials: int) -> Landscape:
    """Compute the landscape of a recorded space, with random search's expected best after up to `trials` trials."""
    digits = np.array([config.digits for config in recorded.results], dtype=np.int64)
    costs = np.array([result.cost for result in recorded.results.values()])
    times = [sum(seconds_of(result)) for result in recorded.results.values()]
    return _landscape(digits, costs, trials, seconds=float(np.mean(times)) or 1.0)


def objective_landscape(objective: Objective, trials: int, optimum: float | None) -> Landscape:
    """Compute the landscape of a function, from its whole space or from a sample of a large one.

    Args:
        optimum: the lowest cost, if it is known; by default the lowest one found.
    """
    space = objective.space
    valid = space.num_valid() if space.size <= 10 * MOST_EVALUATED else None
    whole = valid is not None and valid <= MOST_EVALUATED
    if whole:
        configs = list(space.iterate())
    else:
        rows = space.sample(SAMPLED, np.random.default_rng(0))
        configs = [space.config(tuple(row)) for row in rows.tolist()]
    costs = np.array([result.cost for _, result in ObjectiveMeasurer(objective).measure(configs)])
    digits = np.array([config.digits for config in configs], dtype=np.int64)
    return _landscape(digits, costs, trials, seconds=1.0, optimum=optimum, sampled=not whole)


def expected_best(costs: Floats, trials: int) -> Floats:
    """Compute the expected best of 1, 2, ... draws without replacement; infinite costs are failures."""
    valid = np.sort(costs[np.isfinite(costs)])
    ordered = np.concatenate([valid, np.full(len(costs) - len(valid), valid[-1])])
    steps, size = np.diff(ordered), len(ordered)
    beyond = np.arange(size - 1, 0, -1.0)  # the number of configurations worse than the k-th best
    missed = np.ones(size - 1)  # the probability that none of the k best was drawn
    found = []
    for drawn in range(trials):
        if drawn < size:
            missed = missed * np.maximum(beyond - drawn, 0.0) / (size - drawn)
        found.append(ordered[0] + float(steps @ missed))
    return np.array(found)


def expected_trials(costs: Floats, cost: float) -> float:
    """Compute the expected number of draws without replacement until one costs at most `cost`."""
    good = int(np.count_nonzero(costs <= cost))
    return (len(costs) + 1) / (good + 1) if good else math.inf


def _landscape(
    digits: NDArray[np.int64],
    costs: Floats,
    trials: int,
    *,
    seconds: float,
    optimum: float | None = None,
    sampled: bool = False,
) -> Landscape:
    valid = costs[np.isfinite(costs)]
    best = float(valid.min()) if optimum is None else optimum
    near, far = _correlations(digits, costs)
    return Landscape(
        knobs=digits.shape[1],
        failures=1.0 - len(valid) / len(costs),
        optimum=best,
        median=float(np.median(valid)),
        slowest=float(valid.max()),
        random=tuple(expected_best(costs, trials).tolist()),
        random_trials=expected_trials(costs, best / 0.95),
        autocorrelation=near,
        fitness_distance=far,
        seconds=seconds,
        sampled=sampled,
        optima=max(int(np.count_nonzero(valid <= best)), 1),
    )


def _correlations(digits: NDArray[np.int64], costs: Floats) -> tuple[float, float]:
    """Compute the correlation with the nearest configuration, and with the distance to the best one."""
    ran = np.isfinite(costs)
    digits, costs = digits[ran], costs[ran]
    if len(costs) < 3:
        return math.nan, math.nan
    to_best = np.count_nonzero(digits != digits[np.argmin(costs)], axis=1)
    chosen = np.random.default_rng(0).permutation(len(costs))[:_PAIRS]
    distances = np.stack([np.count_nonzero(digits != row, axis=1) for row in digits[chosen]]).astype(float)
    distances[np.arange(len(chosen)), chosen] = np.inf
    mixed = np.random.default_rng(1).permutation(len(costs))  # choose randomly among equally near ones
    nearest = mixed[np.argmin(distances[:, mixed], axis=1)]
    return rank_correlation(costs[chosen], costs[nearest]), rank_correlation(costs, to_best.astype(float))
