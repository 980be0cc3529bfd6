"""Tuners that may know the answer, because they reach the optimum in their first trials too often for chance.

A recorded space is a file that a tuner can read, and a tuner may have learned from the very space of the comparison.
Both can be detected: after the common start, random draws without replacement find one of the w best of N
configurations within t trials with the probability 1 - C(N - w, t) / C(N, t). The number of such runs is compared with
the distribution of the sum of these independent trials, space by space.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pegbox.comparison.runs import Run, TaskInfo

FIRST = 3
"""The number of a run's first own trials that count."""

LEVEL = 1e-6
LEAST_SHARE = 0.5
"""The share of lucky runs from which a tuner is suspicious, since a good tuner has a few on easy spaces."""

MOST_LIKELY = 0.05
"""The largest probability of luck for a space to count."""


@dataclass(frozen=True)
class Suspicion:
    """A suspicious tuner: `hits` of `runs` reached the optimum in its first trials, by chance with probability `p`."""

    tuner: str
    hits: int
    runs: int
    p: float
    experienced: bool

    def __str__(self) -> str:
        why = "its experience may contain these spaces" if self.experienced else "it may know the answers"
        return (
            f"{self.tuner} is at the optimum within its first {FIRST} trials in {self.hits} of {self.runs} runs, by "
            f"chance with p = {self.p:.1g}: {why}"
        )


def suspicion(tuner: str, runs: Sequence[tuple[TaskInfo, Run]], start: int) -> Suspicion | None:
    """Judge a tuner by its runs; None if luck, or skill, explains them."""
    counted: list[tuple[float, bool, bool]] = []
    for task, run in runs:
        chance = _chance(task)
        if chance is None or task.landscape is None or chance > MOST_LIKELY:
            continue
        hit = run.trials_to(task.landscape.optimum * (1 + 1e-9)) <= start + FIRST
        counted.append((chance, hit, run.experienced))
    hits = sum(hit for _, hit, _ in counted)
    if not counted or hits < LEAST_SHARE * len(counted):
        return None
    p = _at_least(hits, [chance for chance, _, _ in counted])
    return Suspicion(tuner, hits, len(counted), p, any(told for *_, told in counted)) if p < LEVEL else None


def _chance(task: TaskInfo) -> float | None:
    """Compute the probability that random draws find an optimum; None if the number of configurations is unknown."""
    size, tries = task.configurations, FIRST
    if size is None or size <= tries:
        return None
    best = 1 if task.landscape is None else task.landscape.optima
    return 1.0 - math.prod(max(size - best - drawn, 0) / (size - drawn) for drawn in range(tries))


def _at_least(hits: int, chances: Sequence[float]) -> float:
    """Compute the probability of at least `hits` successes of independent trials."""
    ways = np.zeros(len(chances) + 1)
    ways[0] = 1.0
    for chance in chances:
        ways[1:] = ways[1:] * (1 - chance) + ways[:-1] * chance
        ways[0] *= 1 - chance
    return float(min(1.0, ways[hits:].sum()))
