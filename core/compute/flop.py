"""`count_flop`: the number of arithmetic operations of a computation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from pegbox.compute.division import as_division
from pegbox.compute.graph import post_order
from pegbox.compute.ops import FLOP
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.expr.build import ZERO
from pegbox.expr.dtypes import INDEX
from pegbox.expr.intrinsics import SLOW
from pegbox.expr.nodes import Binary, Buffer, Call, Compare, Expr, Load
from pegbox.expr.visit import children, loads


def count_flop(outputs: Sequence[Tensor]) -> float:
    """Count the floating-point (or integer value) operations of the whole graph, without index arithmetic.

    Each add, multiply, division (however it rounds), comparison of values, min, max and intrinsic counts one, each
    combining step of a reduction as many as the combiner has. A multiply-accumulate is two. An operation whose `attrs`
    say "FLOP" counts for that.
    """
    total = 0.0
    for op in post_order([t.op for t in outputs]):
        if isinstance(op, ComputeOp) and FLOP in op.attrs:
            total += op.attrs[FLOP]
        elif isinstance(op, ComputeOp):
            points = math.prod(iv.extent for iv in (*op.axis, *op.reduce_axis))
            total += points * sum(map(operations, elements(op)))
    return total


FEWEST = 0.01
"""The smallest share of all operations for slow ones to count."""


def slow_operations(outputs: Sequence[Tensor]) -> tuple[str, ...]:
    """List division and the slow intrinsics of the whole graph, most frequent first; empty if they are few."""
    slow: Counter[str] = Counter()
    total = 0
    for op in post_order([t.op for t in outputs]):
        if isinstance(op, ComputeOp):
            points = math.prod(iv.extent for iv in (*op.axis, *op.reduce_axis))
            total += points * sum(map(operations, elements(op)))
            for name in (name for value in elements(op) for name in _slow(value)):
                slow[name] += points
    return tuple(name for name, _ in slow.most_common()) if slow.total() >= FEWEST * total else ()


def _slow(expr: Expr) -> Iterator[str]:
    match expr:
        case Load():
            return
        case Binary(op="div"):
            yield "division"
        case Call() if expr.name in SLOW:
            yield expr.name
        case _:
            pass
    for child in children(expr):
        yield from _slow(child)


def elements(op: ComputeOp) -> list[Expr]:
    """List the expressions computed in one step of an operation: values, and their combination with earlier ones."""
    reduce = op.reduce
    if reduce is None:
        return list(op.body)
    types = [source.dtype for source in reduce.sources]
    held, new = (tuple(Load(Buffer("value", (1,), t), (ZERO,)) for t in types) for _ in range(2))
    return [*reduce.sources, *reduce.reducer.combine(held, new)]


def operations(expr: Expr) -> int:
    """Return the operations of one evaluation; see `count_flop`."""
    expr = as_division(expr)
    match expr:
        case Load():
            return 0
        case Binary() if expr.dtype == INDEX and not any(True for _ in loads(expr)):
            return 0
        case Compare() if not any(True for _ in loads(expr)):
            return sum(map(operations, children(expr)))
        case Call(name="nonpositive"):  # an assumption, which computes nothing
            return operations(expr.args[0])
        case Binary() | Call() | Compare():
            return 1 + sum(map(operations, children(expr)))
        case _:
            return sum(map(operations, children(expr)))
