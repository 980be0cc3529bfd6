"""A search of a space by a model alone, for the configurations that the model expects to be fastest.

Random configurations cover little of a large space, and their best is not the model's best. So relatives of the best
are scored, too, as Ansor does between its measurements (Zheng et al., OSDI 2020, section 5). A model's fastest
configuration is partly its largest error. If a configuration's neighbours are expected to be fast as well, an error is
less likely, so the first ones are ordered by both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from pegbox.features.program import ProgramFeatures
from pegbox.search.protocols import Features, Floats
from pegbox.space.digits import Digits, Finding, first_of_each

Scoring: TypeAlias = Callable[[Features], Floats]

CLASSES = 16
"""The number of kinds of programs among the random configurations.

Another kind costs as much as a thousand more configurations of one kind.
"""

NEAR_CLASSES = 20
"""The number of kinds of programs among these and all relatives."""

STEPS = 2
"""The number of generations of relatives."""

PARENTS, RELATIVES = 40, 60
"""The number of best rows to make relatives of, and of each kind: neighbours twice, their neighbours, crossings."""

STEADY, NEIGHBORS = 32, 12
"""The number of first configurations ordered by their neighbours' scores as well, and the number of neighbours."""


class ModelSearch:
    """A search of the space of `source.task` by scores of features.

    Args:
        score: a function that computes the scores of rows of features; higher is faster.
        wanted: a function that finds the rows whose kinds of programs come before others.
    """

    def __init__(
        self, source: ProgramFeatures, score: Scoring, rng: np.random.Generator, wanted: Finding | None = None
    ) -> None:
        self._source, self._score, self._rng, self._wanted = source, score, rng, wanted
        self._space = source.task.space

    def ranked(self, count: int) -> Digits:
        """Return valid configurations, best score first, among `count` random ones and their relatives.

        Raises `SpaceError` if no configuration of the space is valid.
        """
        rows = self._source.sample(min(count, self._space.size), self._rng, classes=CLASSES, wanted=self._wanted)
        scores = self._scores(rows)
        for _ in range(STEPS):
            best = rows[np.argsort(-scores, kind="stable")[:PARENTS]]
            new = self._among_few(rows, self._relatives(best))
            rows, scores = np.concatenate([rows, new]), np.concatenate([scores, self._scores(new)])
        order = np.argsort(-scores, kind="stable")
        order = order[np.isfinite(scores[order])]
        first = order[:STEADY]
        steady = self._neighbors_mean(rows, first, scores[first]) + scores[first]
        order[:STEADY] = first[np.argsort(-steady, kind="stable")]
        return rows[order]

    def _scores(self, rows: Digits) -> Floats:
        """Score rows; a row that the template refuses gets minus infinity."""
        features = self._source(rows)
        return np.where(features[:, self._source.names.index("invalid")] > 0, -np.inf, self._score(features))

    def _relatives(self, best: Digits) -> Digits:
        parents = best[self._rng.integers(0, len(best), 5 * RELATIVES)]
        near = self._space.neighbors(parents[: 3 * RELATIVES], self._rng)
        second = self._space.neighbors(near[:RELATIVES], self._rng)
        ones, others = np.split(parents[3 * RELATIVES :], 2)
        return np.concatenate([near[RELATIVES:], second, self._space.crossover(ones, others, self._rng)])

    def _among_few(self, rows: Digits, relatives: Digits) -> Digits:
        """Choose new relatives such that they and the rows belong to few classes."""
        every = np.concatenate([rows, relatives])
        every = every[first_of_each(every, self._space.structure.lengths)]
        return every[len(rows) :][self._source.within(every, classes=NEAR_CLASSES)[len(rows) :]]

    def _neighbors_mean(self, rows: Digits, places: Digits, scores: Floats) -> Floats:
        """Compute the mean score of each row and of those of its neighbours that are cheap to score."""
        every = np.concatenate([rows, self._space.neighbors(np.repeat(rows[places], NEIGHBORS, axis=0), self._rng)])
        cheap = self._source.within(every, classes=NEAR_CLASSES)[len(rows) :]
        found = np.full(len(cheap), np.nan)
        found[cheap] = self._scores(every[len(rows) :][cheap])
        found[~np.isfinite(found)] = np.nan
        return np.asarray(np.nanmean(np.column_stack([found.reshape(-1, NEIGHBORS), scores]), axis=1))
