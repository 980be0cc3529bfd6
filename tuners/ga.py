"""A genetic algorithm over digits: tournaments, uniform crossover, mutation, an elite, and ageing.

Goldberg and Deb, "A Comparative Analysis of Selection Schemes Used in Genetic Algorithms" (1991), for tournaments;
Syswerda, "Uniform Crossover in Genetic Algorithms" (ICGA 1989); Real et al., "Regularized Evolution for Image
Classifier Architecture Search" (AAAI 2019), for letting old members die regardless of their quality, except a small
elite here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from pegbox.checks import check_float, check_int
from pegbox.errors import ArgumentError
from pegbox.measure import Result
from pegbox.search import BaseTuner, Floats
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.rows import Digits, Places, rows_of
from pegbox.tuners.visited_set import VisitedSet

BREEDING_ROUNDS = 8
"""The number of rounds that replace known children by new ones, before random ones are used."""


class GATuner(BaseTuner):
    """A tuner that breeds new configurations from the fastest of the recent ones.

    `population` is the number of measured configurations that may become parents: the `elite` best of all (half the
    population by default), and the most recent. Each parent wins a tournament among `tournament` members; a child is
    crossed from two parents with probability `crossover` and moved to a neighbour, once or more, with probability
    `mutation`.
    """

    batch_size = 8
    """The default size of a batch.

    Children are bred from known trials, so the later ones of a larger batch would not profit from the first.
    """

    def __init__(
        self,
        space: ConfigSpace,
        *,
        seed: int = 0,
        population: int = 12,
        elite: int | None = None,
        tournament: int = 3,
        crossover: float = 0.7,
        mutation: float = 0.5,
    ) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._visited = VisitedSet(space)
        self._population = check_int("population", population, minimum=2)
        half = self._population // 2
        self._elite_size = half if elite is None else check_int("elite", elite, minimum=0)
        self._tournament = check_int("tournament", tournament)
        self._crossover = check_float("crossover", crossover, maximum=1.0)
        self._mutation = check_float("mutation", mutation, maximum=1.0)
        if self._elite_size > self._population:
            raise ArgumentError(f"elite={elite} is larger than population={population}; give at most {population}")
        self._elite: list[tuple[float, Config]] = []
        self._recent: deque[tuple[float, Config]] = deque(maxlen=self._population)

    def ask(self, n: int) -> list[Config]:
        parents = self._parents()
        grown_up = len(self._recent) == self._population and len(parents) >= 2
        children = self._breed(n, parents) if grown_up else np.empty((0, len(self._space.knobs)), dtype=np.int64)
        if len(children) < n:
            children = self._visited.filled(children, n, self._rng)
        return self._visited.configs(children)

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self._visited.mark(configs)
        measured = [(result.cost, config) for config, result in zip(configs, results, strict=True)]
        self._recent.extend(measured)
        alive = [(cost, config) for cost, config in measured if np.isfinite(cost)]
        self._elite = sorted([*self._elite, *alive], key=lambda item: item[0])[: self._elite_size]

    def _parents(self) -> list[tuple[float, Config]]:
        """Return the elite and the most recent that ran; failed trials are never parents."""
        room = self._population - len(self._elite)
        recent = [item for item in list(self._recent)[-room:] if np.isfinite(item[0])] if room else []
        return list({config: (cost, config) for cost, config in [*self._elite, *recent]}.values())

    def _breed(self, n: int, parents: Sequence[tuple[float, Config]]) -> Digits:
        costs = np.array([cost for cost, _ in parents])
        rows = rows_of([config for _, config in parents])
        bred = rows[:0]
        for _ in range(BREEDING_ROUNDS):
            mothers, fathers = rows[self._select(n, costs)], rows[self._select(n, costs)]
            crossed = self._rng.random(n) < self._crossover
            children = np.where(crossed[:, None], self._space.crossover(mothers, fathers, self._rng), mothers)
            # A child that was not crossed equals its mother, which was measured already, so it always mutates.
            mutated = (self._rng.random(n) < self._mutation) | ~crossed
            while mutated.any():
                children = np.where(mutated[:, None], self._space.neighbors(children, self._rng), children)
                mutated &= self._rng.random(n) < self._mutation / 2
            bred = np.concatenate([bred, children])
            bred = bred[self._visited.fresh(bred, limit=n)]
            if len(bred) == n:
                break
        return bred

    def _select(self, n: int, costs: Floats) -> Places:
        entrants = self._rng.integers(len(costs), size=(n, self._tournament))
        winners = np.argmin(costs[entrants], axis=1)
        chosen: Places = np.take_along_axis(entrants, winners[:, None], axis=1)[:, 0].astype(np.intp)
        return chosen
