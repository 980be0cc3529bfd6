"""Operators of two tensors, or of a tensor and a number: shapes are broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegbox import te
from pegbox.compute.elementwise import elementwise
from pegbox.expr import build
from pegbox.expr.dtypes import is_float
from pegbox.expr.nodes import CompareOp

__all__ = [
    "add", "divide", "equal", "floor_divide", "floor_mod", "greater", "greater_equal", "less", "less_equal",
    "logical_and", "logical_not", "logical_or", "maximum", "minimum", "mod", "multiply", "not_equal", "power",
    "subtract", "where",
]  # fmt: skip

_Operator = Callable[[Any, Any], Any]


def _operator(name: str, function: Callable[..., object]) -> _Operator:
    """Two numbers give a number, as in TVM."""

    def operator(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, te.Tensor) or isinstance(rhs, te.Tensor):
            return elementwise(function, lhs, rhs, name=f"T_{name}")
        return function(lhs, rhs)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"`{name}` of the elements."
    return operator


def _compared(sign: CompareOp) -> Callable[..., object]:
    return lambda a, b: build.compare(sign, a, b)


add = _operator("add", build.add)
subtract = _operator("subtract", build.sub)
multiply = _operator("multiply", build.mul)
divide = _operator("divide", te.div)
floor_divide = _operator("floor_divide", lambda a, b: _rounded_down(te.div(a, b)) if _is_float(a, b) else a // b)
floor_mod = _operator("floor_mod", lambda a, b: a - te.floor(te.div(a, b)) * b if _is_float(a, b) else a % b)
mod = _operator("mod", lambda a, b: te.fmod(a, b) if _is_float(a, b) else te.truncmod(a, b))
maximum = _operator("maximum", te.maximum)
minimum = _operator("minimum", te.minimum)
power = _operator("power", te.power)
equal = _operator("equal", _compared("eq"))
not_equal = _operator("not_equal", _compared("ne"))
less = _operator("less", _compared("lt"))
less_equal = _operator("less_equal", _compared("le"))
greater = _operator("greater", _compared("gt"))
greater_equal = _operator("greater_equal", _compared("ge"))
logical_and = _operator("logical_and", te.all)
logical_or = _operator("logical_or", te.any)


def _is_float(*values: object) -> bool:
    return any(is_float(build.as_expr(value).dtype) for value in values)


def _rounded_down(value: te.Expr) -> te.Expr:
    return te.floor(value)


def logical_not(data: te.Tensor) -> te.Tensor:
    """Where it is false."""
    return elementwise(te.logical_not, data, name="T_logical_not")


def where(condition: te.Tensor, x: Any, y: Any) -> te.Tensor:
    """`x` where the condition (a bool, or a number that is not 0) holds, else `y`; all three are broadcast."""
    return elementwise(
        lambda c, a, b: te.if_then_else(te.cast("bool", c), a, b), condition, x, y, name="T_where", tag="broadcast"
    )
