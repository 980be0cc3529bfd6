"""Python's questions to an expression without a value: the message has the remedy, and in te.compute the line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pegbox import te
from pegbox.checks import check_float, check_int
from pegbox.errors import ArgumentError, ExprError

A = te.placeholder((8,), name="A")
B = te.placeholder((8,), "int32", name="B")

SLIPS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda i: math.exp(A[i]), r"a function of Python's math asks A\[i\] for its value.*te.exp"),
    (lambda i: math.pow(i, 2), r"asks i for its value.*te.exp"),
    (lambda i: math.floor(A[i]), r"te.floor\(x\)"),
    (lambda i: float(A[i]), r"float\(x\).*te.cast\('float32', x\)"),
    (lambda i: int(A[i]), r"int\(x\).*te.cast\('int32', x\)"),
    (lambda i: sum(A[j] for j in range(B[i])), r"range\(x\).*asks B\[i\].*te.sum over a te.reduce_axis"),
    (lambda i: [1, 2, 3][i], "a list's index, asks i .*a tensor in place of a list"),
    (lambda i: abs(A[i]), r"te.abs\(x\)"),
    (lambda i: round(A[i], 2), r"te.round\(x\)"),
    (lambda i: A[i] ** 2, r"te.power\(x, y\), or x \* x"),
    (lambda i: 2 ** A[i], r"te.power\(x, y\)"),
    (lambda i: divmod(B[i], 2)[0], "x // y and x % y"),
    (lambda i: np.exp(A[i]), "use te.exp"),
    (lambda i: np.float32(A[i]), "te.cast"),
    (lambda i: A[i] if A[i] > 0 else 0.0, "te.if_then_else"),
    (lambda i: A[i] and B[i], "te.all"),
    (lambda i: max(A[i], B[i]), r"te.max\(a, b\)"),
]


@pytest.mark.parametrize(("slip", "message"), SLIPS)
def test_a_value_that_is_asked_for_is_refused_with_the_remedy_and_the_line(
    slip: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(ExprError, match=message) as caught:
        te.compute((8,), slip, name="C")
    line = slip.__code__.co_firstlineno
    assert caught.value.source.endswith(f"test_unknown_value.py:{line}")


def test_it_is_a_type_error_too_for_those_who_ask_whether_something_is_a_number() -> None:
    with pytest.raises(ArgumentError, match="not an integer"):
        check_int("trials", A[0])
    with pytest.raises(ArgumentError, match="not a number"):
        check_float("budget", A[0])
    with pytest.raises(TypeError):
        range(A[0])  # type: ignore[call-overload]
