"""Reductions of windows that slide along the rows of an image, such as poolings with the channels first.

`WindowGenerator` is the space generator `windows`. A window is reduced in two steps: its columns first, as vectors of
neighbouring columns, so that overlapping windows share them; then the results of its columns, which begin a stride
after those of the window before. The columns' results of a few rows of windows stay in the closest cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import pegbox as pb
from pegbox import te
from pegbox.codegen import Target, lanes_of
from pegbox.compute import ComputeOp, Tensor, count_flop, post_order
from pegbox.errors import TemplateError
from pegbox.expr import INDEX, Buffer, Const, Expr, Load, Var, free_vars, linear, rewrite, substitute, walk
from pegbox.task import Space
from pegbox.templates import threads
from pegbox.templates.register_tile import WIDE_BITS, write_out
from pegbox.templates.tensor_space import TensorSpace

_REDUCERS: Mapping[str, Any] = {"max": te.max, "min": te.min, "sum": te.sum, "prod": te.prod}

_HEIGHTS = (4, 2, 1)
"""The numbers of rows of windows whose columns are reduced at once."""

_MOST_ROWS = 14
"""The largest number of rows of windows in an image for reducing all columns at once."""

_STEPS = 32
"""The largest number of steps of an unrolled reduction."""


@dataclass(frozen=True)
class Windows:
    """A reduction of windows in two steps.

    Attributes:
        inlined: the pointwise stages, which are computed where they are read.
        columns: the reduction of each column.
        windows: the reduction of the columns of each window, in registers.
        out: the output, computed from the elements of `windows`.
    """

    inlined: tuple[ComputeOp, ...]
    columns: ComputeOp
    windows: ComputeOp
    out: ComputeOp


@dataclass(frozen=True)
class WindowGenerator:
    """The space generator `windows`."""

    def __call__(self, tensors: Sequence[Tensor], target: Target) -> Space:
        """Derive the space of a reduction of windows whose rows are neighbours along the last axis.

        Raises:
            TemplateError: there is no such reduction, or there is another one; there are gaps between windows; or there
                are several outputs.
        """
        found = windows_of(tensors)
        made = tuple(found.out.outputs[0] if isinstance(each.op, ComputeOp) else each for each in tensors)
        return TensorSpace(made, found, _declare, _schedule)


# Analysis ------------------------------------------------------------------------------------------------------------


class _Reduction(NamedTuple):
    """A reduction of `source` by `combine`, with `axis` for the result and `reduce_axis` for the window."""

    name: str
    combine: Any
    source: Expr
    axis: tuple[te.IterVar, ...]
    reduce_axis: tuple[te.IterVar, ...]


def windows_of(tensors: Sequence[Tensor]) -> Windows:
    """Split the windows of a computation into columns. Raises what `WindowGenerator` raises."""
    ops = [op for op in post_order([tensor.op for tensor in tensors]) if isinstance(op, ComputeOp)]
    made = [tensor.op for tensor in tensors if isinstance(tensor.op, ComputeOp)]
    if len(made) != 1 or any(type(op) is not ComputeOp or len(op.outputs) > 1 for op in ops):
        raise TemplateError("windows: give one output, without scans or statements; use space='sketch'")
    places = [place for place, op in enumerate(ops) if op.reduce is not None]
    if not places or places != list(range(places[0], places[-1] + 1)):
        raise TemplateError("windows: there is no reduction, or there are several; use space='sketch'")
    before, reductions, after = ops[: places[0]], ops[places[0] : places[-1] + 1], ops[places[-1] + 1 :]
    joined = _joined(reductions)
    columns, windows = _in_two_steps(joined)
    last = te.compute(windows.shape, lambda *at: windows(*at), name=joined.name)
    known, inlined = {reductions[-1].outputs[0].buffer: windows}, before
    for op in after:
        if op.outputs[0].shape != windows.shape:
            raise TemplateError(f"windows: {op.name} does not have the shape of {joined.name}; use space='sketch'")
        last = known[op.outputs[0].buffer] = _reading(known, op)
        inlined.append(_operation(last))
    return Windows(tuple(op for op in inlined if op is not last.op), *map(_operation, (columns, windows, last)))


def _operation(tensor: Tensor) -> ComputeOp:
    assert isinstance(tensor.op, ComputeOp)
    return tensor.op


def _joined(ops: Sequence[ComputeOp]) -> _Reduction:
    """Join reductions, each of which reads only the one before, into one over the axes of all."""
    joined = _reduction(ops[0])
    for before, op in pairwise(ops):
        last = _reduction(op)
        match last.source:
            case Load(buffer, indices) if buffer is before.outputs[0].buffer and last.combine is joined.combine:
                source = substitute(joined.source, dict(zip(joined.axis, indices, strict=True)))
                joined = last._replace(source=source, reduce_axis=(*last.reduce_axis, *joined.reduce_axis))
            case _:
                raise TemplateError(
                    f"windows: {op.name} does not reduce {before.name} in the same way; use space='sketch'"
                )
    return joined


def _reduction(op: ComputeOp) -> _Reduction:
    reduce = op.reduce
    combine = _REDUCERS.get(reduce.reducer.name) if reduce is not None and _is_true(reduce.condition) else None
    # A user's reducer may have one of these names.
    if reduce is None or combine is None or combine(reduce.sources[0], axis=reduce.axes).reducer is not reduce.reducer:
        raise TemplateError(f"windows: {op.name} is not a plain maximum, minimum, sum or product; use space='sketch'")
    return _Reduction(op.name, combine, reduce.sources[0], op.axis, op.reduce_axis)


def _is_true(condition: Expr) -> bool:
    return isinstance(condition, Const) and bool(condition.value)


def _in_two_steps(joined: _Reduction) -> tuple[Tensor, Tensor]:
    """Return the reduction of columns, and the reduction of these to windows."""
    inner, step = _slide(joined)
    *lead, last = joined.axis
    old = [axis for axis in joined.reduce_axis if axis is not inner]
    others = [te.reduce_axis((0, axis.extent), name=axis.name) for axis in old]
    along = te.reduce_axis((0, inner.extent), name=inner.name)

    def column(*at: Expr) -> Expr:
        places: dict[Var, Expr] = dict(zip((*lead, inner, last, *old), (*at, te.const(0, INDEX), *others), strict=True))
        made: Expr = joined.combine(substitute(joined.source, places), axis=others)
        return made

    shape = [axis.extent for axis in lead]
    columns = te.compute((*shape, (last.extent - 1) * step + inner.extent), column, name="columns")
    windows = te.compute(
        (*shape, last.extent),
        lambda *at: joined.combine(columns(*at[:-1], at[-1] * step + along), axis=[along]),
        name="windows",
    )
    return columns, windows


def _slide(joined: _Reduction) -> tuple[te.IterVar, int]:
    """Return the axis along which a window has neighbouring columns, and the columns from one window to the next."""
    refused = TemplateError(f"windows: {joined.name} does not reduce windows along the last axis; use space='sketch'")
    if len(joined.axis) < 2 or len(joined.reduce_axis) < 2 or joined.axis[-1].extent == 1:
        raise refused
    last = joined.axis[-1]
    loads = [part for part in walk(joined.source) if isinstance(part, Load)]
    places = [linear(load.indices[-1]) for load in loads]
    found = [axis for axis in joined.reduce_axis if axis.extent > 1 and all(at.coefficient(axis) == 1 for at in places)]
    steps = {at.coefficient(last) for at in places}
    if len(found) != 1 or len(steps) != 1 or not 0 < max(steps) <= found[0].extent:
        raise refused
    outside = rewrite(joined.source, lambda e: te.const(0, e.dtype) if isinstance(e, Load) else None)
    rest = [index for load in loads for index in load.indices[:-1]]
    rest += [term for at in places for term in at.terms if term is not last and term is not found[0]]
    if not all(free_vars(each).isdisjoint((last, found[0])) for each in (outside, *rest)):
        raise refused
    return found[0], steps.pop()


def _reading(known: Mapping[Buffer, Tensor], op: ComputeOp) -> Tensor:
    """Return a pointwise stage that reads the tensors `known` instead of their buffers."""

    def leaf(expr: Expr) -> Expr | None:
        return known[expr.buffer](*expr.indices) if isinstance(expr, Load) and expr.buffer in known else None

    def element(*at: Expr) -> Expr:
        places: dict[Var, Expr] = dict(zip(op.axis, at, strict=True))
        return substitute(rewrite(op.body[0], leaf), places)

    return te.compute(op.outputs[0].shape, element, name=op.name)


# Space ---------------------------------------------------------------------------------------------------------------


def _declare(cfg: pb.TemplateConfig, found: Windows) -> None:
    """Declare the knobs: the number of rows of windows at a time, and the lanes of a vector."""
    rows = found.out.axis[-2].extent
    heights = [rows, *_HEIGHTS] if rows <= _MOST_ROWS else _HEIGHTS
    cfg.define_knob("height", list(dict.fromkeys(n for n in heights if n <= rows)))
    cfg.define_knob("lanes", _lanes(cfg, found))
    cfg.prefer_first()
    threads.declare(cfg, count_flop(found.out.outputs))


def _lanes(cfg: pb.TemplateConfig, found: Windows) -> list[int]:
    """Return the lanes of two registers, which hide latency, of one, and, if registers are wide, of half of one.

    With wide registers, the lanes that waste least at the ends of rows come first.
    """
    lanes = lanes_of(cfg.target, *(op.outputs[0].dtype for op in (found.columns, found.out)))
    if cfg.target.vector_bits < WIDE_BITS:
        return [2 * lanes, lanes]
    extents = [op.axis[-1].extent for op in (found.columns, found.out)]

    def computed(count: int) -> int:
        return sum(-(-extent // min(count, extent)) * min(count, extent) for extent in extents)

    return sorted([2 * lanes, lanes, lanes // 2], key=computed)


def _schedule(cfg: pb.TemplateConfig, found: Windows) -> te.TESchedule:
    """Reduce the columns of some rows of windows, then the windows."""
    s = te.create_schedule(found.out)
    for op in found.inlined:
        s[op].compute_inline()
    lanes = cfg["lanes"].val
    out = s[found.out]
    *lead, y, x = found.out.axis
    rows, row = out.split(y, factor=cfg["height"].val)
    vectors, lane = out.split(x, factor=min(lanes, x.extent))
    out.vectorize(lane)
    inner = s[found.windows]
    inner.set_scope("local")
    inner.compute_at(out, vectors)
    *_, last = found.windows.axis
    inner.reorder(*found.windows.reduce_axis, last)
    _write_out(inner, last, found.windows)
    columns = s[found.columns]
    columns.compute_at(out, rows)
    *_, line, column = found.columns.axis
    pieces, lane = columns.split(column, factor=min(lanes, column.extent))
    columns.reorder(pieces, *found.columns.reduce_axis, lane)
    _write_out(columns, lane, found.columns)
    columns.pragma(line, "loop_partition_hint")
    columns.pragma(pieces, "loop_partition_hint")
    for loop in (rows, row, vectors):
        out.pragma(loop, "loop_partition_hint")
    if lead:
        threads.share(cfg, out, out.fuse(*lead) if len(lead) > 1 else lead[0])
    return s


def _write_out(stage: te.Stage, lanes: te.IterVar, op: ComputeOp) -> None:
    """Vectorize the loop over lanes, and unroll a short reduction."""
    is_short = math.prod(axis.extent for axis in op.reduce_axis) <= _STEPS
    write_out(stage, lanes, op.reduce_axis if is_short else ())
