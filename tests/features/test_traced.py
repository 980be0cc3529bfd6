"""Traced integers are ints, remember how they were made, and note what is asked of them."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegbox.expr.open_int import least
from pegbox.features.graph import Evaluation, Graph
from pegbox.features.traced import Recorder, TracedInt, combined, quantity

VALUES = {0: [1, 2, 3, 4, 6, 8], 1: [5, 16, 7, 64]}
"""What two knobs stand for, by digit."""


def traced(digits: tuple[int, int]) -> tuple[Recorder, int, int]:
    graph = Graph([len(values) for values in VALUES.values()])
    recorder = Recorder(graph)
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
        assert int(made) == value_of(expression, {"a": int(a), "b": int(b)})
    except ZeroDivisionError:
        return
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
    assert not recorder.guards


@pytest.mark.parametrize("ask", [operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge])
def test_a_comparison_answers_as_an_int_and_is_noted(ask: Callable[[int, int], bool]) -> None:
    recorder, a, b = traced((2, 2))
    assert ask(a, b) is ask(int(a), int(b))
    assert len(recorder.guards) == 1
    assert ask(a, 3) is ask(int(a), 3)
    assert len(recorder.guards) == 2


def test_what_no_configuration_denies_is_no_question() -> None:
    recorder, a, _ = traced((0, 0))
    assert a >= 1
    assert a < 100
    assert a
    assert not isinstance(a * 0 + 7, TracedInt)
    assert not recorder.guards


def test_what_leaves_arithmetic_pins_the_value() -> None:
    for leave in (lambda a: a / 2, lambda a: a**2, lambda a: 1 << a, float, round, lambda a: a.bit_length()):
        recorder, a, _ = traced((3, 0))
        assert leave(a) == leave(int(a))
        assert recorder.guards == {a.node: 4}  # type: ignore[attr-defined]


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
