"""Pass: insert the prefetches that annotations ask for.

`sch.prefetch` leaves the note ("prefetch", (block, buffer, offset, ...)) on a loop. The elements that the block's
statements access while the inner loops run form a box that depends on the loop's variable; this box, moved on by
`offset` iterations, is prefetched line by line. Places beyond the end are clamped to the last element: a hint must not
need a test.

With `among`, the note is called "prefetch_shared", and the loop whose iterations share the lines has the same triple in
a note "prefetch_among". If that loop no longer exists, the prefetches are issued together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from pegbox.expr.bounds import Interval
from pegbox.expr.build import add, floordiv, floormod, index, maximum, minimum, mul
from pegbox.expr.low_level import PREFETCH, Address, stored_box
from pegbox.expr.nodes import Buffer, Call, Const, Expr, Load, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import loads, substitute
from pegbox.loops.access.interval import Relaxation, SymbolicInterval, interval
from pegbox.loops.access.region import written
from pegbox.loops.nodes import Alloc, Evaluate, For, ForKind, Function, Stmt, Store, seq
from pegbox.loops.visit import children, expressions, loop_ranges, map_children, walk

LINE = 64  # bytes of a cache line
NOTE, SHARED, AMONG = "prefetch", "prefetch_shared", "prefetch_among"
_READ, _WRITE = 0, 1  # the arguments of a prefetch after its address, as in `__builtin_prefetch`
_FIRST, _SECOND = 3, 2

Box = tuple[SymbolicInterval, ...]
Triple = tuple[str, str, int]
Ranges = Mapping[Var, Interval]


def place_prefetches(func: Function) -> Function:
    """Place the prefetches of notes on loops; none inside lanes, where each lane would issue its own."""
    if not any(isinstance(s, For) and (_noted(s, NOTE) or _noted(s, SHARED)) for s in walk(func.body)):
        return func
    ranges = loop_ranges(func.body)
    outputs = dict(func.origins)

    def go(stmt: Stmt, lanes: bool) -> Stmt:
        inside = lanes or (isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED)
        new = map_children(stmt, lambda s: go(s, inside))
        if inside or not (isinstance(stmt, For) and isinstance(new, For)):
            return new
        alone = (lines for wanted in _noted(stmt, NOTE) for lines in _wanted(stmt, *wanted, outputs, ranges))
        hints = [lines.together(ranges) for lines in _once(alone, [])]
        body = new.body
        among: list[_Lines] = []
        for wanted in _noted(stmt, SHARED):
            found = _once(_wanted(stmt, *wanted, outputs, ranges, is_shared=True), among)
            if any(isinstance(s, For) and wanted in _noted(s, AMONG) for s in walk(body)):
                body = _shared(body, wanted, (), found, ranges)
            else:
                hints += [lines.together(ranges) for lines in found]
        return new.with_body(seq(*hints, body))

    return func.with_body(_without_notes(go(func.body, False)))


def _once(found: Iterable[_Lines], before: list[_Lines]) -> list[_Lines]:
    """List the lines that `before` does not include, and add them to it: two blocks may read the same ones."""
    start = len(before)
    for lines in found:
        if not any(lines.are_within(other) for other in before):
            before.append(lines)
    return before[start:]


def triples(note: Sequence[str | int]) -> list[Triple]:
    """Read a note: (block, buffer, offset)."""
    return [(str(note[n]), str(note[n + 1]), int(note[n + 2])) for n in range(0, len(note), 3)]


def _noted(loop: For, wanted: str) -> list[Triple]:
    return [each for key, value in loop.annotations if key == wanted for each in triples(value)]


def _without_notes(stmt: Stmt) -> Stmt:
    new = map_children(stmt, _without_notes)
    if not isinstance(new, For):
        return new
    return replace(new, annotations=tuple(note for note in new.annotations if note[0] not in (NOTE, SHARED, AMONG)))


def _shared(stmt: Stmt, wanted: Triple, around: tuple[For, ...], found: Sequence[_Lines], ranges: Ranges) -> Stmt:
    """Distribute the lines among the iterations of the loops that have the note, and of the loops between."""
    if not isinstance(stmt, For):
        return map_children(stmt, lambda child: _shared(child, wanted, around, found, ranges))
    if stmt.kind is ForKind.VECTORIZED:
        return stmt
    loops = (*around, stmt)
    hints = [lines.shared(loops, ranges) for lines in found] if wanted in _noted(stmt, AMONG) else []
    return stmt.with_body(seq(*hints, _shared(stmt.body, wanted, loops, found, ranges)))


def _wanted(
    loop: For,
    block: str,
    name: str,
    offset: int,
    outputs: dict[str, tuple[str, ...]],
    ranges: Ranges,
    is_shared: bool = False,
) -> Iterator[_Lines]:
    """Yield the lines that the block's statements access `offset` iterations later."""
    if offset >= loop.extent:
        return
    own = {s.buffer for s in walk(loop.body) if isinstance(s, Alloc)}
    made = outputs.get(block, (block,))
    boxes: dict[Buffer, list[Box]] = {}
    for access, running in _accesses(loop.body, made, name in made, frozenset()):
        if access.buffer.name == name and access.buffer not in own:
            _note_box(boxes.setdefault(access.buffer, []), access, Relaxation(running, ranges))
    later = add(loop.var, index(offset))
    if is_shared:  # then no index needs clamping: the lines of a contiguous box have consecutive numbers
        later = minimum(later, index(loop.extent - 1))
    ahead: dict[Var, Expr] = {loop.var: later} if offset else {}
    for buffer, found in boxes.items():
        for box in found:
            yield _Lines(buffer, box, ahead, name in made)


def _accesses(
    stmt: Stmt, made: Sequence[str], are_writes: bool, running: frozenset[Var]
) -> Iterator[tuple[Load, frozenset[Var]]]:
    """Yield the accesses of the statements that write the block's buffers: their loads, or their stores."""
    places = [region for region in written(stmt) if region.buffer.name in made]
    if are_writes and isinstance(stmt, Store) and places:
        yield Address(stmt.buffer, stmt.indices, stored_box(stmt.indices, stmt.value), "w"), running
    elif places and not are_writes:
        for expr in expressions(stmt):
            yield from ((load, running) for load in loads(expr))
    inside = running | {stmt.var} if isinstance(stmt, For) else running
    for child in children(stmt):
        yield from _accesses(child, made, are_writes, inside)


def _note_box(boxes: list[Box], load: Load, relax: Relaxation) -> None:
    """Add the elements that a load touches to the first box with which they form a box, or as a new box."""
    box: list[SymbolicInterval] = []
    for place, count in zip(load.indices, load.box, strict=True):
        found = interval(place, relax, count)
        if found is None:
            return  # a gather, whose places are not known
        box.append(found)
    for n, other in enumerate(boxes):
        joined = tuple(h for a, b in zip(other, box, strict=True) if (h := a.hull(b)) is not None)
        if len(joined) == len(box):
            boxes[n] = joined
            return
    boxes.append(tuple(box))


@dataclass(frozen=True)
class _Lines:
    """The cache lines of a box of a buffer.

    Attributes:
        ahead: the advanced value of the loop's variable.
    """

    buffer: Buffer
    box: Box
    ahead: dict[Var, Expr]
    are_written: bool

    def are_within(self, other: _Lines) -> bool:
        """Decide if the other lines include these."""
        alike = (self.buffer, self.ahead, self.are_written) == (other.buffer, other.ahead, other.are_written)
        hulls = (mine.hull(its) for mine, its in zip(self.box, other.box, strict=True)) if alike else ()
        return alike and all(hull and hull.width == its.width for hull, its in zip(hulls, other.box, strict=True))

    @property
    def _steps(self) -> list[int]:
        """The number of elements between two lines along each dimension: several rows, if one line holds them."""
        left = max(1, LINE * prod(self.buffer.shape) // self.buffer.nbytes)
        steps = []
        for part, extent in zip(reversed(self.box), reversed(self.buffer.shape), strict=True):
            is_part = part.width + 1 >= extent and left % extent == 0
            steps.append(extent if is_part else left)
            left = left // extent if is_part else 1
        return steps[::-1]

    @property
    def _counts(self) -> list[int]:
        """The number of lines along each dimension."""
        parts = zip(self.box, self.buffer.shape, self._steps, strict=True)
        return [-(-min(part.width + 1, extent) // step) for part, extent, step in parts]

    def together(self, ranges: Ranges) -> Stmt:
        """Make loops that issue one prefetch for each line."""
        loops = [(Var(f"ax{dim}"), count) for dim, count in enumerate(self._counts)]
        kept = [loop for loop in loops if loop[1] > 1]
        numbers = [var if count > 1 else index(0) for var, count in loops]
        body = self._prefetch(numbers, {**ranges, **{var: (0, count - 1) for var, count in kept}}, _FIRST)
        for var, extent in reversed(kept):
            body = For(var, extent, body)
        return body

    def shared(self, loops: Sequence[For], ranges: Ranges) -> Stmt:
        """Make one iteration's share of the prefetches; all iterations of the loops together prefetch each line."""
        inside = self._lines_inside(ranges)
        counts, column = self._counts, None
        each = -(-counts[-1] // loops[0].extent)
        only_shifts = counts[-1].bit_count() == 1 and each.bit_count() > 1  # numbers of all lines take no division
        if inside is None and not only_shifts and 1 < loops[0].extent <= counts[-1]:
            # An iteration of the outer loop has its own lines of a row, which often takes no division.
            column, counts, loops = mul(loops[0].var, index(each)), [*counts[:-1], each], loops[1:]
        total, turns = prod(counts), prod(loop.extent for loop in loops)
        each, line = -(-total // turns), Var("line")
        number: Expr = index(0)
        for loop in loops:
            number = add(mul(number, index(loop.extent)), loop.var)
        if each > 1:
            number = add(mul(number, index(each)), line)
        last = index(total - 1) if inside is None else simplify(minimum(inside, index(total)) - 1, ranges)
        if not isinstance(last, Const) or turns * each > last.integer + 1:
            number = minimum(number, last)
        numbers: list[Expr] = []
        for count in reversed(counts):
            numbers.append(floormod(number, index(count)))
            number = floordiv(number, index(count))
        if column is not None:
            numbers[0] = minimum(add(column, numbers[0]), index(self._counts[-1] - 1))
        body = self._prefetch(numbers[::-1], {**ranges, line: (0, each - 1)}, _SECOND, are_inside=inside is not None)
        return For(line, each, body, ForKind.UNROLLED) if each > 1 else body

    def _lines_inside(self, ranges: Ranges) -> Expr | None:
        """Return the number of lines from the box's first to the end of its dimension; None if they are not one run.

        For one run, it is enough to clamp the number of a line. Clamping each dimension takes divisions for each line.
        """
        first = next((dim for dim, count in enumerate(self._counts) if count > 1), len(self.box) - 1)
        rest = list(zip(self.box, self.buffer.shape, strict=True))[first + 1 :]
        if not rest or any(part.width + 1 < extent for part, extent in rest):
            return None
        left = index(self.buffer.shape[first]) - self._start(first, ranges)
        step = self._steps[first]
        rows = floordiv(add(left, index(step - 1)), index(step)) if step > 1 else left
        return mul(rows, index(prod(self._counts[first + 1 :])))

    def _start(self, dim: int, ranges: Ranges) -> Expr:
        """Return the first index along a dimension, clamped to the buffer."""
        place = substitute(self.box[dim].lo.to_expr(), self.ahead)
        return simplify(maximum(minimum(place, index(self.buffer.shape[dim] - 1)), index(0)), ranges)

    def _end_of_line(self, dim: int) -> int:
        """Return the number of elements by which a prefetch is moved on: all but one of a line, for parts of rows.

        Arrays are rarely aligned to lines, so a part of a row ends inside a line. Its first line is also the last one
        of the part before it.
        """
        step, length = self._steps[dim], self.box[dim].width + 1
        is_part = dim == len(self.box) - 1 and length < self.buffer.shape[dim] and length % step == 0
        return step - 1 if is_part else 0

    def _prefetch(self, numbers: Sequence[Expr], ranges: Ranges, cache: int, *, are_inside: bool = False) -> Stmt:
        """Prefetch the line that has these numbers along the dimensions; numbers beyond the end mean the last line."""
        indices: list[Expr] = []
        for dim, (extent, step, number) in enumerate(zip(self.buffer.shape, self._steps, numbers, strict=True)):
            offset = mul(number, index(step))
            if are_inside:
                indices.append(simplify(add(self._start(dim, ranges), offset), ranges))
                continue
            place = add(substitute(self.box[dim].lo.to_expr(), self.ahead), add(offset, index(self._end_of_line(dim))))
            indices.append(simplify(maximum(minimum(place, index(extent - 1)), index(0)), ranges))
        pointer = Address(self.buffer, tuple(indices), (1,) * len(indices), "r")
        kind = (_WRITE, _FIRST) if self.are_written else (_READ, cache)
        given = () if kind == (_READ, _FIRST) else tuple(Const(value, "int32") for value in kind)
        return Evaluate(Call(PREFETCH, (pointer, *given), "int32"))
