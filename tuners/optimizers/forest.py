"""The tuner `forest`: expected improvement of a forest of extremely randomised trees, as in scikit-optimize.

Hutter, Hoos and Leyton-Brown, "Sequential Model-Based Optimization for General Algorithm Configuration" (LION 2011);
Geurts, Ernst and Wehenkel, "Extremely Randomized Trees" (Machine Learning 63, 2006). scikit-optimize is no longer
maintained; its defaults are kept here over scikit-learn: the trees, the start, and the random candidates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pegbox.checks import check_float, check_int
from pegbox.search import Floats
from pegbox.tuners.optimizers.library_tuner import FiniteCosts, LibraryTuner
from pegbox.tuners.rows import Digits, every_row

CANDIDATES = 2000
"""The number of random candidates for each trial."""


class ForestTuner(LibraryTuner):
    """Measures the candidate of largest expected improvement by a forest of scikit-learn.

    `trees` is the number of trees, `start` the number of random trials before the first forest, and `xi` the least
    improvement, as a share of the standard deviation of the costs. Candidates are drawn from the space, so that nothing
    is repaired.
    """

    package = "scikit-learn"
    extra = "forest"
    modules = ("sklearn.ensemble",)

    def __init__(self, space: Any, *, seed: int = 0, trees: int = 100, start: int = 10, xi: float = 0.01) -> None:
        super().__init__(space, seed=seed, trees=trees, start=start, xi=xi)

    def begin(self, seed: int, *, trees: int = 100, start: int = 10, xi: float = 0.01) -> None:
        from sklearn import ensemble

        self._ensemble: Any = ensemble
        self._trees, self._start = check_int("trees", trees), check_int("start", start, minimum=2)
        self._xi, self._seed = check_float("xi", xi), seed % 2**31
        self._all = every_row(self._space)
        self._rows: list[Digits] = []
        self._costs: list[float] = []
        self._forest: Any = None
        self._finite = FiniteCosts()

    def propose(self) -> tuple[Digits, Any]:
        new = self._visited.sample(1, self._rng) if self._all is None or len(self._rows) < self._start else self._all
        if self._all is None and len(self._rows) >= self._start:
            new = self._space.sample(CANDIDATES, self._rng)
        new = new[self._visited.fresh(new)]
        if not len(new):
            return np.zeros(len(self._space.knobs), dtype=np.int64), None
        if len(self._rows) < self._start:
            return new[self._rng.integers(len(new))], None
        return new[int(np.argmax(self._improvement(new)))], None

    def learn(self, row: Digits, handle: Any, cost: float) -> None:
        self._rows.append(row)
        self._costs.append(self._finite(cost))
        self._forest = None

    def _improvement(self, rows: Digits) -> Floats:
        """Compute the expected improvement on the best cost, (n,)."""
        from scipy.stats import norm

        costs = np.array(self._costs)
        costs = (costs - costs.mean()) / (costs.std() or 1.0)
        if self._forest is None:
            self._forest = self._ensemble.ExtraTreesRegressor(
                n_estimators=self._trees, min_samples_leaf=3, random_state=self._seed + len(costs)
            ).fit(self._space.encode(np.array(self._rows)), costs)
        encoded = self._space.encode(rows)
        means = np.zeros((self._trees, len(rows)))
        noises = np.zeros_like(means)
        for place, one in enumerate(self._forest.estimators_):
            leaves = one.apply(encoded)
            means[place] = one.tree_.value[leaves, 0, 0]
            noises[place] = one.tree_.impurity[leaves]
        mean = means.mean(axis=0)
        deviation = np.sqrt(np.maximum(means.var(axis=0) + noises.mean(axis=0), 1e-12))
        better = costs.min() - self._xi - mean
        improvement: Floats = better * norm.cdf(better / deviation) + deviation * norm.pdf(better / deviation)
        return improvement
