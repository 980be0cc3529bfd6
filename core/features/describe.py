"""Descriptions of loop nests: the fixed set of numbers from which features are computed.

The numbers are exact integers, or symbols that represent all configurations. Their layout is the same for every
program: see `LAYOUT`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import takewhile

from pegbox.expr.dtypes import nbytes
from pegbox.expr.nodes import Buffer
from pegbox.features.footprint import NOTHING, Known, Memory, Touched, by_buffer
from pegbox.features.index import Loop, loops_in, reach, step
from pegbox.features.nest import BufferAccess, Nest, Statement
from pegbox.features.symbol import Quantity, below, ceil_div, equal, largest, least, product
from pegbox.loops.nodes import ForKind

DEPTH = 16
"""The number of distinguished loops of the main computation; if there are more, the outermost count as one."""

LEVELS = ("lines_written", "lines_read_0", "lines_read_1", "lines_read_more", "bytes", "pages")
"""The footprints inside each number of loops: arrays of DEPTH + 1 numbers, that of the whole nest first."""

GROUPS = ("before", "after")
"""The statements whose results the main computation reads, and all others."""

GROUP_NUMBERS = ("count", "points", "runs", "vectors", "strided", "lines_read", "lines_written")

NUMBERS = (
    "flop", "points", "runs", "vector", "vector_loops", "wide", "unrolled", "unroll_loops", "steps",
    "accumulators", "loads", "work", "trip", "computed", "contiguous", "repeated", "strided", "writes_contiguous",
    "tile_bytes", "tile_lines", "tile_pages", "parallel", "parallel_loops", "regions", "statements", "loops",
    "iterations", "code", "workspace", "largest", "reduced",
    *(f"{group}_{number}" for group in GROUPS for number in GROUP_NUMBERS),
)  # fmt: skip

LAYOUT: dict[str, slice] = {}
for _position, _name in enumerate(NUMBERS):
    LAYOUT[_name] = slice(_position, _position + 1)
LAYOUT["extents"] = slice(len(NUMBERS), len(NUMBERS) + DEPTH)
for _position, _name in enumerate(LEVELS):
    _start = len(NUMBERS) + DEPTH + _position * (DEPTH + 1)
    LAYOUT[_name] = slice(_start, _start + DEPTH + 1)
WIDTH = len(NUMBERS) + DEPTH + len(LEVELS) * (DEPTH + 1)


def describe(nest: Nest, vector_bytes: int, *, holds: Callable[[Quantity], bool], known: Known) -> list[Quantity]:
    """Compute WIDTH numbers, in the order of LAYOUT.

    `holds` answers the questions that decide the path, with 1 or 0; `known` are footprints of programs described
    before.
    """
    memory, shared = Memory(nest, known), _shared(nest)
    main = _main(nest, holds)
    numbers: dict[str, Quantity] = dict.fromkeys(NUMBERS, 0)
    numbers |= _computation(main, memory, vector_bytes) | _tile(main, memory, vector_bytes)
    numbers |= _program(nest, memory, shared, vector_bytes)
    before = _makers(nest, main)
    for group, members in (
        ("before", [s for s in nest.statements if s is not main and s in before]),
        ("after", [s for s in nest.statements if s is not main and s not in before]),
    ):
        for name, value in _group(members, memory, shared, vector_bytes).items():
            numbers[f"{group}_{name}"] = value
    loops = _merged(main.loops)
    levels = _levels(main, loops, memory)
    padding = DEPTH - len(loops)
    row = [numbers[name] for name in NUMBERS] + [1] * padding + [_size(run) for run in loops]
    for name in LEVELS:
        row += [levels[name][0]] * padding + levels[name]
    return row


def _main(nest: Nest, holds: Callable[[Quantity], bool]) -> Statement:
    """Find the first statement with the most arithmetic; without arithmetic, the one with the most points."""
    busy = [s for s in nest.statements if s.operations] or list(nest.statements)
    best, most_work = busy[0], max(busy[0].operations, 1) * busy[0].domain
    for other in busy[1:]:
        work = max(other.operations, 1) * other.domain
        if holds(below(most_work, work)):
            best, most_work = other, work
    return best


def _shared(nest: Nest) -> dict[Statement, int]:
    """Count the loops that each statement shares with a later one, which counts them."""
    last = {loop: statement for statement in nest.statements for loop in statement.loops}
    return {s: sum(last[loop] is not s for loop in s.loops) for s in nest.statements}


def _merged(loops: Sequence[Loop]) -> list[tuple[Loop, ...]]:
    surplus = max(len(loops) - DEPTH + 1, 1)
    return [tuple(loops[:surplus]), *((loop,) for loop in loops[surplus:])] if loops else []


def _levels(main: Statement, loops: Sequence[tuple[Loop, ...]], memory: Memory) -> dict[str, list[Quantity]]:
    """Compute the footprints inside 0, 1, ... of the main computation's loops."""
    written = set(main.written)
    buffers = by_buffer(main.accesses)
    reads = [buffer for buffer in buffers if buffer not in written]
    found: dict[str, list[Quantity]] = {name: [] for name in LEVELS}
    touched: dict[Buffer, Touched] = {}
    moving = {buffer: memory.loops_of(accesses) for buffer, accesses in buffers.items()}
    row: tuple[Quantity, ...] = (0,) * len(LEVELS)
    for depth in range(len(loops) + 1):
        running = {loop for run in loops[depth:] for loop in run}
        stopped = set(loops[depth - 1]) if depth else set()
        changed = [buffer for buffer, loops_of in moving.items() if not depth or not stopped.isdisjoint(loops_of)]
        touched |= {buffer: memory.of(buffers[buffer], running) for buffer in changed}
        if changed:
            row = (
                sum([touched[b].lines for b in written]),
                *(touched[reads[number]].lines if number < len(reads) else 0 for number in range(2)),
                sum([touched[b].lines for b in reads[2:]]),
                sum([each.bytes for each in touched.values()]),
                sum([each.pages for each in touched.values()]),
            )
        for name, value in zip(LEVELS, row, strict=True):
            found[name].append(value)
    return found


def _sum(parts: Iterable[Touched]) -> Touched:
    return reduce(Touched.plus, parts, NOTHING)


def _computation(main: Statement, memory: Memory, vector_bytes: int) -> dict[str, Quantity]:
    lanes, unrolled = _of_kind(main, ForKind.VECTORIZED), _of_kind(main, ForKind.UNROLLED)
    parallel = [loop for loop in main.loops if loop.kind.is_concurrent]
    return {
        "flop": main.operations,
        "points": main.domain,
        "runs": _size(main.loops),
        "vector": _size(lanes),
        "vector_loops": len(lanes),
        "wide": _vectors(main, vector_bytes),
        "unrolled": _size(unrolled),
        "unroll_loops": len(unrolled),
        "steps": largest(loop.unroll_steps for loop in main.loops),
        "parallel": _size(parallel),
        "parallel_loops": len(parallel),
        "loops": len(main.loops),
        "reduced": int(main.is_reduction),
        **_moves(main, memory),
    }


def _of_kind(statement: Statement, kind: ForKind) -> list[Loop]:
    return [loop for loop in statement.loops if loop.kind is kind]


def _size(loops: Iterable[Loop]) -> Quantity:
    return product(loop.extent for loop in loops)


def _vectors(statement: Statement, vector_bytes: int) -> Quantity:
    """Count the machine vectors of one vector operation of the statement; 1 if it is not vectorized."""
    lanes = _size(_of_kind(statement, ForKind.VECTORIZED))
    size = max((nbytes(access.buffer.dtype) for access in statement.accesses if access.is_write), default=4)
    return ceil_div(lanes * size, vector_bytes)


def _innermost(statement: Statement) -> Loop | None:
    """Find the loop whose neighbours make a vector: the vectorized one, else the innermost."""
    loops = _of_kind(statement, ForKind.VECTORIZED) or statement.loops
    return loops[-1] if loops else None


def _stride(access: BufferAccess, loop: Loop | None, memory: Memory) -> Quantity:
    """Compute the distance in elements from one iteration to the next; 0 if there is no next one."""
    if loop is None:
        return 0
    between: Quantity = 1
    total: Quantity = 0
    for index, extent in zip(reversed(access.indices), reversed(memory.shapes[access.buffer]), strict=True):
        total = total + step(index, loop) * between
        between = between * extent
    return total * least(loop.extent - 1, 1)


def _moves(main: Statement, memory: Memory) -> dict[str, Quantity]:
    """Count the accesses by their steps along the innermost loop: to the next element, not at all, or farther."""
    loop = _innermost(main)
    contiguous: Quantity = 0
    repeated: Quantity = 0
    writes: Quantity = 0
    reads = 0
    for access in main.accesses:
        stride = _stride(access, loop, memory)
        if access.is_write:
            writes = writes + equal(stride, 1)
        elif access.buffer not in main.written:
            reads = reads + 1
            contiguous = contiguous + equal(stride, 1)
            repeated = repeated + equal(stride, 0)
    return {
        "contiguous": contiguous,
        "repeated": repeated,
        "strided": reads - contiguous - repeated,
        "writes_contiguous": writes,
    }


def _tile(main: Statement, memory: Memory, vector_bytes: int) -> dict[str, Quantity]:
    """Describe the register tile: the held results, the loads and the work of a step, and the number of steps."""
    straight = takewhile(lambda loop: loop.kind in (ForKind.UNROLLED, ForKind.VECTORIZED), reversed(main.loops))
    tile = list(straight)[::-1]
    steps = {loop for loop in tile if loop.kind is ForKind.UNROLLED}
    wide, lane = _vectors(main, vector_bytes), _innermost(main)
    written = set(main.written)
    accumulators: Quantity = 0
    loads: Quantity = 0
    for buffer, accesses in by_buffer(main.accesses).items():
        held = memory.elements(accesses, steps)
        if buffer in written:
            accumulators = accumulators + held * wide
        else:
            stays = equal(_stride(accesses[0], lane, memory), 0) if lane is not None else 0
            loads = loads + held * (wide - stays * (wide - 1))
    touched = _sum(memory.of(accesses, set(tile)) for accesses in by_buffer(main.accesses).values())
    sizes = [(extent, reach(value, set(tile), 0) + 1) for value, extent in main.iters]
    return {
        "accumulators": accumulators,
        "loads": loads,
        "work": _size(steps) * wide,
        "trip": _trip(main, tile),
        # The values of each variable that whole tiles compute; the part beyond its extent is wasted.
        "computed": product(ceil_div(n, size) * size for n, size in sizes),
        "tile_bytes": touched.bytes,
        "tile_lines": touched.lines,
        "tile_pages": touched.pages,
    }


def _trip(main: Statement, tile: Sequence[Loop]) -> Quantity:
    """Count the iterations of the loops around the tile in which it adds to the same elements."""
    outputs = {
        loop for access in main.accesses if access.is_write for index in access.indices for loop in loops_in(index)
    }
    same: Quantity = 1
    trip: Quantity = 1
    for loop in reversed(main.loops[: len(main.loops) - len(tile)]):
        if loop in outputs:
            same = same * equal(loop.extent, 1)
        trip = trip * (1 + same * (loop.extent - 1))
    return trip


def _makers(nest: Nest, main: Statement) -> set[Statement]:
    """Find the statements whose results the main computation reads, directly or not."""
    found: set[Statement] = set()
    wanted = {access.buffer for access in main.accesses if not access.is_write} - set(main.written)
    while True:
        new = {s for s in nest.statements if s is not main and s not in found and wanted & set(s.written)}
        if not new:
            return found
        found |= new
        wanted |= {access.buffer for s in new for access in s.accesses if not access.is_write}


def _group(
    members: Sequence[Statement], memory: Memory, shared: Mapping[Statement, int], vector_bytes: int
) -> dict[str, Quantity]:
    total: dict[str, Quantity] = dict.fromkeys(GROUP_NUMBERS, 0)
    for statement in members:
        runs = _size(statement.loops)
        lanes = _size(_of_kind(statement, ForKind.VECTORIZED))
        vectors = _size([loop for loop in statement.loops if loop.kind is not ForKind.VECTORIZED])
        vectors = vectors * _vectors(statement, vector_bytes)
        loop = _innermost(statement)
        strides = [_stride(access, loop, memory) for access in statement.accesses]
        unlike = sum(1 - equal(x, 0) - equal(x, 1) for x in strides)
        own = set(statement.loops[shared[statement] :])
        outside = _size(statement.loops[: shared[statement]])
        part: dict[str, Quantity] = {
            "count": 1,
            "points": statement.domain,
            "runs": runs,
            "vectors": vectors,
            "strided": unlike * vectors * least(lanes, 16),
        }
        for name, write in (("lines_read", False), ("lines_written", True)):
            groups = by_buffer(access for access in statement.accesses if access.is_write == write)
            part[name] = outside * _sum(memory.of(accesses, own) for accesses in groups.values()).lines
        total = {name: total[name] + part[name] for name in total}
    return total


def _program(nest: Nest, memory: Memory, shared: Mapping[Statement, int], vector_bytes: int) -> dict[str, Quantity]:
    """Describe the whole program: the overhead of loops, the size of the code, memory for intermediates."""
    held = [product(shape) * nbytes(b.dtype) for b, shape in memory.shapes.items() if b not in nest.params]
    return {
        "statements": len(nest.statements),
        "iterations": sum(_iterations(s, shared[s]) for s in nest.statements),
        "regions": sum(_regions(s, shared[s]) for s in nest.statements),
        "code": sum(_code(s, vector_bytes) for s in nest.statements),
        "workspace": sum(held),
        "largest": largest(held),
    }


def _iterations(statement: Statement, shared: int) -> Quantity:
    """Count the iterations of the statement's own loops."""
    around = _size(statement.loops[:shared])
    total: Quantity = 0
    for loop in statement.loops[shared:]:
        if loop.kind not in (ForKind.UNROLLED, ForKind.VECTORIZED):
            around = around * loop.extent
            total = total + around
    return total


def _regions(statement: Statement, shared: int) -> Quantity:
    """Count the starts of the statement's own parallel loops."""
    for position, loop in enumerate(statement.loops):
        if loop.kind.is_concurrent:
            return _size(statement.loops[:position]) if position >= shared else 0
    return 0


def _code(statement: Statement, vector_bytes: int) -> Quantity:
    """Count the instructions of straight-line code in the innermost loop."""
    copies = _size(_of_kind(statement, ForKind.UNROLLED))
    return copies * _vectors(statement, vector_bytes) * (statement.operations + len(statement.accesses))
