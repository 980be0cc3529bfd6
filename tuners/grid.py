"""Grid search: every configuration in the order of its index. For small spaces and for debugging templates.

In ranges it takes the ends and the middle first, then finer and finer grids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pegbox.measure import Result
from pegbox.search import BaseTuner
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.index_interval import configs_in, index_range
from pegbox.tuners.visited_set import VisitedSet


class GridTuner(BaseTuner):
    """Walks the valid configurations in index order, lazily, without those that were measured.

    Where there are ranges, the first walk is over three numbers of each, and each next one over about twice as many.
    `seed` has no effect: there is nothing random here. `range_idx`, (first, last), walks those indices only.

    Raises:
        ArgumentError: `range_idx` is not an interval of the space's indices.
    """

    def __init__(self, space: ConfigSpace, *, seed: int = 0, range_idx: str | tuple[int, int] | None = None) -> None:
        self._visited = VisitedSet(space)
        self._walk = grids(space) if range_idx is None else configs_in(space, iter(index_range(space, range_idx)))

    def ask(self, n: int) -> list[Config]:
        return self._visited.next_of(self._walk, n)

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self._visited.mark(configs)


def grids(space: ConfigSpace) -> Iterator[Config]:
    """Yield the valid configurations, grid after finer grid, the last with all; those of a coarser grid come again."""
    longest = max((len(line) for line in space.structure.lines if line is not None), default=1)
    points = 3
    while points < longest:
        yield from space.iterate(points=points)
        points = 2 * points - 1
    yield from space.iterate()
