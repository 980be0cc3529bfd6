"""Grid search: every configuration in the order of its index. For small spaces and for debugging templates.

In ranges, it takes the ends and the middle first, then finer and finer grids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pegbox.measure import Result
from pegbox.search import BaseTuner
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.index_interval import configs_in, index_range
from pegbox.tuners.visited_set import VisitedSet


class GridTuner(BaseTuner):
    """A tuner that walks the unmeasured valid configurations in index order, lazily.

    With ranges, the first walk covers three numbers of each, and each next one about twice as many. `seed` has no
    effect, as nothing is random here. `range_idx`, (first, last), restricts the walk to those indices.

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
    """Yield the valid configurations in ever finer grids, the last with all; those of coarser grids are repeated."""
    longest = max((len(line) for line in space.structure.lines if line is not None), default=1)
    points = 3
    while points < longest:
        yield from space.iterate(points=points)
        points = 2 * points - 1
    yield from space.iterate()
