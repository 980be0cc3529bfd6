"""Footprints of loops: accessed elements, cache lines and pages of each buffer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from pegbox.codegen.targets.cpus import LINE
from pegbox.expr.dtypes import nbytes
from pegbox.expr.nodes import Buffer
from pegbox.features.index import Atom, IndexChoice, IndexDivision, Loop, Sum, loops_in, reach
from pegbox.features.nest import BufferAccess, Nest, Statement
from pegbox.features.symbol import Quantity, at_most, ceil_div, largest, least, most, product
from pegbox.features.traced import quantity

Count: TypeAlias = tuple[Quantity, Quantity]
Counts: TypeAlias = tuple[Count, ...]
"""The number of indices that occur along each dimension, and the distance from the first to the last."""

PAGE = 4096


@dataclass(frozen=True)
class Touched:
    """The footprint in one buffer, or in several."""

    bytes: Quantity = 0
    lines: Quantity = 0
    pages: Quantity = 0

    def plus(self, other: Touched) -> Touched:
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        return Touched(self.bytes + other.bytes, self.lines + other.lines, self.pages + other.pages)

    def joined(self, other: Touched) -> Touched:
        """Join the footprints of two accesses of one buffer, assuming that they overlap."""
        return Touched(most(self.bytes, other.bytes), most(self.lines, other.lines), most(self.pages, other.pages))


NOTHING = Touched()


class IndexForm(NamedTuple):
    """The form of an index, shared by other indices and programs: its number, and the loops in its places."""

    number: int
    loops: tuple[Loop | None, ...]


class Known:
    """A cache of footprints for the programs of a graph; symbolic ones are valid for all its programs.

    Attributes:
        touched: footprints, by counts, shape and bytes of an element.
        counted: counts, by the number of the index's form, the extent, and the places of its running loops.
        forms: the numbers of the forms.
    """

    def __init__(self) -> None:
        self.touched: dict[tuple[Counts, tuple[Quantity, ...], int], Touched] = {}
        self.counted: dict[tuple[int, Quantity, tuple[int, ...]], Count] = {}
        self.forms: dict[tuple[object, ...], int] = {}

    def form(self, index: Sum) -> IndexForm:
        """Find the form of an index. Indices that differ only in the names and kinds of loops have the same form."""
        loops = tuple(loops_in(index))
        places = {loop: place for place, loop in enumerate(loops)}
        extents = tuple([None if loop is None else loop.extent for loop in loops])
        return IndexForm(self.forms.setdefault((extents, _shape_of(index, places)), len(self.forms)), loops)


def _shape_of(index: Sum, places: Mapping[Loop | None, int]) -> tuple[object, ...]:
    """Write an index with places instead of loops; constants don't move, so they are left out."""
    return tuple([(_shape_of_atom(atom, places), coefficient) for atom, coefficient in index.terms])


def _shape_of_atom(atom: Atom, places: Mapping[Loop | None, int]) -> object:
    match atom:
        case Loop():
            return places[atom]
        case IndexDivision(op, value, divisor):
            return op, _shape_of(value, places), divisor
        case IndexChoice(values):
            return tuple([_shape_of(each, places) for each in values])
        case _:
            return None


class Memory:
    """The footprints in one program; `known` has those of other programs, and receives new ones."""

    def __init__(self, nest: Nest, known: Known) -> None:
        self.shapes = _shapes(nest)
        self._forms: dict[Sum, IndexForm] = {}
        self._known = known

    def of(self, accesses: Iterable[BufferAccess], running: Set[Loop]) -> Touched:
        """Compute the elements that accesses of one buffer touch while some loops run."""
        total: Touched | None = None
        for access in accesses:
            shape, size = self.shapes[access.buffer], nbytes(access.buffer.dtype)
            counts = self._counts(access, running)
            key = counts, shape, size
            found = self._known.touched.get(key)
            if found is None:
                found = self._known.touched[key] = _touched(counts, shape, size)
            total = found if total is None or total is found else total.joined(found)
        return total or NOTHING

    def loops_of(self, accesses: Iterable[BufferAccess]) -> set[Loop | None]:
        """Find the loops on which the footprint depends; None for an unknown dependence."""
        return {loop for access in accesses for index in access.indices for loop in self._form(index).loops}

    def elements(self, accesses: Iterable[BufferAccess], running: Set[Loop]) -> Quantity:
        """Count the distinct elements that the accesses touch."""
        return largest(product(points for points, _ in self._counts(access, running)) for access in accesses)

    def _counts(self, access: BufferAccess, running: Set[Loop]) -> Counts:
        extents = self.shapes[access.buffer]
        return tuple([self._count(*dim, running) for dim in zip(access.indices, extents, strict=True)])

    def _count(self, index: Sum, extent: Quantity, running: Set[Loop]) -> Count:
        """Count the elements along one dimension."""
        number, loops = self._form(index)
        moving = tuple([place for place, loop in enumerate(loops) if loop is None or loop in running])
        found = self._known.counted.get((number, extent, moving))
        if found is None:
            span = least(reach(index, running, extent - 1) + 1, extent)
            known = [loop.extent for place in moving if (loop := loops[place]) is not None]
            points = span if len(known) < len(moving) else least(span, product(known))
            found = self._known.counted[number, extent, moving] = points, span
        return found

    def _form(self, index: Sum) -> IndexForm:
        form = self._forms.get(index)
        if form is None:
            form = self._forms[index] = self._known.form(index)
        return form


def by_buffer(accesses: Iterable[BufferAccess]) -> dict[Buffer, list[BufferAccess]]:
    grouped: dict[Buffer, list[BufferAccess]] = {}
    for access in accesses:
        grouped.setdefault(access.buffer, []).append(access)
    return grouped


def _touched(counts: Counts, shape: Sequence[Quantity], size: int) -> Touched:
    """Compute a footprint. Rows that are touched completely join the next ones to one long run."""
    run: Quantity = 1
    runs: Quantity = 1
    whole: Quantity = 1
    between: Quantity = 1  # from one index to the next
    span: Quantity = 1  # from the first element to after the last
    inside = True
    for (points, reached), extent in zip(reversed(counts), reversed(shape), strict=True):
        count = reached if inside else points
        run, runs = run * (1 + whole * (count - 1)), runs * (1 + (1 - whole) * (count - 1))
        whole = whole * at_most(extent, points)
        span = span + (reached - 1) * between
        between, inside = between * extent, False
    elements = product(points for points, _ in counts)
    sparse = bool(counts) and counts[-1][0] != counts[-1][1]

    def units(unit: int) -> Quantity:
        found = runs * ceil_div(run * size, unit)
        if len(counts) > 1:
            found = least(found, ceil_div(span * size, unit))
        return least(found, elements) if sparse else found

    return Touched(elements * size, units(LINE), units(PAGE))


def _shapes(nest: Nest) -> dict[Buffer, tuple[Quantity, ...]]:
    """Find the shapes of buffers; for an intermediate, the part in use inside the loops around all its uses.

    Lowering allocates this part (`pegbox.loops.passes.compact`).
    """
    uses: dict[Buffer, list[tuple[Statement, BufferAccess]]] = {}
    for statement in nest.statements:
        for access in statement.accesses:
            uses.setdefault(access.buffer, []).append((statement, access))
    wholes = {buffer: tuple([quantity(extent) for extent in buffer.shape]) for buffer in uses}
    return {b: wholes[b] if b in nest.params else _used(wholes[b], found) for b, found in uses.items()}


def _used(whole: Sequence[Quantity], uses: Sequence[tuple[Statement, BufferAccess]]) -> tuple[Quantity, ...]:
    common = uses[0][0].loops
    for statement, _ in uses:
        same = [a is b for a, b in zip(common, statement.loops, strict=False)]
        common = common[: same.index(False) if False in same else len(same)]
    shape = []
    for dim, extent in enumerate(whole):
        reaches = [reach(a.indices[dim], set(s.loops) - set(common), extent - 1) for s, a in uses]
        shape.append(least(largest(reaches) + 1, extent))
    return tuple(shape)
