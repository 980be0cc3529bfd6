"""How much arithmetic does a computation ask for?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pegbox.compute.graph import post_order
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.expr.dtypes import INDEX
from pegbox.expr.nodes import Binary, Call, Expr, Load
from pegbox.expr.visit import children, loads


def count_flop(outputs: Sequence[Tensor]) -> float:
    """Floating-point (or integer value) operations of the whole graph; index arithmetic does not count.

    Each add, multiply, comparison by min/max and intrinsic counts one, each combining step of a reduction as many
    as the combiner has. A multiply-accumulate is two.
    """
    total = 0.0
    for op in post_order([t.op for t in outputs]):
        if isinstance(op, ComputeOp):
            points = math.prod(iv.extent for iv in (*op.axis, *op.reduce_axis))
            total += points * sum(map(_element, _elements(op)))
    return total


def _elements(op: ComputeOp) -> list[Expr]:
    reduce = op.reduce
    if reduce is None:
        return list(op.body)
    # Combining with the identity costs the operations of one step.
    zero = reduce.reducer.identity(tuple(s.dtype for s in reduce.sources))
    holders = tuple(_Slot(value.dtype) for value in zero)
    return [*reduce.sources, *reduce.reducer.combine(holders, holders)]


class _Slot(Expr):
    """An accumulated value, of which only the type matters."""

    __slots__ = ()

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    __hash__ = object.__hash__


def _element(expr: Expr) -> int:
    match expr:
        case Load() | _Slot():
            return 0
        case Binary() if expr.dtype == INDEX and not any(loads(expr)):
            return 0
        case Binary() | Call():
            return 1 + sum(map(_element, children(expr)))
        case _:
            return sum(map(_element, children(expr)))
