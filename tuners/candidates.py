"""Candidates for a model to choose from: some from anywhere, some from around the best measured so far."""

from __future__ import annotations

import numpy as np

from pegbox.search.protocols import Floats
from pegbox.tuners.explored import Digits, Explored


class CandidatePool:
    """Random configurations that are kept from batch to batch, a part of them renewed, and relatives of the best.

    Keeping most of them saves computing their features again, and hardly costs variety: what is not chosen was looked
    at by a model that knew less. Relatives are neighbours, neighbours of these, and crossings of the `parents` best.
    """

    def __init__(self, explored: Explored, rng: np.random.Generator, *, anywhere: int, near: int) -> None:
        self._explored, self._space, self._rng = explored, explored.space, rng
        self._anywhere, self._near = anywhere, near
        self.sample: Digits = self._space.sample(anywhere, rng)

    def around(self, rows: Digits, costs: Floats) -> Digits:
        """New candidates, none of them explored, no two the same, given what was measured."""
        self._renew()
        pool = np.concatenate([self._relatives(rows, costs), self.sample])
        return pool[self._explored.fresh(pool)]

    def _renew(self) -> None:
        """Drop what is explored, and the oldest quarter."""
        kept = self.sample[self._explored.fresh(self.sample)][: self._anywhere * 3 // 4]
        new = self._space.sample(self._anywhere - len(kept), self._rng)
        self.sample = np.concatenate([new, kept])

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
