"""Intrinsics: the math functions that both the code generator and the NumPy reference implement."""

from __future__ import annotations

from functools import reduce

from pegbox.errors import ExprError
from pegbox.expr import dtypes
from pegbox.expr.build import as_expr, cast
from pegbox.expr.nodes import Call, Expr

# name -> number of arguments. All take and give floats; abs takes integers as well.
ARITY: dict[str, int] = {
    "exp": 1, "log": 1, "sqrt": 1, "rsqrt": 1, "tanh": 1, "sigmoid": 1, "erf": 1, "pow": 2,
    "abs": 1, "floor": 1, "ceil": 1, "round": 1,
}  # fmt: skip


def call(name: str, *args: object) -> Expr:
    """An intrinsic applied to numbers of one float type (integers are refused, except by abs).

    Raises:
        ExprError: unknown name, wrong number of arguments, integer arguments.
    """
    if name not in ARITY:
        raise ExprError(f"unknown intrinsic {name!r}; use one of {', '.join(ARITY)}")
    if len(args) != ARITY[name]:
        raise ExprError(f"{name} takes {ARITY[name]} argument(s), got {len(args)}")
    exprs = [as_expr(a) for a in args]
    # Python's numbers take the type of the expressions beside them.
    dtype = reduce(dtypes.promote, [raw.dtype for raw in args if isinstance(raw, Expr)] or [exprs[0].dtype])
    if not dtypes.is_float(dtype) and not (name == "abs" and dtypes.is_int(dtype)):
        raise ExprError(f"{name}({exprs[0]}): needs a float, got {dtype}; use te.cast('float32', ...) first")
    return Call(name, tuple(cast(dtype, e) for e in exprs), dtype)
