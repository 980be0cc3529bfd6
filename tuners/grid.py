"""Grid search: every configuration in the order of its index. For small spaces and for debugging templates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from pegbox.measure import Result
from pegbox.search import BaseTuner
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.index_interval import configs_in, index_range
from pegbox.tuners.visited_set import VisitedSet


class GridTuner(BaseTuner):
    """Walks the valid configurations in index order, lazily, without those that were measured.

    `seed` has no effect: there is nothing random here. `range_idx`, (first, last), walks those indices only.

    Raises:
        ArgumentError: `range_idx` is not an interval of the space's indices.
    """

    def __init__(self, space: ConfigSpace, *, seed: int = 0, range_idx: str | tuple[int, int] | None = None) -> None:
        self._visited = VisitedSet(space)
        self._walk = space.iterate() if range_idx is None else configs_in(space, iter(index_range(space, range_idx)))

    def ask(self, n: int) -> list[Config]:
        fresh = (config for config in self._walk if config not in self._visited)
        return list(islice(fresh, n))

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self._visited.mark(configs)
