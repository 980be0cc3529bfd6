"""Targets reached: the runtime distributions of the COCO platform, and expected runtimes.

A target is a share of the best known speed. The empirical distribution over all pairs of a space and a target (and all
seeds) is the share of them that a tuner has reached after each trial. The expected runtime is the number of trials of
all runs, successful or not, divided by the number of successes, which is that of a tuner that restarts after each
failure.

Hansen, Auger, Ros, Mersmann, Tušar, Brockhoff, "COCO: a platform for comparing continuous optimizers in a black-box
setting", Optimization Methods and Software 36 (2021).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pegbox.comparison.runs import Run

TARGETS = tuple(1.0 / (1.0 + 10.0 ** (-place / 10.0)) for place in range(21))
"""The shares of the best known speed: excess costs from 100% to 1% in even steps of their logarithm."""


def reached(runs: Sequence[Run], best_known: float, trials: int) -> NDArray[np.float64]:
    """Compute, after each trial, the share of reached pairs of a run and a target on a space."""
    counts = np.array([run.trials_to(best_known / target) for run in runs for target in TARGETS])
    return np.array([np.mean(counts <= trial) for trial in range(1, trials + 1)])


def expected_runtime(runs: Sequence[Run], cost: float, trials: int) -> float:
    """Compute the expected number of trials to a cost, infinite if no run reached it."""
    counts = [run.trials_to(cost) for run in runs]
    successes = sum(count <= trials for count in counts)
    return sum(min(count, trials) for count in counts) / successes if successes else math.inf
