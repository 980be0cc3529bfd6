"""How much memory some loops touch: elements, cache lines and pages of each buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import TypeAlias

from pegbox.expr.dtypes import nbytes
from pegbox.expr.nodes import Buffer
from pegbox.expr.open_int import least
from pegbox.features.index import Loop, Sum, loops_in, reach
from pegbox.features.nest import Access, Nest, Statement
from pegbox.features.traced import TracedInt, ceil_div, combined, most

Counts: TypeAlias = tuple[tuple[int, int], ...]
"""Along each dimension: how many indices occur, and how many there are from the first to the last."""

LINE = 64
PAGE = 4096


@dataclass(frozen=True)
class Touched:
    """What is touched of one buffer, or of several."""

    bytes: int = 0
    lines: int = 0
    pages: int = 0

    def plus(self, other: Touched) -> Touched:
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        return Touched(self.bytes + other.bytes, self.lines + other.lines, self.pages + other.pages)

    def joined(self, other: Touched) -> Touched:
        """What two accesses of one buffer touch, taken to overlap."""
        return Touched(most(self.bytes, other.bytes), most(self.lines, other.lines), most(self.pages, other.pages))


NOTHING = Touched()


def product(values: Iterable[int]) -> int:
    result = 1
    for value in values:
        if type(value) is not int or value != 1:
            result = value if type(result) is int and result == 1 else result * value
    return result


class Memory:
    """Footprints in one program."""

    def __init__(self, nest: Nest) -> None:
        self.shapes = _shapes(nest)
        self._loops: dict[Access, tuple[tuple[Loop | None, ...], ...]] = {}
        self._counted: dict[tuple[Access, tuple[Loop | None, ...]], Counts] = {}
        self._touched: dict[tuple[object, ...], Touched] = {}

    def of(self, accesses: Iterable[Access], running: Set[Loop]) -> Touched:
        """What accesses of one buffer touch while some loops run."""
        total: Touched | None = None
        for access in accesses:
            counts = self._counts(access, running)
            key = (access.buffer, *(identity(x) for count in counts for x in count))
            found = self._touched.get(key)
            if found is None:
                shape, size = self.shapes[access.buffer], nbytes(access.buffer.dtype)
                found = self._touched[key] = _touched(counts, shape, size)
            total = found if total is None or total is found else total.joined(found)
        return total or NOTHING

    def elements(self, accesses: Iterable[Access], running: Set[Loop]) -> int:
        """How many different elements they touch."""
        largest = 0
        for access in accesses:
            largest = most(largest, product(points for points, _ in self._counts(access, running)))
        return largest

    def _counts(self, access: Access, running: Set[Loop]) -> Counts:
        loops = self._loops.get(access)
        if loops is None:
            loops = self._loops[access] = tuple(tuple(loops_in(index)) for index in access.indices)
        moving = tuple(loop for each in loops for loop in each if loop is None or loop in running)
        found = self._counted.get((access, moving))
        if found is None:
            dims = zip(access.indices, loops, self.shapes[access.buffer], strict=True)
            found = tuple(_count(index, each, extent, running) for index, each, extent in dims)
            self._counted[access, moving] = found
        return found


def _count(index: Sum, loops: Iterable[Loop | None], extent: int, running: Set[Loop]) -> tuple[int, int]:
    span = least(reach(index, running, extent - 1) + 1, extent)
    moving = [loop for loop in loops if loop is None or loop in running]
    if None in moving:
        return span, span
    return least(span, product(loop.extent for loop in moving if loop is not None)), span


def identity(value: int) -> object:
    """Tells numbers apart by how they were made, without asking for their values."""
    return ("node", value.node) if isinstance(value, TracedInt) else value


def by_buffer(accesses: Iterable[Access]) -> dict[Buffer, list[Access]]:
    grouped: dict[Buffer, list[Access]] = {}
    for access in accesses:
        grouped.setdefault(access.buffer, []).append(access)
    return grouped


def _touched(counts: Counts, shape: Sequence[int], size: int) -> Touched:
    """Rows that are touched whole join the next ones: then what is touched is one long run."""
    run, runs, whole, inside = 1, 1, 1, True
    between, span = 1, 1  # from one index to the next; from the first element to behind the last
    for (points, reached), extent in zip(reversed(counts), reversed(shape), strict=True):
        count = reached if inside else points
        run, runs = run * (1 + whole * (count - 1)), runs * (1 + (1 - whole) * (count - 1))
        whole = whole * combined("le", extent, points)
        span = span + (reached - 1) * between
        between, inside = between * extent, False
    elements = product(points for points, _ in counts)
    sparse = bool(counts) and identity(counts[-1][0]) != identity(counts[-1][1])

    def units(unit: int) -> int:
        found = runs * ceil_div(run * size, unit)
        if len(counts) > 1:
            found = least(found, ceil_div(span * size, unit))
        return least(found, elements) if sparse else found

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
