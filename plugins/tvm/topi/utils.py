"""Numbers of shapes, which are static here: TVM's templates ask for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod as prod  # TVM's name, and what it does
from typing import Any

import numpy as np

from pegbox import te
from pegbox.compute.graph import post_order
from pegbox.compute.tensor import ComputeOp, Operation
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


def traverse_inline(s: te.TESchedule, final_op: Operation, callback: Callable[[Operation], None]) -> None:
    """Call a function with each operation that an output needs, once, and inline those that are injective in between.

    Operations are met before those that they read.
    """
    for op in reversed(post_order([final_op])):
        if not isinstance(op, ComputeOp):
            continue
        if is_injective(op.tag) and op not in s.outputs:
            s[op].compute_inline()
        callback(op)


def is_injective(tag: str) -> bool:
    """Does each element of an operation of this tag come from one of each input?"""
    return tag in ("elemwise", "broadcast") or tag.startswith("injective")


def const_matrix(matrix: np.ndarray[Any, Any], name: str = "const_matrix") -> te.Tensor:
    """A matrix of numbers as a computation, which can be inlined."""

    def element(i: te.Expr, j: te.Expr) -> te.Expr:
        value: te.Expr = te.const(0, str(matrix.dtype))
        for row, column in np.argwhere(matrix):
            there = te.all(i.equal(int(row)), j.equal(int(column)))
            value = te.if_then_else(there, te.const(matrix[row, column].item(), str(matrix.dtype)), value)
        return value

    made = te.compute(matrix.shape, element, name=name, attrs={"const_matrix": True})
    return made
