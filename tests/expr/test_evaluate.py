"""Scalar evaluation: the machine's arithmetic in Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pegbox.errors import ExprError
from pegbox.expr import build, intrinsics
from pegbox.expr.evaluate import evaluate
from pegbox.expr.nodes import Binary, Buffer, Cast, Expr, Load, Logic, Not, Select, Var
from pegbox.expr.visit import substitute


@pytest.mark.parametrize(("a", "b"), [(7, 3), (-7, 3), (7, -3), (-7, -3), (6, 3), (-6, 3)])
def test_division_and_remainder_round_down(a: int, b: int) -> None:
    x, y = Var("x"), Var("y")
    quotient = evaluate(x // y, {x: a, y: b})
    rest = evaluate(x % y, {x: a, y: b})
    assert quotient == math.floor(a / b)
    assert quotient * b + rest == a


@pytest.mark.parametrize("value", [7, 0, -7, -(2**63)])
def test_division_by_zero_gives_zero(value: int) -> None:
    x, y = Var("x"), Var("y")
    for expr in (x // y, x % y):
        assert evaluate(expr, {x: value, y: 0}) == 0
        assert str(substitute(expr, {y: build.ZERO})) == "0"


@pytest.mark.parametrize(
    ("dtype", "op", "a", "b", "expected"),
    [
        ("int8", "add", 127, 1, -128),
        ("int8", "mul", 100, 3, 44),
        ("int8", "sub", -128, 1, 127),
        ("uint8", "sub", 0, 1, 255),
        ("int16", "mul", 300, 300, 24464),
        ("int32", "add", 2**31 - 1, 1, -(2**31)),
        ("int64", "mul", 2**62, 2, -(2**63)),
    ],
)
def test_integers_wrap_at_their_width(dtype: str, op: str, a: int, b: int, expected: int) -> None:
    x, y = Var("x", dtype), Var("y", dtype)
    assert evaluate(Binary(op, x, y), {x: a, y: b}) == expected


def test_floats_are_rounded_after_every_operation() -> None:
    x, y = Var("x", "float32"), Var("y", "float32")
    assert evaluate((x + y) - x, {x: 1e8, y: 1.0}) == 0.0
    assert evaluate(x * y, {x: 1e30, y: 1e30}) == math.inf
    assert evaluate(x / y, {x: 1.0, y: 3.0}) == float(np.float32(1) / np.float32(3))
    assert evaluate(x / y, {x: -1.0, y: 0.0}) == -math.inf


@pytest.mark.parametrize(
    ("source", "value", "target", "expected"),
    [
        ("float32", -2.7, "int32", -2),
        ("float64", 300.0, "uint8", 44),
        ("int32", 257, "int8", 1),
        ("int8", -1, "uint8", 255),
        ("float32", 0.5, "bool", True),
        ("int32", 0, "bool", False),
        ("bool", True, "float32", 1.0),
        ("float64", 0.1, "float16", float(np.float16(0.1))),
        ("int64", 2**24 + 1, "float32", float(2**24)),
    ],
)
def test_casts_are_those_of_c(source: str, value: float, target: str, expected: float) -> None:
    x = Var("x", source)
    result = evaluate(Cast(target, x), {x: value})
    assert result == expected
    assert type(result) is type(expected)


def test_only_the_chosen_side_of_a_select_is_evaluated() -> None:
    buffer = Buffer("A", (4,), "int32")
    i = Var("i")
    expr = Select(build.compare("lt", i, 4), Load(buffer, (i,)), build.const(-1, "int32"))
    values = {buffer: np.arange(4, dtype=np.int32) * 10}
    assert [evaluate(expr, {i: v}, values) for v in (0, 3, 4, 100)] == [0, 30, -1, -1]


def test_logic_stops_at_the_operand_that_decides() -> None:
    buffer = Buffer("A", (2,), "bool")
    i = Var("i")
    inside, element = build.compare("lt", i, 2), Load(buffer, (i,))
    values = {buffer: np.array([True, False])}
    assert [evaluate(Logic("and", inside, element), {i: v}, values) for v in range(3)] == [True, False, False]
    outside = Not(inside)
    assert [evaluate(Logic("or", outside, element), {i: v}, values) for v in range(3)] == [True, False, True]


@pytest.mark.parametrize("index", [-1, 4])
def test_an_index_outside_the_buffer_is_an_error(index: int) -> None:
    buffer = Buffer("A", (4,), "int32")
    i = Var("i")
    with pytest.raises(ExprError, match=rf"A\[{index}\].*\[4\]"):
        evaluate(Load(buffer, (i,)), {i: index}, {buffer: np.zeros(4, np.int32)})


def test_a_variable_without_a_value_is_named() -> None:
    with pytest.raises(ExprError, match=r"variable missing .*\['given'\]"):
        evaluate(Var("missing") + 1, {Var("given"): 1})


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("exp", (-math.inf,), 0.0), ("log", (0.0,), -math.inf), ("sqrt", (2.25,), 1.5), ("rsqrt", (4.0,), 0.5),
        ("tanh", (100.0,), 1.0), ("sigmoid", (0.0,), 0.5), ("sigmoid", (-1000.0,), 0.0), ("erf", (10.0,), 1.0),
        ("pow", (2.0, -1.0), 0.5), ("abs", (-3.5,), 3.5), ("floor", (-1.5,), -2.0), ("ceil", (-1.5,), -1.0),
        ("round", (0.5,), 0.0), ("round", (1.5,), 2.0), ("round", (-2.5,), -2.0),
    ],
)  # fmt: skip
def test_intrinsics(name: str, args: tuple[float, ...], expected: float) -> None:
    variables = [Var(f"x{i}", "float32") for i in range(len(args))]
    assert evaluate(intrinsics.call(name, *variables), dict(zip(variables, args, strict=True))) == expected


@pytest.mark.parametrize("op", ["min", "max"])
def test_nan_wins_minimum_and_maximum(op: str) -> None:
    x, y = Var("x", "float32"), Var("y", "float32")
    for values in ({x: math.nan, y: 1.0}, {x: 1.0, y: math.nan}):
        assert math.isnan(evaluate(Binary(op, x, y), values))


def test_unknown_nodes_are_refused() -> None:
    class Strange(Expr):
        pass

    with pytest.raises(TypeError, match="Strange"):
        evaluate(Strange(), {})
