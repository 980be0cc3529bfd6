"""Pass: insert the prefetches that annotations ask for.

`sch.prefetch` leaves the note ("prefetch", (block, buffer, offset, ...)) on a loop. The reads of
the buffer by the block's statements while the loops inside run are a box in terms of the loop's variable; moved on by
`offset` iterations, it is prefetched line by line. Places beyond the end are clamped to the last element: a hint must
not need a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from pegbox.expr.bounds import Interval
from pegbox.expr.build import add, index, maximum, minimum, mul
from pegbox.expr.low_level import PREFETCH, Address
from pegbox.expr.nodes import Buffer, Call, Expr, Load, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import loads, substitute
from pegbox.loops.access.interval import Relaxation, SymbolicInterval, interval
from pegbox.loops.access.region import written
from pegbox.loops.nodes import Alloc, Annotation, Evaluate, For, ForKind, Function, Stmt, seq
from pegbox.loops.visit import children, expressions, loop_ranges, map_children, walk

LINE = 64  # bytes of a cache line
NOTE = "prefetch"

Box = tuple[SymbolicInterval, ...]


def place_prefetches(func: Function) -> Function:
    """Place the prefetches of notes on loops; none inside lanes, since each lane would make one of its own."""
    if not any(isinstance(s, For) and _noted(s) for s in walk(func.body)):
        return func
    ranges = loop_ranges(func.body)
    outputs = dict(func.origins)

    def go(stmt: Stmt, lanes: bool) -> Stmt:
        inside = lanes or (isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED)
        new = map_children(stmt, lambda s: go(s, inside))
        if not (isinstance(stmt, For) and isinstance(new, For)) or not _noted(stmt):
            return new
        hints = [] if inside else [h for wanted in _noted(stmt) for h in _hints(stmt, *wanted, outputs, ranges)]
        return For(new.var, new.extent, seq(*hints, new.body), new.kind, without_note(stmt.annotations))

    return func.with_body(go(func.body, False))


def triples(note: Sequence[str | int]) -> list[tuple[str, str, int]]:
    """Read a note: (block, buffer, offset)."""
    return [(str(note[n]), str(note[n + 1]), int(note[n + 2])) for n in range(0, len(note), 3)]


def _noted(loop: For) -> list[tuple[str, str, int]]:
    return [each for key, value in loop.annotations if key == NOTE for each in triples(value)]


def without_note(notes: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    return tuple((key, value) for key, value in notes if key != NOTE)


def _hints(
    loop: For, block: str, name: str, offset: int, outputs: dict[str, tuple[str, ...]], ranges: dict[Var, Interval]
) -> Iterator[Stmt]:
    if offset >= loop.extent:
        return
    own = {s.buffer for s in walk(loop.body) if isinstance(s, Alloc)}
    made = outputs.get(block, (block,))
    boxes: dict[Buffer, list[Box]] = {}
    for load, running in _reads(loop.body, made, frozenset()):
        if load.buffer.name == name and load.buffer not in own:
            _note_box(boxes.setdefault(load.buffer, []), load, Relaxation(running, ranges))
    ahead: dict[Var, Expr] = {loop.var: add(loop.var, index(offset))}
    for buffer, found in boxes.items():
        for box in found:
            yield _lines(buffer, box, ahead, ranges)


def _reads(stmt: Stmt, made: Sequence[str], running: frozenset[Var]) -> Iterator[tuple[Load, frozenset[Var]]]:
    """Yield the loads of the statements that write the block's buffers."""
    if any(region.buffer.name in made for region in written(stmt)):
        for expr in expressions(stmt):
            yield from ((load, running) for load in loads(expr))
    inside = running | {stmt.var} if isinstance(stmt, For) else running
    for child in children(stmt):
        yield from _reads(child, made, inside)


def _note_box(boxes: list[Box], load: Load, relax: Relaxation) -> None:
    """Add what a load touches to the first box with which it makes one, or as a box of its own."""
    box: list[SymbolicInterval] = []
    for place, count in zip(load.indices, load.box, strict=True):
        found = interval(place, relax, count)
        if found is None:
            return  # gathered: the places are not known
        box.append(found)
    for n, other in enumerate(boxes):
        joined = tuple(h for a, b in zip(other, box, strict=True) if (h := a.hull(b)) is not None)
        if len(joined) == len(box):
            boxes[n] = joined
            return
    boxes.append(tuple(box))


def _lines(buffer: Buffer, box: Box, ahead: dict[Var, Expr], ranges: dict[Var, Interval]) -> Stmt:
    """Make loops over a box, with one prefetch for each cache line along the last dimension."""
    indices: list[Expr] = []
    loops: list[tuple[Var, int]] = []
    inside = dict(ranges)
    per_line = max(1, LINE * prod(buffer.shape) // buffer.nbytes)
    for dim, part in enumerate(box):
        step = per_line if dim == len(box) - 1 else 1
        count = -(-min(part.width + 1, buffer.shape[dim]) // step)
        place = substitute(part.lo.to_expr(), ahead)
        if count > 1:
            var = Var(f"ax{dim}")
            loops.append((var, count))
            inside[var] = (0, count - 1)
            place = add(place, mul(var, index(step)))
        clamped = maximum(minimum(place, index(buffer.shape[dim] - 1)), index(0))
        indices.append(simplify(clamped, inside))
    pointer = Address(buffer, tuple(indices), (1,) * len(indices), "r")
    body: Stmt = Evaluate(Call(PREFETCH, (pointer,), "int32"))
    for var, extent in reversed(loops):
        body = For(var, extent, body)
    return body
