"""Droplet search: coordinate descent with a statistical test.

Canesche, Rosário, Borin and Quintão Pereira, "The Droplet Search Algorithm for Kernel Scheduling" (ACM Transactions on
Architecture and Code Optimization 21, 2024). Its premise is that steps of one coordinate at a time, each of which makes
the kernel faster, lead from a start to good configurations. As in the paper, a step must be significantly faster, and
the search looks ahead in a successful direction. But descents start at the best of a few random configurations, and if
no step helps, pairs of steps are tried and then another descent begins, so that the search ends only when the space is
exhausted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pegbox.checks import check_float, check_int
from pegbox.measure import Ok, Result
from pegbox.search import BaseTuner, Floats
from pegbox.space import Config, ConfigSpace, nearest
from pegbox.tuners.rows import Digits, rows_of
from pegbox.tuners.visited_set import VisitedSet

MOST = 8
"""The largest number of values of a knob without order to try at once."""

NEAREST = 4
"""The number of closest values to try if values have more than one coordinate (such as the factors of a split)."""

PADDING = 16
"""The number of neighbours to request from the space if it excludes most steps; some of them are equal."""

LONGEST, SHRINKING, SHORTEST = 0.125, 4.0, 1e-5
"""The first step on the line of a range, as a share of it; the factor by which it shrinks; and the shortest."""

TABLE_LIMIT = 2048
"""The largest number of a knob's values with tabulated distances; beyond it, the space provides neighbours."""


@dataclass(frozen=True)
class Measurement:
    """A row of digits and its cost: the median, and every repeat (none for a failed trial)."""

    row: Digits
    cost: float
    repeats: tuple[float, ...]


class DropletTuner(BaseTuner):
    """A tuner that descends from a start, one knob at a time, as long as a step is significantly faster.

    A descent begins at the best of `starts` random configurations, earlier trials included. Then the neighbours of the
    place are measured: for each knob, a step up and a step down. It moves to the fastest of these if that is faster at
    the level `pvalue`, by Welch's t-test on the logarithms of the repeats; without repeats, being faster is enough. Up
    to `reach` further steps in the same direction are tried along with the next neighbours. If no neighbour is better,
    `plane` pairs of steps are measured, and then the next descent begins. On the line of a range, steps begin long;
    before the next descent they shrink, as in a pattern search: Hooke and Jeeves, "Direct Search" (JACM 8, 1961).
    """

    batch_size = 8
    """The batch size, small because a step is made as soon as one is found."""

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
        """Move to the fastest new trial, if it is better, and drop the rows waiting near the old place."""
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
                    # The best of the starts; if all of them failed, another few are drawn.
                    best = min(self._arrived, key=lambda measured: measured.cost)
                    self._centre, self._arrived = best if math.isfinite(best.cost) else None, []
                elif len(rows := self._visited.sample(missing, self._rng)):
                    yield rows
                else:
                    return
            yield self._steps.line(self._centre.row, self._rng)
            yield self._steps.plane(self._centre.row, self._plane, self._rng)
            if not self._steps.shrink():
                self._centre = None


def faster(one: Measurement, other: Measurement, pvalue: float) -> bool:
    """Decide if `one` is faster than `other`; with repeats of both, the difference must be significant."""
    if not one.cost < other.cost:
        return False
    if min(len(one.repeats), len(other.repeats)) < 2:
        return True
    return welch(np.log(one.repeats), np.log(other.repeats)) <= pvalue


def welch(one: Floats, other: Floats) -> float:
    """Return the one-sided p-value that the mean of `one` is less than that of `other`: Welch (Biometrika 34, 1947)."""
    from scipy.special import stdtr  # slow to import

    parts = np.array([one.var(ddof=1) / len(one), other.var(ddof=1) / len(other)])
    difference = float(one.mean() - other.mean())
    if not parts.sum():
        return 0.0 if difference < 0 else 1.0
    freedom = parts.sum() ** 2 / float((parts**2 / [len(one) - 1, len(other) - 1]).sum())
    return float(stdtr(freedom, difference / math.sqrt(parts.sum())))


class Steps:
    """The neighbours of a configuration in a space.

    A knob whose values are numbers has two: up and down; in a range they are a share of its line away, which `shrink`
    shortens. A knob whose values have several coordinates has the closest ones, and one without order has all its
    values. Rows that the space excludes are left out; if that is most of them, as in a list of recorded trials, the
    space's own neighbours are added.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self._space = space
        self._lines = {column: line for column, line in enumerate(space.structure.lines) if line is not None}
        self._step = LONGEST
        self._orders: dict[int, tuple[Digits, Digits]] = {}
        for column, table in enumerate(space.structure.coordinates):
            if table is not None and table.shape[1] == 1:
                order = np.argsort(table[:, 0], kind="stable").astype(np.int64)
                self._orders[column] = order, np.argsort(order).astype(np.int64)

    def shrink(self) -> bool:
        """Shorten the steps on lines; if they were the shortest, make them long again and return False."""
        self._step /= SHRINKING
        if self._lines and self._step >= SHORTEST:
            return True
        self._step = LONGEST
        return False

    def line(self, row: Digits, rng: np.random.Generator) -> Digits:
        """Return the valid configurations one step of one knob away from `row` (knobs,), in random order."""
        moved = [_with(row, column, digit) for column in range(len(row)) for digit in self._next(row, column, rng)]
        return self._usable(row, moved, rng, hops=1)

    def plane(self, row: Digits, n: int, rng: np.random.Generator) -> Digits:
        """Choose about `n` random valid configurations one step of each of two knobs away."""
        steps = [(column, digit) for column in range(len(row)) for digit in self._next(row, column, rng)]
        moved: list[Digits] = []
        for _ in range(2 * n if steps else 0):
            (one, digit), (other, another) = (steps[place] for place in rng.integers(0, len(steps), 2))
            if one != other:
                moved.append(_with(_with(row, one, digit), other, another))
        return self._usable(row, moved, rng, hops=2)[:n]

    def ahead(self, before: Digits, now: Digits, reach: int) -> Digits:
        """Return the valid configurations up to `reach` steps further in the direction from `before` to `now`."""
        found: list[Digits] = []
        for count in range(1, reach + 1):
            row = now.copy()
            for column in np.flatnonzero(before != now).tolist():
                if (line := self._lines.get(column)) is not None:
                    was, here = line.shares(np.array([before[column], now[column]])).tolist()
                    row[column] = line.at(np.array(here + count * (here - was)))
                elif column in self._orders:
                    order, ranks = self._orders[column]
                    direction = np.sign(ranks[now[column]] - ranks[before[column]])
                    row[column] = order[np.clip(ranks[now[column]] + count * direction, 0, len(order) - 1)]
            found.append(row)
        return self._valid(now, found)

    def _next(self, row: Digits, column: int, rng: np.random.Generator) -> list[int]:
        """Return the digits one step away from a knob's; none if the knob does not exist."""
        structure, digit = self._space.structure, int(row[column])
        length = structure.lengths[column]
        if length < 2 or not structure.active(row.reshape(1, -1))[0, column]:
            return []
        if (line := self._lines.get(column)) is not None:
            share = line.shares(row[column])
            up, down = int(line.at(share + self._step)), int(line.at(share - self._step))
            return [place for place in {max(up, digit + 1), min(down, digit - 1)} if 0 <= place < length]
        if column in self._orders:
            order, ranks = self._orders[column]
            rank = int(ranks[digit])
            return [int(order[place]) for place in (rank - 1, rank + 1) if 0 <= place < length]
        table = structure.coordinates[column]
        if table is not None:
            return nearest(table)[digit][:NEAREST].tolist() if length <= TABLE_LIMIT else []
        others = [other for other in range(length) if other != digit]
        return rng.permutation(others)[:MOST].tolist() if length > MOST + 1 else others

    def _usable(self, row: Digits, moved: list[Digits], rng: np.random.Generator, *, hops: int) -> Digits:
        found = self._valid(row, moved)
        if 2 * len(found) < max(len(moved), 1):
            more = np.repeat(row.reshape(1, -1), PADDING, axis=0)
            for _ in range(hops):
                more = self._space.neighbors(more, rng)
            found = np.concatenate([found, more])
        shuffled: Digits = rng.permutation(found)
        return shuffled

    def _valid(self, row: Digits, moved: list[Digits]) -> Digits:
        rows = np.array(moved, dtype=np.int64).reshape(len(moved), len(row))
        rows = self._space.canonical(rows)
        rows = rows[self._space.is_valid(rows)]
        others: Digits = rows[(rows != row).any(axis=1)]
        return others


def _with(row: Digits, column: int, digit: int) -> Digits:
    changed: Digits = row.copy()
    changed[column] = digit
    return changed
