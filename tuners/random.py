"""Random search: the baseline that every other tuner must beat.

Bergstra and Bengio, "Random Search for Hyper-Parameter Optimization", JMLR 13 (2012).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pegbox.measure import Result
from pegbox.search import BaseTuner
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.index_interval import configs_in, index_range, shuffled
from pegbox.tuners.visited_set import VisitedSet


class RandomTuner(BaseTuner):
    """A tuner that proposes configurations uniformly at random, without repetition.

    `range_idx`, (first, last), restricts it to those indices.

    Raises:
        ArgumentError: `range_idx` is not an interval of the space's indices.
    """

    def __init__(self, space: ConfigSpace, *, seed: int = 0, range_idx: str | tuple[int, int] | None = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._visited = VisitedSet(space)
        self._walk = None
        if range_idx is not None:
            self._walk = configs_in(space, shuffled(index_range(space, range_idx), self._rng))

    def ask(self, n: int) -> list[Config]:
        if self._walk is not None:
            return self._visited.next_of(self._walk, n)
        return self._visited.configs(self._visited.sample(n, self._rng))

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self._visited.mark(configs)
