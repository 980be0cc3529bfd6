"""Speeds and times of kernels as text: GFLOP/s, or GB/s for computations without arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from pegbox.compute.flop import elements
from pegbox.compute.graph import post_order
from pegbox.compute.tensor import ComputeOp, ExternOp, PlaceholderOp, Tensor
from pegbox.expr.affine import linear
from pegbox.expr.nodes import Buffer, Expr
from pegbox.expr.visit import loads


def bytes_of(arguments: Sequence[Tensor]) -> float:
    """Count the bytes that a kernel must move at least: its reads of each input, and each output."""
    return bytes_read(arguments) + bytes_written(arguments)


def bytes_written(arguments: Iterable[Tensor]) -> float:
    """Sum up the bytes of the outputs."""
    return float(sum(t.buffer.nbytes for t in arguments if isinstance(t.op, ComputeOp)))


def bytes_read(arguments: Sequence[Tensor]) -> float:
    """Sum up the bytes of the box that is read of each input; a gather is sure to read one element."""
    boxes: dict[Buffer, list[_Range]] = {}
    for op in post_order([t.op for t in arguments]):
        if isinstance(op, ExternOp):
            boxes |= {t.buffer: [(0, extent) for extent in t.shape] for t in op.inputs}
        elif isinstance(op, ComputeOp):
            extents: dict[Expr, int] = {axis.var: axis.dom.extent for axis in (*op.axis, *op.reduce_axis)}
            for load in (load for value in elements(op) for load in loads(value)):
                ranges = [_range(i, n, extents) for i, n in zip(load.indices, load.buffer.shape, strict=True)]
                known = zip(boxes.get(load.buffer, ranges), ranges, strict=True)
                boxes[load.buffer] = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in known]
    total = 0
    for t in arguments:
        if isinstance(t.op, PlaceholderOp) and t.buffer in boxes:
            held = math.prod(max(0, stop - first) for first, stop in boxes[t.buffer])
            total += t.buffer.nbytes // max(1, math.prod(t.shape)) * held
    return float(total)


_Range: TypeAlias = tuple[int, int]
"""The first index and the index after the last."""


def _range(index: Expr, extent: int, extents: Mapping[Expr, int]) -> _Range:
    """Return the range of a dimension that an index reaches; all of it if the index is not linear."""
    if any(True for _ in loads(index)):
        return 0, 1
    form = linear(index)
    if not all(term in extents for term in form.terms):
        return 0, extent
    ends = [factor * (extents[term] - 1) for term, factor in form.terms.items()]
    first, last = (form.const + sum(limit(end, 0) for end in ends) for limit in (min, max))
    return max(first, 0), min(last + 1, extent)


def format_speed(seconds: float, *, flop: float = 0.0, bytes_moved: float = 0.0) -> str:
    """ "92.1 GFLOP/s", or "11.3 GB/s" for a call without arithmetic; empty if neither is known or it never ran."""
    work, unit = (flop, "GFLOP/s") if flop else (bytes_moved, "GB/s")
    if not work or not 0 < seconds < math.inf:
        return ""
    rate = work / seconds / 1e9
    return f"{rate:.1f} {unit}" if rate >= 0.1 or flop else f"{rate:.2g} {unit}"


def format_seconds(seconds: float) -> str:
    """Write a time with a readable unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"


def format_cost(cost: float, unit: str) -> str:
    """Write a cost with its unit: seconds as `format_seconds` does, any other as a number."""
    if unit == "s":
        return format_seconds(cost)
    number = f"{cost:,.0f}" if cost == round(cost) < 1e15 else f"{cost:.6g}"
    return f"{number} {unit}".rstrip()


def format_phases(phases: Mapping[str, float]) -> str:
    """Write the phases, longest first, without those below 1% of the total."""
    least = sum(phases.values()) / 100
    shown = sorted((item for item in phases.items() if item[1] >= least), key=lambda item: -item[1])
    return ", ".join(f"{name} {seconds:.2f} s" for name, seconds in shown)
