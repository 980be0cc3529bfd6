"""Numbers of shapes, which are static here: TVM's templates ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod as prod  # TVM's name, and what it does
from typing import Any

from pegbox import te
from pegbox.errors import ComputeError
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Const


def get_const_int(expr: Any) -> int:
    """The number.

    Raises:
        ComputeError: it is known only when a kernel runs.
    """
    number = integer(expr.value if isinstance(expr, Const) else expr)
    if number is None:
        raise ComputeError(f"get_const_int({expr}): not a number that is known before a kernel runs")
    return number


def get_const_float(expr: Any) -> float:
    """The number.

    Raises:
        ComputeError: it is known only when a kernel runs.
    """
    value = expr.value if isinstance(expr, Const) else expr
    if not isinstance(value, int | float):
        raise ComputeError(f"get_const_float({expr}): not a number that is known before a kernel runs")
    return float(value)


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[Any, ...]:
    """A shape as numbers; what is no number stays."""
    return tuple(
        each if isinstance(each, te.Expr) and not isinstance(each, Const) else get_const_int(each) for each in in_tuple
    )


def equal_const_int(expr: Any, value: int) -> bool:
    """Is it that number?"""
    return integer(expr.value if isinstance(expr, Const) else expr) == value


def simplify(expr: Any) -> Any:
    """The expression itself: those of numbers fold when they are made."""
    return expr
