"""`count_flop`: the number of arithmetic operations of a computation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pegbox.compute.graph import post_order
from pegbox.compute.ops import FLOP
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.expr.build import ZERO
from pegbox.expr.dtypes import INDEX
from pegbox.expr.nodes import Binary, Buffer, Call, Expr, Load
from pegbox.expr.visit import children, loads


def count_flop(outputs: Sequence[Tensor]) -> float:
    """Floating-point (or integer value) operations of the whole graph; index arithmetic does not count.

    Each add, multiply, comparison by min/max and intrinsic counts one, each combining step of a reduction as many
    as the combiner has. A multiply-accumulate is two. An operation whose `attrs` say "FLOP" counts for that.
    """
    total = 0.0
    for op in post_order([t.op for t in outputs]):
        if isinstance(op, ComputeOp) and FLOP in op.attrs:
            total += op.attrs[FLOP]
        elif isinstance(op, ComputeOp):
            points = math.prod(iv.extent for iv in (*op.axis, *op.reduce_axis))
            total += points * sum(map(operations, elements(op)))
    return total


def elements(op: ComputeOp) -> list[Expr]:
    """What one step of an operation computes: its values, and what combines them with those before."""
    reduce = op.reduce
    if reduce is None:
        return list(op.body)
    types = [source.dtype for source in reduce.sources]
    held, new = (tuple(Load(Buffer("value", (1,), t), (ZERO,)) for t in types) for _ in range(2))
    return [*reduce.sources, *reduce.reducer.combine(held, new)]


def operations(expr: Expr) -> int:
    """The operations of one evaluation; see `count_flop`."""
    match expr:
        case Load():
            return 0
        case Binary() if expr.dtype == INDEX and not any(True for _ in loads(expr)):
            return 0
        case Binary() | Call():
            return 1 + sum(map(operations, children(expr)))
        case _:
            return sum(map(operations, children(expr)))
