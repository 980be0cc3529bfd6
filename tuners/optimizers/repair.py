"""Repair of proposals: the valid configuration closest to a point that an optimizer without constraints gives."""

from __future__ import annotations

import numpy as np

from pegbox.space import ListedSpace
from pegbox.tuners.rows import Digits, every_row
from pegbox.tuners.surrogates.inputs import KnobInputs
from pegbox.tuners.visited_set import VisitedSet

NEIGHBORS, SAMPLES, ROUNDS = 48, 16, 4
"""The neighbours of a point and the random configurations that it is crossed with, and the rounds of both."""


class Repair:
    """Finds the closest new configuration, by the distances of a Gaussian process over the knobs.

    In a space that is listed or small that is the closest of all, and elsewhere the closest among neighbours of the
    point, and crossings of the point with valid configurations.
    """

    def __init__(self, visited: VisitedSet, rng: np.random.Generator) -> None:
        self._visited, self._space, self._rng = visited, visited.space, rng
        self._inputs = KnobInputs(self._space)
        self._all = self._space.rows if isinstance(self._space, ListedSpace) else every_row(self._space)
        self._points = None if self._all is None else self._inputs(self._all)

    def __call__(self, row: Digits) -> Digits | None:
        """Return a new valid row, the given one (knobs,) if it is; None where the space is used up."""
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
