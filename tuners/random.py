"""Random search: the baseline that every other tuner has to beat.

Bergstra and Bengio, "Random Search for Hyper-Parameter Optimization", JMLR 13 (2012).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pegbox.measure.result import Result
from pegbox.search.factory.base import BaseTuner
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.visited_set import VisitedSet


class RandomTuner(BaseTuner):
    """Proposes configurations uniformly at random, without repetition."""

    def __init__(self, space: ConfigSpace, *, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self._visited = VisitedSet(space)

    def ask(self, n: int) -> list[Config]:
        return self._visited.configs(self._visited.sample(n, self._rng))

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self._visited.mark(configs)
