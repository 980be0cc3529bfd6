"""A tuner that walks from the best configuration so far to random neighbours of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pegbox.measure import Result
from pegbox.space import Config, ConfigSpace


class WalkTuner:
    """Hill climbing with restarts: a quarter of each batch is drawn at random, the rest beside the best."""

    def __init__(self, space: ConfigSpace, *, seed: int, fresh: float = 0.25) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._fresh = fresh
        self._seen: set[int] = set()
        self._best: tuple[float, Config] | None = None

    def ask(self, n: int, /) -> Sequence[Config]:
        proposed: list[Config] = []
        for _ in range(20 * n):  # draws that were seen before are dropped; a small space runs dry here
            config = self._draw()
            if config.index not in self._seen:
                self._seen.add(config.index)
                proposed.append(config)
            if len(proposed) == n:
                break
        return proposed

    def tell(self, configs: Sequence[Config], results: Sequence[Result], /) -> None:
        for config, result in zip(configs, results, strict=True):
            self._seen.add(config.index)
            if result.ok and (self._best is None or result.cost < self._best[0]):
                self._best = (result.cost, config)

    def _draw(self) -> Config:
        if self._best is None or self._rng.random() < self._fresh:
            row = self._space.sample(1, self._rng)[0]
        else:
            row = self._space.neighbors(np.array([self._best[1].digits]), self._rng)[0]
        return self._space.config(row)
