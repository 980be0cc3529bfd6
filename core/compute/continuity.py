"""Continuity: the absence of steps, which turn a value's rounding error into a larger one of the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pegbox.compute.graph import post_order
from pegbox.compute.reducer import Reduce
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.tensor import ComputeOp, ExternOp, Tensor
from pegbox.expr import dtypes
from pegbox.expr.low_level import Reinterpret
from pegbox.expr.nodes import Binary, Call, Cast, Compare, Expr, Var
from pegbox.expr.visit import walk

_STEPS = frozenset({"floor", "ceil", "trunc", "round", "nearbyint", "fmod"})
_STEP_OPERATORS = frozenset({"floordiv", "floormod", "truncdiv", "truncmod"})


def is_continuous(outputs: Sequence[Tensor]) -> bool:
    """Decide if outputs are floats that depend on all floats of their computation without steps.

    Comparisons of floats, their conversion to integers, and rounding are steps: a value near one of them may end on the
    other side of it in another precision. A statement in C may contain steps.
    """
    ops = post_order([tensor.op for tensor in outputs])
    computed = [op for op in ops if isinstance(op, ComputeOp)]
    types = {tensor.dtype for op in computed for tensor in op.outputs}
    if not all(map(dtypes.is_float, types)) or any(isinstance(op, ExternOp) for op in computed):
        return False
    return not any(map(_is_step, (part for op in computed for expr in _bodies(op) for part in walk(expr))))


def _bodies(op: ComputeOp) -> Iterator[Expr]:
    """Yield the expressions of an operation; for a reduction, its sources and its combination."""
    expressions = [*op.starts, *op.steps] if isinstance(op, ScanOp) else op.body
    for expr in expressions:
        if not isinstance(expr, Reduce):
            yield expr
            continue
        yield from expr.sources
        names = [tuple(Var(f"{side}{n}", each.dtype) for n, each in enumerate(expr.sources)) for side in "ab"]
        yield from expr.reducer.combine(*names)


def _is_step(expr: Expr) -> bool:
    match expr:
        case Compare(_, a, _):
            return dtypes.is_float(a.dtype)
        case Cast(dtype, a):
            return dtypes.is_float(a.dtype) and not dtypes.is_float(dtype)
        case Call(name, _):
            return name in _STEPS
        case Binary(op, _, _):
            return op in _STEP_OPERATORS and dtypes.is_float(expr.dtype)
        case Reinterpret():
            return True
        case _:
            return False
