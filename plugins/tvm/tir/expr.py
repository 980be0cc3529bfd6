"""`tvm.tir.expr`: the expressions that are one kind here and there."""

from __future__ import annotations

from typing import Any

from pegbox.expr import dtypes
from pegbox.expr.build import const
from pegbox.expr.nodes import Call as Call
from pegbox.expr.nodes import Cast as Cast
from pegbox.expr.nodes import Const, Expr, Load
from pegbox.expr.nodes import Not as Not
from pegbox.expr.nodes import Var as Var

PrimExpr = Expr


class _Constants(type):
    """The type of a class whose instances are pegbox's constants of some dtypes."""

    floats: bool

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Const) and dtypes.is_float(value.dtype) == cls.floats

    def __call__(cls, dtype: str, value: Any) -> Any:
        return const(value, dtype)


class IntImm(metaclass=_Constants):
    """`IntImm(dtype, value)` is a constant; the constants of pegbox that are no floats are its instances."""

    floats = False


class FloatImm(metaclass=_Constants):
    """`FloatImm(dtype, value)` is a constant; the constants of pegbox that are floats are its instances."""

    floats = True


BufferLoad = Load
