"""Droplet search: coordinate descent with a statistical test.

Canesche, Rosário, Borin and Quintão Pereira, "The Droplet Search Algorithm for Kernel Scheduling" (ACM Transactions on
Architecture and Code Optimization 21, 2024). Their premise is that good configurations are reached from a start by
steps of one coordinate at a time, each of which makes the kernel faster. As in the paper, a step has to be
significantly faster, and the search looks ahead in the direction that helped. What is different: descents start at the
best of a few random configurations, and where no step helps, pairs of steps are tried and then another descent begins,
so that the search ends only when the space does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pegbox.checks import check_float, check_int
from pegbox.measure import Ok, Result
from pegbox.search import BaseTuner, Floats
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.rows import Digits, rows_of
from pegbox.tuners.steps import Steps
from pegbox.tuners.visited_set import VisitedSet


@dataclass(frozen=True)
class Measurement:
    """A row of digits and what it cost: the median, and every repeat (none of a failed trial)."""

    row: Digits
    cost: float
    repeats: tuple[float, ...]


class DropletTuner(BaseTuner):
    """Goes down from a start, one knob at a time, as long as a step is significantly faster.

    A descent begins at the best of `starts` random configurations, those told before it included. Then the neighbours
    of where it stands are measured: each knob a step up and a step down. It moves to the fastest of what came back if
    that is faster at the level `pvalue`, by Welch's t-test on the logarithms of the repeats; without repeats, being
    faster is enough. Up to `reach` further steps in the same direction are tried along with the next neighbours. Where
    no neighbour is better, `plane` pairs of steps are measured, and after them the next descent begins.
    """

    batch_size = 8
    """A step is made as soon as one is found, so small batches waste less."""

    def __init__(
        self,
        space: ConfigSpace,
        *,
        seed: int = 0,
        pvalue: float = 0.05,
        starts: int = 8,
        reach: int = 2,
        plane: int = 12,
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._visited = VisitedSet(space)
        self._steps = Steps(space)
        self._pvalue = check_float("pvalue", pvalue, maximum=1.0)
        self._starts = check_int("starts", starts)
        self._reach = check_int("reach", reach, minimum=0)
        self._plane = check_int("plane", plane, minimum=0)
        self._centre: Measurement | None = None
        self._arrived: list[Measurement] = []
        self._waiting: Digits = np.empty((0, len(space.knobs)), dtype=np.int64)
        self._blocks = self._descents()

    def ask(self, n: int) -> list[Config]:
        self._move()
        places = self._visited.fresh(self._waiting)
        while not len(places):
            block = next(self._blocks, None)
            if block is None:
                return []
            self._waiting = block
            places = self._visited.fresh(block)
        asked, self._waiting = self._waiting[places[:n]], self._waiting[places[n:]]
        return self._visited.configs(asked)

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self._visited.mark(configs)
        self._arrived += [
            Measurement(row, result.cost, result.costs if isinstance(result, Ok) else ())
            for row, result in zip(rows_of(configs), results, strict=True)
        ]

    def _move(self) -> None:
        """Move to the fastest of what arrived, if it is better; what was waiting near the old place is dropped."""
        if self._centre is None:
            return
        best = min(self._arrived, key=lambda measured: measured.cost, default=self._centre)
        self._arrived = []
        if faster(best, self._centre, self._pvalue):
            self._waiting = self._steps.ahead(self._centre.row, best.row, self._reach)
            self._centre = best
            self._blocks = self._descents()

    def _descents(self) -> Iterator[Digits]:
        """Yield rows to measure: around the centre while there is one, then elsewhere, until the space is used up."""
        while True:
            while self._centre is None:
                missing = self._starts - len(self._arrived)
                if missing <= 0:
                    self._begin()
                elif len(rows := self._visited.sample(missing, self._rng)):
                    yield rows
                else:
                    return
            yield self._steps.line(self._centre.row, self._rng)
            yield self._steps.plane(self._centre.row, self._plane, self._rng)
            self._centre = None

    def _begin(self) -> None:
        """Stand on the best of what arrived; if all of it failed, on nothing."""
        best = min(self._arrived, key=lambda measured: measured.cost)
        self._centre = best if math.isfinite(best.cost) else None
        self._arrived = []


def faster(one: Measurement, other: Measurement, pvalue: float) -> bool:
    """Decide whether `one` is faster than `other`, and with repeats of both: whether that is unlikely to be chance."""
    if not one.cost < other.cost:
        return False
    if min(len(one.repeats), len(other.repeats)) < 2:
        return True
    return welch(np.log(one.repeats), np.log(other.repeats)) <= pvalue


def welch(one: Floats, other: Floats) -> float:
    """The one-sided p-value that the mean of `one` is less than that of `other`: Welch (Biometrika 34, 1947)."""
    from scipy.special import stdtr  # slow to import

    parts = np.array([one.var(ddof=1) / len(one), other.var(ddof=1) / len(other)])
    difference = float(one.mean() - other.mean())
    if not parts.sum():
        return 0.0 if difference < 0 else 1.0
    freedom = parts.sum() ** 2 / float((parts**2 / [len(one) - 1, len(other) - 1]).sum())
    return float(stdtr(freedom, difference / math.sqrt(parts.sum())))
