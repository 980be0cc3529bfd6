"""Candidates for a model to score: random configurations, and relatives of the best measured."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TypeAlias

import numpy as np

from pegbox.search import Floats
from pegbox.tuners.rows import Digits, every_row
from pegbox.tuners.visited_set import VisitedSet

Affordable: TypeAlias = Callable[[Digits, int], Digits]
"""A function that selects rows with at most so many new classes of programs, which a model can score quickly."""

BEGIN = 4
"""The number of classes of programs among the first random configurations, for each one that a later batch adds."""


def _all(rows: Digits, classes: int) -> Digits:
    return rows


class CandidatePool:
    """Random configurations, kept from batch to batch and partly renewed, and relatives of the best.

    There are `begin` random ones in the first batch, and twice as many from batch to batch until there are `anywhere`.
    Keeping most of them saves computing their features again, and hardly costs variety, because a less experienced
    model scored those that were not chosen. Relatives are neighbours, neighbours of these, and crossings of the best.

    Relatives add at most `classes` classes of programs to a batch; random configurations and neighbours add half as
    many.
    """

    def __init__(
        self,
        visited: VisitedSet,
        rng: np.random.Generator,
        *,
        anywhere: int,
        near: int,
        begin: int,
        classes: int,
        affordable: Affordable = _all,
    ) -> None:
        self._visited, self._space, self._rng = visited, visited.space, rng
        self._anywhere, self._near, self._classes, self._affordable = anywhere, near, classes, affordable
        self._every_row = every_row(self._space)
        self.sample: Digits = affordable(self._space.sample(min(begin, anywhere), rng), BEGIN * classes)
        """A random sample of the space."""

    def around(self, rows: Digits, costs: Floats) -> Digits:
        """Return distinct new candidates, given the measured rows and their costs."""
        if self._every_row is not None:
            return self._every_row[self._visited.fresh(self._every_row)]
        relatives = self._affordable(self._fresh(self._relatives(rows, costs)), self._classes)
        found = self._fresh(np.concatenate([relatives, self.sample]))
        # Drop visited ones, and the oldest eighth if there are enough.
        wanted = min(2 * len(self.sample), self._anywhere)
        kept = self._fresh(self.sample)[: self._anywhere * 7 // 8]
        renewed = self._affordable(self._space.sample(wanted - len(kept), self._rng), self._classes // 2)
        self.sample = np.concatenate([renewed, kept])
        return found

    def neighbors(self, rows: Digits, *, but: Set[bytes], cross: bool = False) -> Digits:
        """Return new candidates next to `rows` whose keys are not in `but`; none if the whole space is scored.

        With `cross`, half of them are crossed with the rows, because steps of one number at a time do not follow a
        valley.
        """
        if self._every_row is not None:
            return rows[:0]
        near = self._space.neighbors(rows, self._rng)
        if cross:
            near[1::2] = self._space.crossover(near[1::2], self._rng.permutation(rows)[: len(near[1::2])], self._rng)
        found = self._affordable(near, self._classes // 2)
        return found[self._visited.fresh(found, but=but)]

    def _fresh(self, rows: Digits) -> Digits:
        return rows[self._visited.fresh(rows)]

    def _relatives(self, rows: Digits, costs: Floats) -> Digits:
        order = np.argsort(costs, kind="stable")
        order = order[np.isfinite(costs[order])]
        if not len(order):
            return rows[:0]
        third = self._near // 3
        ranks = np.minimum(self._rng.geometric(0.25, 4 * third) - 1, len(order) - 1)
        parents = rows[order[ranks]]
        neighbors = self._space.neighbors(parents[: 2 * third], self._rng)
        second = self._space.neighbors(neighbors[:third], self._rng)
        crossed = self._space.crossover(parents[2 * third : 3 * third], parents[3 * third :], self._rng)
        return np.concatenate([neighbors[third:], second, crossed])
