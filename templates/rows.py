"""Computations by rows, such as softmax and normalizations: each row of the output needs one row of every stage.

`RowGenerator` is the space generator `rows`. All stages are computed for a few rows at a time, so that they stay in the
closest cache, and the latency of one row's sums passes while others are computed. A reduction has a partial result for
each lane of some vectors. Stages of elements that are cheap to compute, or read once, are computed where they are read;
others are summed in the loop that computes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pegbox as pb
from pegbox import te
from pegbox.codegen import Target, lanes_of
from pegbox.compute import ComputeOp, Tensor, body_loads, body_parts, count_flop, post_order
from pegbox.errors import TemplateError
from pegbox.expr import SLOW, Buffer, Call, linear, nbytes, walk
from pegbox.task import Space
from pegbox.templates import threads
from pegbox.templates.tensor_space import TensorSpace

_ROWS = (1, 2, 4, 8, 16)
_BYTES = 1 << 10, 1 << 13
"""The bytes of a stage's rows that are enough to hide latency, and that the closest cache holds for several stages."""

_VECTORS = (8, 4, 2)
"""The vectors of a step, the best of untuned kernels first."""

_IN_TURNS = (4, 2, 8)
"""The same in long rows with sums or slow functions, which are computed for four vectors in turns."""

_LARGE = 1 << 20
"""The bytes of a second cache above which a processor writes slowly through its caches."""

_STEPS = 4
"""The fewest steps of a row that goes around the caches."""


@dataclass(frozen=True)
class Rows:
    """A computation by rows.

    Attributes:
        out: the output.
        stages: the operations before it, producers first.
        inlined: those of them that are computed where they are read.
        rank: the number of leading axes that count rows.
    """

    out: ComputeOp
    stages: tuple[ComputeOp, ...]
    inlined: frozenset[ComputeOp]
    rank: int

    @property
    def stored(self) -> tuple[ComputeOp, ...]:
        """The operations whose results are stored, the output last."""
        return (*(op for op in self.stages if op not in self.inlined), self.out)

    def row(self, op: ComputeOp) -> int:
        """Count the elements of a row of an operation; those that it reads, where it reduces a row."""
        return math.prod(axis.extent for axis in self.row_axes(op))

    def row_axes(self, op: ComputeOp) -> tuple[te.IterVar, ...]:
        """Return the axes of a row of an operation, or of one that it reduces."""
        return tuple(op.reduce_axis if op.reduce is not None else op.axis[self.rank :])

    @property
    def taken(self) -> dict[ComputeOp, ComputeOp]:
        """The reductions that take the elements of the stage before while these are computed, and that stage."""
        return {
            op: before
            for before, op in pairwise(self.stored[:-1])
            if op.reduce is not None
            and before.reduce is None
            and before.outputs[0] in op.inputs
            and [axis.extent for axis in self.row_axes(op)] == [axis.extent for axis in self.row_axes(before)]
            and self.reads_in_order(op, before)
        }

    def reads_in_order(self, op: ComputeOp, before: ComputeOp) -> bool:
        """Decide if an operation, with those that are computed in it, reads a stage's rows at its own place only."""
        needed = post_order([op])
        between = [each for each in self.inlined if each in needed and before in post_order([each])]
        buffers = [each.outputs[0].buffer for each in (before, *between)]
        return all(
            [*map(id, load.indices[self.rank :])] == [*map(id, self.row_axes(reader))]
            for reader in (op, *between)
            for load in body_loads(reader.body)
            if load.buffer in buffers
        )


@dataclass(frozen=True)
class RowGenerator:
    """The space generator `rows`."""

    def __call__(self, tensors: Sequence[Tensor], target: Target) -> Space:
        """Derive the space of a computation by rows.

        Raises:
            TemplateError: it has several outputs, reduces something else than rows, or a row needs several of a stage.
        """
        return TensorSpace(tuple(tensors), rows_of(tensors), declare, schedule)


# Analysis ------------------------------------------------------------------------------------------------------------


def rows_of(tensors: Sequence[Tensor]) -> Rows:
    """Find the rows of a computation. Raises what `RowGenerator` raises."""
    ops = [op for op in post_order([tensor.op for tensor in tensors]) if isinstance(op, ComputeOp)]
    made = {tensor.buffer: op for op in ops for tensor in op.outputs}
    if any(type(op) is not ComputeOp or len(op.outputs) > 1 for op in ops):
        raise TemplateError("rows: there are scans, statements or operations of several outputs; use space='sketch'")
    outputs = [tensor.name for tensor in tensors if tensor.buffer in made]
    if len(outputs) != 1:
        raise TemplateError(f"rows: {', '.join(outputs) or 'nothing'} is computed; give one output")
    out = made[next(tensor.buffer for tensor in tensors if tensor.name == outputs[0])]
    if all(op.reduce is None for op in ops):
        raise TemplateError("rows: nothing is reduced; elements do not need rows")
    rank = _rank(ops, out, made)
    if rank < 1:
        raise TemplateError("rows: a row of the output needs several rows of a stage; use space='sketch'")
    for op in ops:
        _check_reduction(op, rank)
    stages = tuple(op for op in ops if op is not out)
    inlined = {op for op in stages if op.reduce is None and (_is_cheap(op, rank) or _is_read_once(op, ops))}
    return Rows(out, stages, frozenset(inlined), rank)


def _rank(ops: Sequence[ComputeOp], out: ComputeOp, made: Mapping[Buffer, ComputeOp]) -> int:
    """Count the leading axes of which each stage needs the same index of every other one."""
    rank = len(out.axis) - (out.reduce is None)
    for op in ops:
        for load in body_loads(op.body):
            if load.buffer in made:
                pairs = zip(load.indices, op.axis, load.buffer.shape, strict=False)
                same = [extent == axis.extent and (index is axis or extent == 1) for index, axis, extent in pairs]
                rank = min(rank, [*same, False].index(False))
    return rank


def _check_reduction(op: ComputeOp, rank: int) -> None:
    """Check that a reduction is one of rows, along the last axis of the operands; raise TemplateError for others."""
    if op.reduce is None:
        return
    last = op.reduce_axis[-1]
    along = [load for load in body_loads(op.body) if any(linear(index).coefficient(last) for index in load.indices)]
    neighbours = [[linear(index).coefficient(last) for index in load.indices] for load in along]
    steps = [linear(load.indices[-1]).coefficient(axis) for load in along for axis in op.axis]
    if (
        op.reduce.reducer.name not in ("sum", "prod", "max", "min")
        or math.prod(axis.extent for axis in op.axis[rank:]) > 1
        or not along
        or any(found[-1] != 1 or any(found[:-1]) for found in neighbours)
        or any(0 < step < last.extent for step in steps)  # windows that overlap
    ):
        raise TemplateError(f"rows: {op.name} reduces no rows along their last axis; use space='sketch'")


def _is_cheap(op: ComputeOp, rank: int) -> bool:
    """Decide if a stage has elements of rows that take no slow function to compute again."""
    return not _has_slow_calls(op) and math.prod(axis.extent for axis in op.axis[rank:]) > 1


def _has_slow_calls(op: ComputeOp) -> bool:
    parts = (part for whole in body_parts(op.body) for part in walk(whole))
    return any(isinstance(part, Call) and part.name in SLOW for part in parts)


def _is_read_once(op: ComputeOp, ops: Sequence[ComputeOp]) -> bool:
    """Decide if a single access of a single reduction reads a stage, each element of a row once."""
    made = op.outputs[0].buffer
    readers = [other for other in ops for load in body_loads(other.body) if load.buffer is made]
    if len(readers) != 1 or readers[0].reduce is None:
        return False
    reader = readers[0]
    return math.prod(op.outputs[0].shape) == math.prod(axis.extent for axis in (*reader.axis, *reader.reduce_axis))


# Space ---------------------------------------------------------------------------------------------------------------


def declare(cfg: pb.TemplateConfig, found: Rows) -> None:
    """Declare the knobs: rows at a time, and the vectors of a step of reductions and of other stages."""
    counts = _row_counts(found)
    if _is_streamed(cfg, found, found.out.outputs[0]):
        cfg.prefer_first()  # few rows: single ones are prefetched
    cfg.define_knob("rows", counts)
    lanes = _lanes(cfg, found)
    for name in "reduce_vectors", "map_vectors":
        ops = [op for op in found.stored if _vectors_of(op, found) == name and found.row(op) > 1]
        most = -(-max(map(found.row, ops), default=1) // lanes)
        is_plain = name == "map_vectors" and not any(_is_slow(found, op) for op in ops)
        best: tuple[int, ...] = _VECTORS if is_plain or most <= max(_VECTORS) else _IN_TURNS
        if name == "map_vectors" and _goes_around_caches(cfg, found):  # the rest of a row does not
            best = tuple(sorted(best, key=lambda count: _ordinary_stores(found.row(found.out), count * lanes)))
        cfg.define_knob(name, list(dict.fromkeys(min(count, most) for count in best)))
    threads.declare(cfg, count_flop(found.out.outputs))


def _ordinary_stores(row: int, width: int) -> tuple[bool, int]:
    """Return the key that orders widths of steps: all stores are ordinary, or the elements behind the last step are."""
    return row < _STEPS * width, row % width


def _vectors_of(op: ComputeOp, found: Rows) -> str:
    """Return the knob of a stage's vectors: a reduction that takes another stage's elements has those of that stage."""
    return "map_vectors" if op.reduce is None or op in found.taken else "reduce_vectors"


def _row_counts(found: Rows) -> list[int]:
    """Return the numbers of rows whose bytes hide latency and fit the closest cache, or the nearest."""
    widest = max(found.row(op) * nbytes(op.outputs[0].dtype) for op in found.stored)
    enough, most = _BYTES
    there = found.out.axis[found.rank - 1].extent
    counts = [n for n in _ROWS if enough <= n * widest <= most and n <= there]
    few = [n for n in _ROWS if n <= there and n * widest < enough]
    return counts or few[-1:] or [1]


def _lanes(cfg: pb.TemplateConfig, found: Rows) -> int:
    """Return the lanes of the widest type."""
    return lanes_of(cfg.target, *(tensor.dtype for op in found.stored for tensor in op.outputs))


# Schedule ------------------------------------------------------------------------------------------------------------


def schedule(cfg: pb.TemplateConfig, found: Rows) -> te.TESchedule:
    """Schedule all stages."""
    s = te.create_schedule(found.out)
    for op in found.inlined:
        s[op].compute_inline()
    place = _schedule_rows(cfg, s[found.out], found)
    loops: dict[ComputeOp, te.IterVar] = {}
    for op in found.stored:
        if op is not found.out:
            s[op].compute_at(s[found.out], place)
        blocks = _schedule_row(cfg, s[op], found)
        if blocks is not None:
            loops[op] = blocks
    kept = _kept_in_output(cfg, found)
    if found.out in loops and _goes_around_caches(cfg, found):
        s[found.out].pragma(loops[found.out], "nontemporal")
    if kept is not None:
        s[kept].store_in(s[found.out])
    for op, before in found.taken.items():
        if op in loops:
            s[op].merge(loops[op], s[before], loops[before])
    if cfg["rows"].val == 1 and found.out in loops:
        _prefetch(cfg, s[found.out], found, place, loops)
    return s


def _kept_in_output(cfg: pb.TemplateConfig, found: Rows) -> ComputeOp | None:
    """Choose a stage whose rows are kept in those of the output, so that the closest cache holds fewer rows.

    A buffer is better if that cache does not hold one row, and for short rows, whose last elements would be stored
    twice under a mask. With AVX2 it is also better for longer rows if three of them fit: exponentials take so long
    that the lines of the output are fetched meanwhile.
    """
    row, nearest = found.row(found.out) * nbytes(found.out.outputs[0].dtype), cfg.target.caches.l1
    if found.out.reduce is not None or not _BYTES[0] // 2 <= row < nearest or _goes_around_caches(cfg, found):
        return None
    if 2 * _BYTES[0] <= row <= nearest // 3 and lanes_of(cfg.target, "float32") < 16:
        return None
    same = (
        op
        for op in found.stored[:-1]
        if op.outputs[0] in found.out.inputs
        and (op.outputs[0].shape, op.outputs[0].dtype) == (found.out.outputs[0].shape, found.out.outputs[0].dtype)
        and all(found.reads_in_order(each, op) for each in found.stored)
    )
    return next(same, None)


def _goes_around_caches(cfg: pb.TemplateConfig, found: Rows) -> bool:
    """Decide if rows of the output are better written around the caches, because no cache holds it.

    Then memory need not read their lines first, but gets all lines of a row in a burst. On a Zen 4, short rows that
    take as long to compute as to write lose more by that than they gain. An Emerald Rapids writes through its caches so
    slowly that rows of some lines gain. Such processors are recognized by a second cache above 1 MiB, which no Zen has.
    """
    out, caches = found.out.outputs[0], cfg.target.caches
    row = found.row(found.out) * nbytes(out.dtype)
    is_slow = any(_is_slow(found, op) for op in found.stored if found.row(op) > 1)
    least = _BYTES[1] if is_slow else 2 * _BYTES[0]
    is_long = row >= (_BYTES[0] // 2 if caches.l2 > _LARGE else least)
    return is_long and found.out.reduce is None and not caches.hold(out.buffer.nbytes)


def _prefetch(
    cfg: pb.TemplateConfig, out: te.Stage, found: Rows, place: te.IterVar, loops: Mapping[ComputeOp, te.IterVar]
) -> None:
    """Keep memory busy while rows are computed, between the first reads of a row and its last writes.

    The pass that takes longest fetches: one that computes slow functions fetches the next row and the lines of the
    output, unless the rows of all stages evict these lines from the closest cache before they are written. Where no
    pass computes slow functions, the next row is read while this one is written. Blocks of several short rows gain
    nothing: the hardware sees one stream.
    """
    fetching = _fetching_pass(found, loops)
    is_slow = _is_slow(found, fetching)
    for tensor in _streamed(cfg, found):
        out.prefetch(tensor, place, 1, among=loops[fetching if is_slow else _reading_pass(cfg, found, loops)])
    is_read_first = found.out.reduce is None and not _goes_around_caches(cfg, found)
    if not is_read_first or not _is_streamed(cfg, found, found.out.outputs[0]):
        return
    makes_output = _kept_in_output(cfg, found) is fetching
    if not is_slow or (not makes_output and _bytes_made(found) < cfg.target.caches.l1):
        out.prefetch(found.out.outputs[0], place, 0, among=loops[fetching])


def _bytes_made(found: Rows) -> int:
    """Count the bytes of a row of all stages without a reduction."""
    return sum(found.row(op) * nbytes(op.outputs[0].dtype) for op in found.stored if op.reduce is None)


def _fetching_pass(found: Rows, loops: Mapping[ComputeOp, te.IterVar]) -> ComputeOp:
    """Choose the pass over a row that fetches the lines of the output.

    It is the last one that computes slow functions, or the first one if the closest cache does not hold the rows. Sums
    of shorter rows are short: the lines would come in a burst, except in one that finds its row in the closest cache.
    So they would in a pass over a row much shorter than the output's.
    """
    before = [op for op in found.stages if op in loops and 2 * found.row(op) >= found.row(found.out)]
    slow = [op for op in before if _is_slow(found, op)]
    row = found.row(found.out) * nbytes(found.out.outputs[0].dtype)
    if slow or not before:
        return [found.out, *slow][-1]
    if row > _BYTES[1]:
        return before[0]
    return before[-1] if len(before) > 1 and 2 * row <= _BYTES[1] else found.out


def _reading_pass(cfg: pb.TemplateConfig, found: Rows, loops: Mapping[ComputeOp, te.IterVar]) -> ComputeOp:
    """Choose the pass that fetches the next row where none computes slow functions: the one that writes the output.

    Lines on their way around the caches need the same buffers as lines that are fetched. So for rows of 8 KB or more
    that the closest cache holds, it is the pass before, unless the row has only one.
    """
    row = found.row(found.out) * nbytes(found.out.outputs[0].dtype)
    before = [op for op in found.stages if op in loops]
    is_long = _BYTES[1] <= row < cfg.target.caches.l1 and _goes_around_caches(cfg, found)
    return before[-1] if is_long and len(before) > 1 else found.out


def _is_slow(found: Rows, op: ComputeOp) -> bool:
    """Decide if a stage, or one that is computed where it reads it, computes slow functions."""
    inside = (tensor.op for tensor in op.inputs)
    return _has_slow_calls(op) or any(_is_slow(found, each) for each in inside if each in found.inlined)


def _streamed(cfg: pb.TemplateConfig, found: Rows) -> Iterator[Tensor]:
    """Yield the inputs that are read from memory row by row."""
    for tensor in dict.fromkeys(tensor for op in (*found.stages, found.out) for tensor in op.inputs):
        if not isinstance(tensor.op, ComputeOp) and _is_streamed(cfg, found, tensor):
            yield tensor


def _is_streamed(cfg: pb.TemplateConfig, found: Rows, tensor: Tensor) -> bool:
    """Check if a tensor has the rows of the output, and more bytes than the second cache holds."""
    lead = tuple(axis.extent for axis in found.out.axis[: found.rank])
    return tensor.shape[: found.rank] == lead and tensor.buffer.nbytes > cfg.target.caches.l2


def _schedule_rows(cfg: pb.TemplateConfig, out: te.Stage, found: Rows) -> te.IterVar:
    """Split the rows of the output, and return the loop whose iterations compute some of them."""
    axes = list(out.op.axis)
    count = cfg["rows"].val
    if count > 1:
        axes[found.rank - 1], inside = out.split(axes[found.rank - 1], factor=count)
        reduced = out.op.reduce_axis
        out.reorder(*axes[: found.rank], inside, *axes[found.rank :], *reduced)
    place = out.fuse(*axes[: found.rank]) if found.rank > 1 else axes[0]
    threads.share(cfg, out, place)
    return place


def _schedule_row(cfg: pb.TemplateConfig, stage: te.Stage, found: Rows) -> te.IterVar | None:
    """Let a stage's last loop run along vectors; return the loop over their blocks, if there is one.

    A stage of one element for each row stays as it is.
    """
    op = stage.op
    if found.row(op) == 1:
        return None
    last = found.row_axes(op)[-1]
    lanes = _lanes(cfg, found)
    width = lanes * min(cfg[_vectors_of(op, found)].val, -(-last.extent // lanes))
    if last.extent <= lanes:
        stage.vectorize(last)
        return None
    blocks, inside = stage.split(last, factor=width)
    stage.vectorize(inside)
    if op in found.taken:  # whose axes behind the rows have one element
        stage.reorder(*found.row_axes(op)[:-1], blocks, *op.axis[found.rank :], inside)
    return blocks
