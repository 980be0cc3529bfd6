"""Symbols calculate as the integers that they stand for, in all configurations at once, and answer no question."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegbox.features.graph import Evaluation, NumberGraph
from pegbox.features.row_values import RowValues
from pegbox.features.symbol import Quantity, Symbol, at_most, below, ceil_div, equal, least, most, product
from pegbox.features.traced import TraceRecorder, quantity

VALUES = ([1, 2, 3, 4, 6, 8], [5, 16, 7, 64])
"""The values of two knobs, by digit."""

OPERATIONS: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod,
    least, most, equal, below, at_most, ceil_div, lambda a, b: product([a, 1, b]), lambda a, b: -a + b,
]  # fmt: skip

expressions = st.recursive(
    st.sampled_from(["a", "b"]) | st.integers(-3, 40),
    lambda inner: st.tuples(st.sampled_from(range(len(OPERATIONS))), inner, inner),
    max_leaves=8,
)


def value_of(expression: Any, names: Mapping[str, Quantity]) -> Any:
    if isinstance(expression, tuple):
        number, a, b = expression
        return OPERATIONS[number](value_of(a, names), value_of(b, names))
    return names[expression] if isinstance(expression, str) else expression


def knobs() -> tuple[NumberGraph, dict[str, Quantity]]:
    graph = NumberGraph([len(values) for values in VALUES])
    nodes = [graph.table(knob, np.array(values, dtype=np.float64)) for knob, values in enumerate(VALUES)]
    return graph, {name: graph.symbol(node) for name, node in zip("ab", nodes, strict=True)}


@given(expressions)
def test_a_symbol_is_the_number_in_every_configuration(expression: Any) -> None:
    graph, names = knobs()
    try:
        node = graph.node_of(value_of(expression, names))
    except ZeroDivisionError:  # of constants
        return
    plan = Evaluation(graph, [node])
    rows = np.array([(i, j) for i in range(len(VALUES[0])) for j in range(len(VALUES[1]))]).T
    for row, value in zip(rows.T.tolist(), plan(rows)[plan.place[node]].tolist(), strict=True):
        try:
            expected = value_of(expression, {"a": VALUES[0][row[0]], "b": VALUES[1][row[1]]})
        except ZeroDivisionError:  # not in a configuration that an expression is for
            continue
        assert value == expected


def test_the_same_expression_is_the_same_symbol() -> None:
    _, names = knobs()
    a, b = names["a"], names["b"]
    assert a * b + 3 is 3 + a * b
    assert isinstance(a * b, Symbol)
    assert a * 0 + 7 == 7


@pytest.mark.parametrize("ask", [bool, int, range, lambda a: a < 3, lambda a: a >= 3, lambda a: min(a, 3)])
def test_a_symbol_has_no_value_to_ask_for(ask: Callable[[Any], object]) -> None:
    _, names = knobs()
    with pytest.raises(TypeError):
        ask(names["a"])


def test_a_question_is_answered_for_the_run_and_noted() -> None:
    graph, names = knobs()
    recorder = TraceRecorder(graph, RowValues(graph, np.array([2, 1])))  # a is 3, b is 16
    truth = below(names["a"], names["b"] - 12)
    assert recorder.holds(truth)
    assert isinstance(truth, Symbol)
    assert recorder.guards == {truth.node: 1}
    assert not recorder.holds(equal(names["a"], 4))
    assert recorder.holds(below(names["a"], 100))  # in all configurations
    assert len(recorder.guards) == 2


def test_a_traced_number_is_its_symbol_while_its_run_goes_on() -> None:
    graph, names = knobs()
    recorder = TraceRecorder(graph)
    a = names["a"]
    assert isinstance(a, Symbol)
    number = recorder.number(a.node, 3)
    assert quantity(number) is a
    assert quantity(5) == 5
    recorder.open = False
    assert quantity(number) == 3
