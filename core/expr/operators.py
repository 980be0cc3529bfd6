"""Operators of expressions as tables: one for Python numbers, one for comparisons of any numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from pegbox.expr.nodes import BinaryOp, CompareOp


def _divide(a: float, b: float) -> float:
    try:
        return a / b
    except ZeroDivisionError:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _extremum(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    # NaN wins, as in NumPy.
    return lambda a, b: math.nan if a != a or b != b else choose(a, b)


# Operators on unbounded integers and float64; for a narrower type, the caller must wrap or round the result.
BINARY: dict[BinaryOp, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": _divide,
    "floordiv": lambda a, b: a // b if b else 0, "floormod": lambda a, b: a % b if b else 0,
    "min": _extremum(min), "max": _extremum(max),
}  # fmt: skip

COMPARE: dict[CompareOp, Callable[[Any, Any], Any]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip
