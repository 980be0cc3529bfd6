"""Functions of the elements of one tensor, and constant tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from pegbox import te
from pegbox.compute.elementwise import elementwise
from pegbox.expr import build

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cast",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "elemwise_sum",
    "erf",
    "exp",
    "fast_erf",
    "fast_exp",
    "fast_tanh",
    "floor",
    "full",
    "full_like",
    "identity",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log2",
    "log10",
    "negative",
    "ones_like",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "zeros_like",
]  # fmt: skip

_Function = Callable[[te.Tensor], te.Tensor]


def _function(name: str, of_element: Callable[[te.Expr], object] | None = None) -> _Function:
    element = of_element or getattr(te, name)

    def function(x: te.Tensor) -> te.Tensor:
        return elementwise(element, x, name=f"T_{name}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of each element."
    return function


abs, ceil, floor, round, trunc = map(_function, ("abs", "ceil", "floor", "round", "trunc"))
acos, acosh, asin, asinh, atan, atanh = map(_function, ("acos", "acosh", "asin", "asinh", "atan", "atanh"))
cos, cosh, sin, sinh, tan, tanh = map(_function, ("cos", "cosh", "sin", "sinh", "tan", "tanh"))
erf, exp, log, log10, log2, sigmoid = map(_function, ("erf", "exp", "log", "log10", "log2", "sigmoid"))
rsqrt, sqrt, isfinite, isinf, isnan = map(_function, ("rsqrt", "sqrt", "isfinite", "isinf", "isnan"))
fast_erf, fast_exp, fast_tanh = erf, exp, tanh  # all of pegbox's are fast ones
identity = _function("identity", lambda x: x)
negative = _function("negative", lambda x: -x)


def sign(x: te.Tensor) -> te.Tensor:
    """1, 0 or -1."""

    def of(value: te.Expr) -> te.Expr:
        zero, one = te.const(0, x.dtype), te.const(1, x.dtype)
        return te.if_then_else(value > zero, one, te.if_then_else(value < zero, -one, zero))

    return elementwise(of, x, name="T_sign")


def clip(x: te.Tensor, a_min: float, a_max: float) -> te.Tensor:
    """The elements between two limits, those beyond moved to them."""
    low, high = (te.const(limit, x.dtype) for limit in (a_min, a_max))
    return elementwise(lambda value: te.maximum(te.minimum(value, high), low), x, name="T_clip")


def cast(x: Any, dtype: str, span: object = None) -> Any:
    """The elements in another type; of a number, the number."""
    return x.astype(dtype) if isinstance(x, te.Tensor) else te.cast(dtype, x)


def elemwise_sum(xs: Sequence[te.Tensor]) -> te.Tensor:
    """The sum of tensors of one shape."""
    return elementwise(lambda *values: reduce(build.add, values), *xs, name="T_elemwise_sum", tag="elemwise")


def full(shape: Sequence[int], dtype: str, fill_value: float) -> te.Tensor:
    """A tensor that has one value everywhere."""
    return te.compute(tuple(shape), lambda *_: te.const(fill_value, dtype), name="T_full", tag="elemwise")


def full_like(x: te.Tensor, fill_value: float) -> te.Tensor:
    """A tensor of the shape and type of another with one value everywhere."""
    return full(x.shape, x.dtype, fill_value)


def zeros_like(x: te.Tensor) -> te.Tensor:
    return full_like(x, 0)


def ones_like(x: te.Tensor) -> te.Tensor:
    return full_like(x, 1)
