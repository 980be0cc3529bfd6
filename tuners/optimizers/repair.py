"""Repair of proposals: the valid configuration closest to the point of an optimizer without constraints."""

from __future__ import annotations

import numpy as np

from pegbox.space import ListedSpace
from pegbox.tuners.rows import Digits, every_row
from pegbox.tuners.surrogates.inputs import KnobInputs
from pegbox.tuners.visited_set import VisitedSet

NEIGHBORS, SAMPLES, ROUNDS = 48, 16, 4
"""The numbers of a point's neighbours, of random configurations to cross it with, and of rounds of both."""


class Repair:
    """A function that finds the closest new configuration, by the distances of a Gaussian process over the knobs.

    In a listed or small space, that is the closest of all; elsewhere, the closest among the point's neighbours and its
    crossings with valid configurations.
    """

    def __init__(self, visited: VisitedSet, rng: np.random.Generator) -> None:
        self._visited, self._space, self._rng = visited, visited.space, rng
        self._inputs = KnobInputs(self._space)
        self._all = self._space.rows if isinstance(self._space, ListedSpace) else every_row(self._space)
        self._points = None if self._all is None else self._inputs(self._all)

    def __call__(self, row: Digits) -> Digits | None:
        """Return a new valid row, the given one (knobs,) if possible; None if the space is exhausted."""
        rows: Digits = row[None, :]
        if self._space.is_valid(rows)[0] and len(self._visited.fresh(rows)):
            return row
        if self._all is not None and self._points is not None:
            fresh = self._visited.fresh(self._all)
            distances = ((self._points[fresh] - self._inputs(rows)) ** 2).sum(axis=1)
            return self._all[fresh[distances.argmin()]] if len(fresh) else None
        around = np.repeat(rows, NEIGHBORS, axis=0)
        for _ in range(ROUNDS):
            valid = self._space.sample(SAMPLES, self._rng)
            crossed = self._space.crossover(np.repeat(rows, len(valid), axis=0), valid, self._rng)
            found = np.concatenate([self._space.neighbors(around, self._rng), crossed])
            found = found[self._space.is_valid(found)]
            fresh = self._visited.fresh(found)
            if len(fresh):
                distances = ((self._inputs(found[fresh]) - self._inputs(rows)) ** 2).sum(axis=1)
                return np.asarray(found[fresh[distances.argmin()]])
            around = found[self._rng.integers(0, len(found), NEIGHBORS)] if len(found) else around
        left = self._visited.sample(1, self._rng)
        return left[0] if len(left) else None
