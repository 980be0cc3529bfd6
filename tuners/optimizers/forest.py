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
    """A tuner that proposes the candidate with the largest expected improvement by a forest of scikit-learn.

    `trees` is the number of trees, `start` the number of random trials before the first forest, and `xi` the smallest
    improvement, as a share of the standard deviation of the costs. Candidates are drawn from the space, so that none
    need repair.
    """

    package = "scikit-learn"
    extra = "forest"
    modules = ("sklearn.tree",)

    def __init__(self, space: Any, *, seed: int = 0, trees: int = 100, start: int = 10, xi: float = 0.01) -> None:
        super().__init__(space, seed=seed, trees=trees, start=start, xi=xi)

    def begin(self, seed: int, *, trees: int = 100, start: int = 10, xi: float = 0.01) -> None:
        import sklearn.tree

        self._sklearn: Any = sklearn
        self._trees, self._start = check_int("trees", trees), check_int("start", start, minimum=2)
        self._xi, self._seed = check_float("xi", xi), seed % 2**31
        self._all = every_row(self._space)
        self._rows: list[Digits] = []
        self._costs: list[float] = []
        self._forest: list[Any] = []
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
        self._forest = []

    def _improvement(self, rows: Digits) -> Floats:
        """Compute the expected improvement on the best cost, (n,)."""
        from scipy.stats import norm

        costs = np.array(self._costs)
        costs = (costs - costs.mean()) / (costs.std() or 1.0)
        if not self._forest:
            self._forest = self._fitted(costs)
        encoded = np.asarray(self._space.encode(rows), dtype=np.float32)
        means = np.zeros((self._trees, len(rows)))
        noises = np.zeros_like(means)
        for place, tree in enumerate(self._forest):
            leaves = tree.apply(encoded)
            means[place] = tree.value[leaves, 0, 0]
            noises[place] = tree.impurity[leaves]
        mean = means.mean(axis=0)
        deviation = np.sqrt(np.maximum(means.var(axis=0) + noises.mean(axis=0), 1e-12))
        better = costs.min() - self._xi - mean
        improvement: Floats = better * norm.cdf(better / deviation) + deviation * norm.pdf(better / deviation)
        return improvement

    def _fitted(self, costs: Floats) -> list[Any]:
        """Fit the trees of scikit-learn's `ExtraTreesRegressor`.

        The ensemble itself takes twice the time, mostly to clone and check the settings of each tree.
        """
        encoded = np.asarray(self._space.encode(np.array(self._rows)), dtype=np.float32)
        states = np.random.RandomState(self._seed + len(costs)).randint(np.iinfo(np.int32).max, size=self._trees)
        found = []
        with self._sklearn.config_context(skip_parameter_validation=True):
            for state in states.tolist():
                tree = self._sklearn.tree.ExtraTreeRegressor(min_samples_leaf=3, random_state=state)
                found.append(tree.fit(encoded, costs, check_input=False).tree_)
        return found
