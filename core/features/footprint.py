"""How much memory some loops touch: elements, cache lines and pages of each buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import reduce

from pegbox.expr.dtypes import nbytes
from pegbox.expr.nodes import Buffer
from pegbox.expr.open_int import least
from pegbox.features.index import Loop, loops_in, reach
from pegbox.features.nest import Access, Nest, Statement
from pegbox.features.traced import TracedInt, ceil_div, combined, most

LINE = 64
PAGE = 4096


@dataclass(frozen=True)
class Touched:
    """What is touched of one buffer, or of several."""

    bytes: int = 0
    lines: int = 0
    pages: int = 0

    def plus(self, other: Touched) -> Touched:
        return Touched(self.bytes + other.bytes, self.lines + other.lines, self.pages + other.pages)

    def joined(self, other: Touched) -> Touched:
        """What two accesses of one buffer touch, taken to overlap."""
        return Touched(most(self.bytes, other.bytes), most(self.lines, other.lines), most(self.pages, other.pages))


def product(values: Iterable[int]) -> int:
    return reduce(lambda a, b: a * b, values, 1)


class Memory:
    """Footprints in one program."""

    def __init__(self, nest: Nest) -> None:
        self.shapes = _shapes(nest)
        self._known: dict[tuple[object, ...], Touched] = {}
        self._loops: dict[tuple[Access, int], list[Loop | None]] = {}
        self._reached: dict[tuple[Access, int, tuple[Loop | None, ...]], tuple[int, int]] = {}

    def of(self, accesses: Iterable[Access], running: Set[Loop]) -> Touched:
        """What accesses of one buffer touch while some loops run."""
        total: Touched | None = None
        for access in accesses:
            counts = self._counts(access, running)
            key = (access.buffer, *(identity(x) for count in counts for x in count))
            found = self._known.get(key)
            if found is None:
                shape, size = self.shapes[access.buffer], nbytes(access.buffer.dtype)
                found = self._known[key] = _touched(counts, shape, size)
            total = found if total is None else total.joined(found)
        return total or Touched()

    def elements(self, accesses: Iterable[Access], running: Set[Loop]) -> int:
        """How many different elements they touch."""
        largest = 0
        for access in accesses:
            count = 1
            for points, _ in self._counts(access, running):
                count = points * count
            largest = most(largest, count)
        return largest

    def _counts(self, access: Access, running: Set[Loop]) -> list[tuple[int, int]]:
        """Along each dimension: how many indices occur, and how many there are from the first to the last."""
        return [self._count(access, dim, running) for dim in range(len(access.indices))]

    def _count(self, access: Access, dim: int, running: Set[Loop]) -> tuple[int, int]:
        loops = self._loops.get((access, dim))
        if loops is None:
            loops = self._loops[access, dim] = loops_in(access.indices[dim])
        moving = tuple(loop for loop in loops if loop is None or loop in running)
        found = self._reached.get((access, dim, moving))
        if found is None:
            extent = self.shapes[access.buffer][dim]
            span = points = least(reach(access.indices[dim], running, extent - 1) + 1, extent)
            if None not in moving:
                points = least(span, product(loop.extent for loop in moving if loop is not None))
            found = self._reached[access, dim, moving] = (points, span)
        return found


def identity(value: int) -> object:
    """Tells numbers apart by how they were made, without asking for their values."""
    return ("node", value.node) if isinstance(value, TracedInt) else value


def by_buffer(accesses: Iterable[Access]) -> dict[Buffer, list[Access]]:
    grouped: dict[Buffer, list[Access]] = {}
    for access in accesses:
        grouped.setdefault(access.buffer, []).append(access)
    return grouped


def _touched(counts: Sequence[tuple[int, int]], shape: Sequence[int], size: int) -> Touched:
    """Rows that are touched whole join the next ones: then what is touched is one long run.

    `counts` are, for each dimension, how many indices occur and how many there are from the first to the last.
    """
    run, runs, whole, inside = 1, 1, 1, True
    between, span, elements = 1, 1, 1  # from one index to the next; from the first element to behind the last
    for (points, reached), extent in zip(reversed(counts), reversed(shape), strict=True):
        elements = elements * points
        count = reached if inside else points
        run, runs = run * (1 + whole * (count - 1)), runs * (1 + (1 - whole) * (count - 1))
        whole = whole * combined("le", extent, points)
        span = span + (reached - 1) * between
        between, inside = between * extent, False

    def units(unit: int) -> int:
        return least(least(runs * ceil_div(run * size, unit), ceil_div(span * size, unit)), elements)

    return Touched(elements * size, units(LINE), units(PAGE))


def _shapes(nest: Nest) -> dict[Buffer, tuple[int, ...]]:
    """Shapes of buffers; of an intermediate, what is in use inside of the loops around all of its uses.

    That is how much of it lowering allocates (`pegbox.loops.passes.compact`).
    """
    uses: dict[Buffer, list[tuple[Statement, Access]]] = {}
    for statement in nest.statements:
        for access in statement.accesses:
            uses.setdefault(access.buffer, []).append((statement, access))
    return {buffer: buffer.shape if buffer in nest.params else _used(buffer, found) for buffer, found in uses.items()}


def _used(buffer: Buffer, uses: Sequence[tuple[Statement, Access]]) -> tuple[int, ...]:
    common = uses[0][0].loops
    for statement, _ in uses:
        same = [a is b for a, b in zip(common, statement.loops, strict=False)]
        common = common[: same.index(False) if False in same else len(same)]
    shape = []
    for dim, extent in enumerate(buffer.shape):
        widest = 0
        for statement, access in uses:
            inner = set(statement.loops) - set(common)
            widest = most(widest, reach(access.indices[dim], inner, extent - 1))
        shape.append(least(widest + 1, extent))
    return tuple(shape)
