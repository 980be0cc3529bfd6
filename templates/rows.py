"""Computations by rows, such as softmax and normalizations: each row of the output needs one row of every stage.

`RowGenerator` is the space generator `rows`. All stages are computed for a few rows at a time, so that they stay in the
closest cache, and other rows hide the latency of one row's sums. A reduction has a partial result for each lane of some
vectors. Stages of elements that are cheap to compute, or read once, are computed where they are read; others are summed
in the loop that computes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pegbox as pb
from pegbox import te
from pegbox.codegen import LINE, Target, lanes_of
from pegbox.compute import ComputeOp, Tensor, count_flop
from pegbox.expr import nbytes
from pegbox.task import Space
from pegbox.templates import threads
from pegbox.templates.row_stages import Rows, is_slow, rows_of
from pegbox.templates.tensor_space import TensorSpace

_ROWS = (1, 2, 4, 8, 16)
_BYTES = 1 << 10, 1 << 13
"""The fewest bytes of a stage's rows that hide latency, and the most that the closest cache holds for some stages."""

_VECTORS = (8, 4, 2)
"""The vectors of a step, the best of untuned kernels first."""

_IN_TURNS = (4, 2, 8)
"""The same in long rows with sums or slow functions, which are computed for four vectors in turns."""

_LARGE = 1 << 20
"""The bytes of a second cache above which a processor writes slowly through its caches."""

_STEPS = 4
"""The smallest number of steps of a row that goes around the caches."""

_SHORT = 1 << 11
"""The bytes below which rows are gathered, or fetched a block ahead."""

_TOGETHER = 4
"""The smallest number of rows that untuned kernels gather."""


@dataclass(frozen=True)
class RowGenerator:
    """The space generator `rows`."""

    def __call__(self, tensors: Sequence[Tensor], target: Target) -> Space:
        """Derive the space of a computation by rows.

        Raises:
            TemplateError: it has several outputs, reduces something else than rows, or a row needs several of a stage.
        """
        return TensorSpace(tuple(tensors), rows_of(tensors), declare, schedule)


# Space ---------------------------------------------------------------------------------------------------------------


def declare(cfg: pb.TemplateConfig, found: Rows) -> None:
    """Declare the knobs: rows at a time, and the vectors of a step of reductions and of other stages."""
    counts = _row_counts(cfg, found)
    if _is_streamed(cfg, found, found.out.outputs[0]):
        cfg.prefer_first()  # with few rows, single ones are prefetched
    cfg.define_knob("rows", counts)
    lanes = _lanes(cfg, found)
    for name in "reduce_vectors", "map_vectors":
        ops = [op for op in found.stored if _vectors_of(op, found) == name and found.row(op) > 1]
        most = -(-max(map(found.row, ops), default=1) // lanes)
        is_plain = name == "map_vectors" and not any(is_slow(found, op) for op in ops)
        best: tuple[int, ...] = _VECTORS if is_plain or most <= max(_VECTORS) else _IN_TURNS
        is_direct = _goes_around_caches(cfg, found) and not _is_gathered(cfg, found)
        if name == "map_vectors" and is_direct:  # the rest of a row does not go around them
            best = tuple(sorted(best, key=lambda count: _ordinary_stores(found.row(found.out), count * lanes)))
        cfg.define_knob(name, list(dict.fromkeys(min(count, most) for count in best)))
    threads.declare(cfg, count_flop(found.out.outputs))


def _ordinary_stores(row: int, width: int) -> tuple[bool, int]:
    """Return the key that orders widths of steps: all stores are ordinary, or the elements behind the last step are."""
    return row < _STEPS * width, row % width


def _vectors_of(op: ComputeOp, found: Rows) -> str:
    """Return the knob of a stage's vectors: a reduction that takes another stage's elements has those of that stage."""
    return "map_vectors" if op.reduce is None or op in found.taken else "reduce_vectors"


def _row_counts(cfg: pb.TemplateConfig, found: Rows) -> list[int]:
    """Return the numbers of rows whose bytes hide latency and fit the closest cache, or the nearest."""
    (enough, most), widest = _BYTES, _widest(found)
    there = found.out.axis[found.rank - 1].extent
    if _is_gathered(cfg, found):
        return _gathered_counts(cfg, found)
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
    if _is_gathered(cfg, found):
        _schedule_gathered(cfg, s, found)
        return s
    out = s[found.out]
    place = _schedule_rows(cfg, out, found)
    loops = _schedule_stages(cfg, found, {op: s[op] for op in found.stored}, out, place)
    kept = _kept_in_output(cfg, found)
    if found.out in loops and _goes_around_caches(cfg, found):
        out.pragma(loops[found.out], "nontemporal")
    if kept is not None:
        s[kept].store_in(out)
    if found.out in loops:
        _prefetch(cfg, out, found, place, loops)
    return s


def _schedule_gathered(cfg: pb.TemplateConfig, s: te.TESchedule, found: Rows) -> None:
    """Compute some rows in a buffer, and copy them around the caches as one.

    A pass that computes slow functions fetches the next rows; others are too short for that.
    """
    made = s[s.cache_write(found.out.outputs[0])]
    out = s[found.out.outputs[0]]
    place, *inside = _schedule_rows(cfg, out, found), *out.leaf_iter_vars[1:]
    lines, elements = out.split(out.fuse(*inside), factor=LINE // nbytes(out.op.outputs[0].dtype))
    out.vectorize(elements)
    out.pragma(lines, "nontemporal")
    stages = {op: made if op is found.out else s[op] for op in found.stored}
    loops = _schedule_stages(cfg, found, stages, out, place)
    slow = [loops[op] for op in found.stored if op in loops and is_slow(found, op)]
    for tensor in _streamed(cfg, found):
        if slow:
            out.prefetch(tensor, place, 1, among=slow[-1])


def _schedule_stages(
    cfg: pb.TemplateConfig, found: Rows, stages: Mapping[ComputeOp, te.Stage], out: te.Stage, place: te.IterVar
) -> dict[ComputeOp, te.IterVar]:
    """Compute rows of all stages inside a loop of the output's; return the loops over their blocks of vectors."""
    loops: dict[ComputeOp, te.IterVar] = {}
    for op, stage in stages.items():
        if stage is not out:
            stage.compute_at(out, place)
        blocks = _schedule_row(cfg, stage, op, found)
        if blocks is not None:
            loops[op] = blocks
    for op, before in found.taken.items():
        if op in loops:
            stages[op].merge(loops[op], stages[before], loops[before])
    for op in loops:
        if op.reduce is None:  # a mask would keep leftovers of the stack, which take long to multiply if subnormal
            stages[op].pragma(loops[op], "loop_partition_hint")
    return loops


def _kept_in_output(cfg: pb.TemplateConfig, found: Rows) -> ComputeOp | None:
    """Choose a stage whose rows are kept in those of the output, so that the closest cache holds fewer rows.

    A buffer is better if that cache does not hold one row, and for short rows, whose last elements would be stored
    twice under a mask. With AVX2 it is also better for longer rows if three of them fit: exponentials take so long
    that the lines of the output are fetched meanwhile.
    """
    row, nearest = _row_bytes(found), cfg.target.caches.l1
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
    if found.out.reduce is not None or cfg.target.caches.hold(found.out.outputs[0].buffer.nbytes):
        return False
    has_functions = any(is_slow(found, op) for op in found.stored if found.row(op) > 1)
    least = _BYTES[1] if has_functions else 2 * _BYTES[0]
    is_long = _row_bytes(found) >= (_BYTES[0] // 2 if _writes_slowly(cfg) else least)
    return is_long or bool(_gathered_counts(cfg, found))


def _writes_slowly(cfg: pb.TemplateConfig) -> bool:
    """Decide if a processor writes slowly through its caches."""
    return cfg.target.caches.l2 > _LARGE


def _is_gathered(cfg: pb.TemplateConfig, found: Rows) -> bool:
    """Decide if rows go around the caches some at a time, through a buffer.

    They are too short for memory to take one while the next is computed, and neighbours share most of the lines at
    their ends. Lines of the buffer begin elsewhere than the vectors that were stored there, so a load has to wait until
    these are in the cache; in a buffer of some rows, they soon are.
    """
    return _goes_around_caches(cfg, found) and bool(_gathered_counts(cfg, found))


def _gathered_counts(cfg: pb.TemplateConfig, found: Rows) -> list[int]:
    """Return the numbers of short rows that may be written as one, the best first."""
    row, there = _row_bytes(found), found.out.axis[found.rank - 1].extent
    if not _writes_slowly(cfg) or row >= _SHORT:
        return []
    (enough, most), widest = _BYTES, _widest(found)
    counts = [n for n in _ROWS if 1 < n <= there and enough <= n * row and n * widest <= most]
    return sorted(counts, key=lambda n: n < _TOGETHER)


def _prefetch(
    cfg: pb.TemplateConfig, out: te.Stage, found: Rows, place: te.IterVar, loops: Mapping[ComputeOp, te.IterVar]
) -> None:
    """Keep memory busy while rows are computed, between the first reads of a row and its last writes.

    The pass that takes longest fetches: one that computes slow functions fetches the next row and the lines of the
    output, unless the rows of all stages evict these lines from the closest cache before they are written. Where no
    pass computes slow functions, the next row is read while this one is written; blocks of several rows are one stream
    to the hardware. Lines of short rows are fetched a block ahead, as a pass over a row is too short to fetch its own.
    """
    fetching, is_around = _fetching_pass(found, loops), _goes_around_caches(cfg, found)
    takes_long, is_block = is_slow(found, fetching), cfg["rows"].val > 1
    if is_block and (is_around or not takes_long):
        return
    for tensor in _streamed(cfg, found):
        out.prefetch(tensor, place, 1, among=loops[fetching if takes_long else _reading_pass(cfg, found, loops)])
    if found.out.reduce is not None or is_around or not _is_streamed(cfg, found, found.out.outputs[0]):
        return
    makes_output = _kept_in_output(cfg, found) is fetching
    if takes_long and (is_block or _row_bytes(found) < _SHORT):
        out.prefetch(found.out.outputs[0], place, 1, among=loops[fetching])
    elif not takes_long or (not makes_output and _bytes_made(found) < cfg.target.caches.l1):
        out.prefetch(found.out.outputs[0], place, 0, among=loops[fetching])


def _widest(found: Rows) -> int:
    """Count the bytes of the longest row of a stage."""
    return max(found.row(op) * nbytes(op.outputs[0].dtype) for op in found.stored)


def _row_bytes(found: Rows) -> int:
    """Count the bytes of a row of the output."""
    return found.row(found.out) * nbytes(found.out.outputs[0].dtype)


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
    slow = [op for op in before if is_slow(found, op)]
    row = _row_bytes(found)
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
    row = _row_bytes(found)
    before = [op for op in found.stages if op in loops]
    is_long = _BYTES[1] <= row < cfg.target.caches.l1 and _goes_around_caches(cfg, found)
    return before[-1] if is_long and len(before) > 1 else found.out


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


def _schedule_row(cfg: pb.TemplateConfig, stage: te.Stage, op: ComputeOp, found: Rows) -> te.IterVar | None:
    """Let the last loop of an operation's stage run along vectors; return the loop over their blocks, if there is one.

    A stage of one element for each row stays as it is.
    """
    if found.row(op) == 1:
        return None
    last = stage.op.axis[-1] if op.reduce is None else op.reduce_axis[-1]
    lanes = _lanes(cfg, found)
    width = lanes * min(cfg[_vectors_of(op, found)].val, -(-last.extent // lanes))
    if last.extent <= (lanes if stage.op is op else width):  # gathered rows have no room between them
        stage.vectorize(last)
        return None
    blocks, inside = stage.split(last, factor=width)
    stage.vectorize(inside)
    if op in found.taken:  # whose axes behind the rows have one element
        stage.reorder(*found.row_axes(op)[:-1], blocks, *op.axis[found.rank :], inside)
    return blocks
