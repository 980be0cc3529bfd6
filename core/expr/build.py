"""Constructors of expressions: convert types, fold constants, drop neutral elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Literal

from pegbox.errors import ExprError
from pegbox.expr import dtypes
from pegbox.expr.equal import same
from pegbox.expr.low_level import broadcast
from pegbox.expr.nodes import (
    OPERATORS,
    Binary,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    Logic,
    LogicOp,
    Not,
    NumberCompare,
    Select,
    Var,
)
from pegbox.expr.operators import COMPARE
from pegbox.shown import value_text

TRUE = Const(True, "bool")
FALSE = Const(False, "bool")
ZERO = Const(0, dtypes.INDEX)
ONE = Const(1, dtypes.INDEX)


def const(value: int | float | bool, dtype: str | None = None) -> Const:
    """Make a literal. Without a dtype: bool, int64 or float32 by the type of the value; with one, integers wrap.

    Raises:
        ExprError: the dtype is unknown, a fraction is given for an integer, or int64 cannot hold the value and there is
            no dtype.
    """
    if not isinstance(value, bool | int | float):
        value = _number(value)
    if dtype is None:
        dtype = "bool" if isinstance(value, bool) else dtypes.INDEX if isinstance(value, int) else "float32"
        if dtype == dtypes.INDEX and not -(2**63) <= value < 2**63:
            shown = value_text(value)
            raise ExprError(f"{shown} does not fit in int64; name the dtype: te.const({shown}, 'float64')")
    dtypes.check(dtype)
    if dtypes.is_float(dtype):
        return Const(float(value), dtype)
    if dtype == "bool":
        return Const(bool(value), dtype)
    if isinstance(value, float) and not value.is_integer():
        raise ExprError(f"{value!r} is not a value of {dtype}; cast explicitly with te.cast")
    # Keep the int's object, as it may be a traced one that records its origin.
    whole = value if isinstance(value, int) and not isinstance(value, bool) else int(value)
    return Const(dtypes.wrap(whole, dtype), dtype)


def _number(value: object) -> int | float | bool:
    """Return the Python number of a NumPy scalar; ExprError for other values."""
    item = getattr(value, "item", None)
    plain = item() if item is not None and getattr(value, "ndim", None) == 0 else value
    if isinstance(plain, bool | int | float):
        return plain
    raise ExprError(f"const({value_text(value)}): a {type(value).__name__} is not a constant; give a number")


def index(value: int) -> Const:
    """Return an int64 literal, without checks."""
    return Const(value, dtypes.INDEX)


def as_expr(value: object) -> Expr:
    """Turn Python and NumPy scalars into constants; keep expressions, except `==` and `!=` of constants.

    Raises:
        ExprError: the value is neither.
    """
    if isinstance(value, Compare):
        return _decided(value)
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool | int | float):
        return const(value)
    item = getattr(value, "item", None)
    dtype = getattr(value, "dtype", None)
    if item is not None and getattr(value, "ndim", None) == 0:
        return const(item(), str(dtype))
    remedy = getattr(value, "reading", "expected a number or an expression")  # a knob explains how to read its value
    raise ExprError(f"cannot use {value_text(value)} ({type(value).__name__}) in an expression; {remedy}")


def _meet(a: object, b: object) -> tuple[Expr, Expr]:
    """Give both operands one type; a Python number takes the type of the other side if it fits, else its own."""
    ea, eb = as_expr(a), as_expr(b)
    if ea.dtype == eb.dtype:
        return ea, eb
    if "x" in ea.dtype or "x" in eb.dtype:
        return _meet_lanes(ea, eb)
    if not isinstance(a, Expr):
        ea = _adapt(a, ea, eb.dtype)
    elif not isinstance(b, Expr):
        eb = _adapt(b, eb, ea.dtype)
    target = dtypes.promote(ea.dtype, eb.dtype)
    return cast(target, ea), cast(target, eb)


def _meet_lanes(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Convert a scalar and a vector, or two vectors, to one vector type."""
    count = dtypes.lanes(a.dtype) or dtypes.lanes(b.dtype)
    target = dtypes.element(a.dtype if dtypes.lanes(a.dtype) else b.dtype)
    if not (dtypes.lanes(a.dtype) and dtypes.lanes(b.dtype)):
        a, b = (e if dtypes.lanes(e.dtype) else cast(target, e) for e in (a, b))
    ea, eb = broadcast(a, count), broadcast(b, count)
    if ea.dtype != eb.dtype:
        raise ExprError(f"{a} and {b}: vectors of {ea.dtype} and {eb.dtype} do not combine; convert one with astype")
    return ea, eb


def _adapt(raw: object, value: Expr, dtype: str) -> Expr:
    """Make a constant of `raw` in another type, if that changes its value at most by rounding to a float."""
    if not isinstance(raw, bool | int | float) or dtype == "bool":
        return value
    if dtypes.is_float(dtype):
        return const(raw, dtype)
    low, high = dtypes.value_range(dtype)
    return const(raw, dtype) if isinstance(raw, int) and low <= raw <= high else value


def cast(dtype: str, value: object) -> Expr:
    """Convert to `dtype` as C does: floats to integers truncate, to bool means `!= 0`."""
    expr = as_expr(value)
    if not isinstance(dtype, str):
        dtypes.check(dtype)
    if expr.dtype == dtype:
        return expr
    if "x" in dtype or "x" in expr.dtype:
        return _cast_lanes(dtypes.check_value(dtype), expr)
    dtypes.check(dtype)
    if isinstance(expr, Const):
        if dtypes.is_float(dtype) and expr.dtype != "bool" and dtypes.BITS[dtype] > 16:
            exact = dtype == "float64" or dtypes.is_int(expr.dtype)
            return Const(float(expr.value), dtype) if exact else Cast(dtype, expr)
        if dtype != "bool" and not dtypes.is_float(expr.dtype) and not dtypes.is_float(dtype):
            return Const(dtypes.wrap(int(expr.value), dtype), dtype)
    return Cast(dtype, expr)


def _cast_lanes(dtype: str, expr: Expr) -> Expr:
    if not dtypes.lanes(dtype):
        raise ExprError(f"{expr} is {expr.dtype}: a vector does not become a single {dtype}; name the lanes too")
    whole = broadcast(expr if dtypes.lanes(expr.dtype) else cast(dtypes.element(dtype), expr), dtypes.lanes(dtype))
    return whole if whole.dtype == dtype else Cast(dtype, whole)


def add(a: object, b: object) -> Expr:
    ea, eb = _meet(a, b)
    if dtypes.is_int(ea.dtype):
        if isinstance(eb, Const):
            if eb.value == 0:
                return ea
            if isinstance(ea, Const):
                return Const(dtypes.wrap(ea.value + eb.value, ea.dtype), ea.dtype)  # type: ignore[arg-type]
        elif isinstance(ea, Const) and ea.value == 0:
            return eb
    return Binary("add", _arith(ea, "+"), eb)


def sub(a: object, b: object) -> Expr:
    ea, eb = _meet(a, b)
    if dtypes.is_int(ea.dtype) and isinstance(eb, Const):
        if eb.value == 0:
            return ea
        if isinstance(ea, Const):
            return Const(dtypes.wrap(ea.value - eb.value, ea.dtype), ea.dtype)  # type: ignore[arg-type]
    return Binary("sub", _arith(ea, "-"), eb)


def mul(a: object, b: object) -> Expr:
    ea, eb = _meet(a, b)
    if dtypes.is_int(ea.dtype):
        if isinstance(ea, Const):
            ea, eb = eb, ea
        if isinstance(eb, Const):
            # A number of a traced run is not a plain int: it may be 1 here and something else elsewhere.
            if type(eb.value) is int and eb.value == 1:
                return ea
            if type(eb.value) is int and eb.value == 0:
                return eb
            if isinstance(ea, Const):
                return Const(dtypes.wrap(ea.value * eb.value, ea.dtype), ea.dtype)  # type: ignore[arg-type]
    return Binary("mul", _arith(ea, "*"), eb)


def div(a: object, b: object) -> Expr:
    """Divide floats.

    Raises:
        ExprError: both operands are integers, for which the rounding would be ambiguous.
    """
    ea, eb = _meet(a, b)
    if not dtypes.is_float(ea.dtype):
        raise ExprError(
            f"{ea} / {eb}: division of {ea.dtype} is ambiguous; use // to round down, or te.cast to a float first"
        )
    return Binary("div", ea, eb)


def floordiv(a: object, b: object) -> Expr:
    """Divide integers, rounding down.

    Raises:
        ExprError: the operands are floats, or the divisor is the literal 0 (a divisor that evaluates to 0 gives 0).
    """
    return quotient(*_integers(a, b, "//"))


def floormod(a: object, b: object) -> Expr:
    """Return the remainder of `floordiv`.

    Raises:
        ExprError: the operands are floats, or the divisor is the literal 0 (a divisor that evaluates to 0 gives 0).
    """
    return remainder(*_integers(a, b, "%"))


def _integers(a: object, b: object, sign: str) -> tuple[Expr, Expr]:
    ea, eb = _meet(a, b)
    if not dtypes.is_int(ea.dtype):
        raise ExprError(f"{ea} {sign} {eb}: needs integers, got {ea.dtype}; for floats use te.floor(a / b)")
    if isinstance(eb, Const) and eb.value == 0:
        raise ExprError(f"{ea} {sign} {eb}: division by zero")
    return ea, eb


def quotient(a: Expr, b: Expr) -> Expr:
    """Compute `a // b` of two integers of one type, as kernels do: 0 if b is 0."""
    if isinstance(b, Const):
        if type(b.value) is int and b.value == 1:
            return a
        if b.value == 0:
            return Const(0, a.dtype)
        if isinstance(a, Const):
            return Const(dtypes.wrap(a.integer // b.integer, a.dtype), a.dtype)
    return Binary("floordiv", a, b)


def remainder(a: Expr, b: Expr) -> Expr:
    """Compute `a % b` of two integers of one type, as kernels do: 0 if b is 0."""
    if isinstance(b, Const):
        if (type(b.value) is int and b.value == 1) or b.value == 0:
            return Const(0, a.dtype)
        if isinstance(a, Const):
            return Const(a.integer % b.integer, a.dtype)
    return Binary("floormod", a, b)


def _arith(expr: Expr, sign: str) -> Expr:
    if expr.dtype == "bool":
        raise ExprError(f"{expr} {sign} ...: arithmetic on bool; use te.cast to an integer type, or & and | for logic")
    return expr


def minimum(a: object, b: object) -> Expr:
    return _extremum("min", min, a, b)


def maximum(a: object, b: object) -> Expr:
    return _extremum("max", max, a, b)


def _extremum(op: Literal["min", "max"], fold: Callable[..., int | float], a: object, b: object) -> Expr:
    ea, eb = _meet(a, b)
    if isinstance(ea, Const) and isinstance(eb, Const) and not dtypes.is_float(ea.dtype):
        return Const(fold(ea.value, eb.value), ea.dtype)
    return ea if same(ea, eb) else Binary(op, ea, eb)


def neg(a: object) -> Expr:
    ea = as_expr(a)
    # -x and 0 - x differ for x = 0.0 (the sign of zero), hence the multiplication.
    return mul(ea, const(-1, ea.dtype)) if dtypes.is_float(ea.dtype) else sub(const(0, ea.dtype), ea)


def compare(op: CompareOp, a: object, b: object) -> Expr:
    ea, eb = _meet(a, b)
    if "x" in ea.dtype:
        raise ExprError(f"{ea} and {eb}: vectors are not compared; use minimum and maximum")
    return _decided(Compare(op, ea, eb))


def _decided(made: Compare) -> Expr:
    """Fold `==` or `!=` of constants, which stays undecided until the comparison becomes part of an expression."""
    if isinstance(made.a, Const) and isinstance(made.b, Const):
        return TRUE if COMPARE[made.op](made.a.value, made.b.value) else FALSE
    return Compare(made.op, made.a, made.b) if isinstance(made, NumberCompare) else made


def equal(a: object, b: object) -> Compare:
    """Apply the operator ==, which does not fold: its truth value is structural equality; see `as_expr`."""
    try:
        ea, eb = _meet(a, b)
    except ExprError:
        # Not an expression, so unequal. Both sides must stay distinct nodes.
        return Compare("eq", TRUE, FALSE)
    of_expressions = isinstance(a, Expr) and isinstance(b, Expr)
    known = isinstance(ea, Const) and isinstance(eb, Const)
    return Compare("eq", ea, eb) if of_expressions or known else NumberCompare("eq", ea, eb)


def not_equal(a: object, b: object) -> Compare:
    """Apply the operator !=; see `equal`."""
    result = equal(a, b)
    return type(result)("ne", result.a, result.b)


def logical_and(a: object, b: object) -> Expr:
    return _logic("and", FALSE, a, b)


def logical_or(a: object, b: object) -> Expr:
    return _logic("or", TRUE, a, b)


def _logic(op: LogicOp, deciding: Const, a: object, b: object) -> Expr:
    ea, eb = _bool(a), _bool(b)
    for one, other in ((ea, eb), (eb, ea)):
        if isinstance(one, Const):
            return deciding if bool(one.value) == deciding.value else other
    return ea if same(ea, eb) else Logic(op, ea, eb)


def logical_not(a: object) -> Expr:
    ea = _bool(a)
    if isinstance(ea, Const):
        return FALSE if ea.value else TRUE
    return ea.a if isinstance(ea, Not) else Not(ea)


def _bool(value: object) -> Expr:
    expr = as_expr(value)
    if expr.dtype != "bool":
        raise ExprError(f"{expr} has dtype {expr.dtype} where a condition is needed; compare it with something")
    return expr


def all_of(conditions: Sequence[object]) -> Expr:
    """Join conditions by `and`; true if there are none."""
    start: Expr = TRUE
    return reduce(logical_and, conditions, start)


def any_of(conditions: Sequence[object]) -> Expr:
    """Join conditions by `or`; false if there are none."""
    start: Expr = FALSE
    return reduce(logical_or, conditions, start)


def select(cond: object, a: object, b: object) -> Expr:
    """Choose `a` where `cond` holds, else `b`; only the chosen side is evaluated."""
    condition = _bool(cond)
    ea, eb = _meet(a, b)
    if isinstance(condition, Const):
        return ea if condition.value else eb
    return Select(condition, ea, eb)


def as_value(value: object) -> Expr:
    """Apply `as_expr` to a user's value; whole numbers are int32 if they fit, as in TVM."""
    low, high = dtypes.value_range("int32")
    return const(value, "int32") if type(value) is int and low <= value <= high else as_expr(value)


def if_then_else(cond: object, a: object, b: object) -> Expr:
    """Choose `a` where `cond` holds, else `b`; only the chosen side is evaluated."""
    has_type = isinstance(a, Expr) or isinstance(b, Expr)
    return select(cond, a, b) if has_type else select(cond, as_value(a), as_value(b))


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """Return the operands of `and`; empty for true."""
    if isinstance(condition, Logic) and condition.op == "and":
        return conjuncts(condition.a) + conjuncts(condition.b)
    if isinstance(condition, Const) and condition.value:
        return ()
    return (condition,)


def variables(names: str) -> tuple[Var, ...]:
    """Make index variables by name: `variables("i j k")`."""
    return tuple(Var(name) for name in names.split())


OPERATORS.update(
    {
        "add": add, "sub": sub, "mul": mul, "div": div, "floordiv": floordiv, "floormod": floormod, "neg": neg,
        "equal": lambda a, b: compare("eq", a, b),
        "lt": lambda a, b: compare("lt", a, b), "le": lambda a, b: compare("le", a, b),
        "gt": lambda a, b: compare("gt", a, b), "ge": lambda a, b: compare("ge", a, b),
        "eq": equal, "ne": not_equal, "cast": cast,
    }
)  # fmt: skip
