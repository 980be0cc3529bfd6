"""Traced integers are ints, remember how they were made, and note what is asked of them."""

from __future__ import annotations

import copy
import math
import numbers
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegbox.expr.nodes import Compare, Const, Var
from pegbox.expr.visit import walk
from pegbox.features.graph import Evaluation, NumberGraph
from pegbox.features.traced import TracedInt, TraceRecorder, combined, quantity
from pegbox.schedule.te.stage_loops import least

VALUES = {0: [1, 2, 3, 4, 6, 8], 1: [5, 16, 7, 64]}
"""The values of two knobs, by digit."""


def traced(digits: tuple[int, int]) -> tuple[TraceRecorder, int, int]:
    graph = NumberGraph([len(values) for values in VALUES.values()])
    recorder = TraceRecorder(graph)
    nodes = [graph.table(knob, np.array(values, dtype=np.float64)) for knob, values in VALUES.items()]
    a, b = (recorder.number(node, VALUES[knob][digits[knob]]) for knob, node in enumerate(nodes))
    return recorder, a, b


OPERATIONS: list[Callable[[int, int], int]] = [
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, least,
    lambda a, b: combined("max", a, b), lambda a, b: combined("le", a, b), lambda a, b: combined("eq", a, b),
    lambda a, b: -a + abs(b), lambda a, b: divmod(a, b)[0],
]  # fmt: skip

expressions = st.recursive(
    st.sampled_from(["a", "b"]) | st.integers(1, 40),
    lambda inner: st.tuples(st.sampled_from(range(len(OPERATIONS))), inner, inner),
    max_leaves=8,
)


def value_of(expression: Any, names: dict[str, int]) -> int:
    if isinstance(expression, tuple):
        number, a, b = expression
        return OPERATIONS[number](value_of(a, names), value_of(b, names))
    return names[expression] if isinstance(expression, str) else expression


@given(expressions, st.tuples(st.integers(0, 5), st.integers(0, 3)))
def test_one_trace_is_true_for_all_configurations(expression: Any, digits: tuple[int, int]) -> None:
    recorder, a, b = traced(digits)
    try:
        made = value_of(expression, {"a": a, "b": b})
    except ZeroDivisionError:
        return
    assert not recorder.guards
    assert int(made) == value_of(expression, {"a": VALUES[0][digits[0]], "b": VALUES[1][digits[1]]})
    node = recorder.graph.node_of(quantity(made))
    plan = Evaluation(recorder.graph, [node])
    rows = np.array([(i, j) for i in range(6) for j in range(4)]).T
    found = plan(rows)[plan.place[node]]
    for row, value in zip(rows.T.tolist(), found.tolist(), strict=True):
        try:
            expected = value_of(expression, {"a": VALUES[0][row[0]], "b": VALUES[1][row[1]]})
        except ZeroDivisionError:
            continue
        assert value == expected
        assert recorder.graph.nodes[node].low <= value <= recorder.graph.nodes[node].high


@pytest.mark.parametrize("ask", [operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge])
def test_a_comparison_answers_as_an_int_and_is_noted(ask: Callable[[int, int], bool]) -> None:
    recorder, a, b = traced((2, 2))
    assert ask(a, b) is ask(3, 7)
    assert len(recorder.guards) == 1
    assert ask(a, 3) is ask(3, 3)
    assert len(recorder.guards) == 2


def test_what_no_configuration_denies_is_no_question() -> None:
    recorder, a, _ = traced((0, 0))
    assert a >= 1
    assert a < 100
    assert a
    assert not isinstance(a * 0 + 7, TracedInt)
    assert not recorder.guards


@pytest.mark.parametrize(
    "leave",
    [
        lambda a: a / 2, lambda a: a / 0.5, lambda a: 1.5 / a, lambda a: a**2, lambda a: a**0.5, lambda a: 2**a,
        lambda a: 1 << a, lambda a: a & 6, lambda a: ~a, lambda a: a + 0.5,
        lambda a: 1.5 * a, lambda a: a < 4.5, lambda a: a == 4.0, lambda a: a + np.int64(3), lambda a: np.int64(3) * a,
        float, int, complex, round, str, repr, hash, bin, math.log2, math.floor, np.log2, np.array, operator.index,
        lambda a: a.bit_length(), lambda a: a.numerator, lambda a: f"{a:3d}", lambda a: [0] * a,
        lambda a: "ab" * a, range, lambda a: [3, 1, 4, 1, 5][a], lambda a: "abcdef"[a:], lambda a: {4: "four"}[a],
        lambda a: a in {4, 5}, lambda a: math.gcd(a, 6), np.zeros, lambda a: int("11", a),
    ],
)  # fmt: skip
def test_what_leaves_arithmetic_pins_the_value(leave: Callable[[int], Any]) -> None:
    recorder, a, _ = traced((3, 0))
    got, wanted = leave(a), leave(4)
    assert type(got) is type(wanted)
    assert np.array_equal(got, wanted) if isinstance(got, np.ndarray) else got == wanted
    assert next(iter(recorder.guards.items())) == (a._node, 4)  # type: ignore[attr-defined]


def test_every_operator_of_int_is_there() -> None:
    # Python looks operators up in the class, where a number that lacks one would be an error.
    elsewhere = {"__new__", "__doc__", "__getattribute__", "__getnewargs__", "__sizeof__"}
    operators = {name for name in vars(int) if name.startswith("__")} - elsewhere
    assert operators <= {name for parent in TracedInt.__mro__[:-1] for name in vars(parent)}


def test_what_is_no_number_is_unequal_and_no_question() -> None:
    recorder, a, _ = traced((3, 0))
    assert a != "4"
    assert a != [4]
    assert a not in ("4", None)
    with pytest.raises(TypeError):
        a < "4"  # type: ignore[operator]  # noqa: B015
    with pytest.raises(TypeError):
        a + "4"  # type: ignore[operator]
    assert not recorder.guards


def test_with_an_expression_it_makes_one_that_carries_it() -> None:
    recorder, a, _ = traced((3, 0))
    i = Var("i")
    for made in (a * i, i * a, i + a, a - i, i // a, i % a):
        assert sum(isinstance(e, Const) and type(e.value) is TracedInt for e in walk(made)) == 1
    assert isinstance(a < i, Compare)
    assert isinstance(a != i, Compare)
    assert not recorder.guards


def test_it_passes_for_an_int() -> None:
    _, a, _ = traced((3, 0))
    assert isinstance(a, int)
    assert isinstance(a, numbers.Integral)
    assert not hasattr(a, "extent")
    match a:
        case int(value):
            assert value is a
        case _:
            raise AssertionError


def test_copies_and_pickles_are_harmless() -> None:
    recorder, a, _ = traced((1, 1))
    assert copy.deepcopy(a) is a
    back = pickle.loads(pickle.dumps([a]))[0]
    assert type(back) is int
    assert back == int(a)
    assert hash(a) == hash(int(a))
    assert str(a) == "2"
    recorder.guards.clear()
    recorder.open = False
    assert type(a + 1) is int
    assert a == 2
    assert not recorder.guards
