"""Nodes that change nothing, and moves of elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pegbox.graph import Value, evaluate, reshape_node, transpose_node
from pegbox.graph.passes.simplification import simplification
from tests.helpers.graphs import added
from tests.helpers.optimized import (
    Constants,
    check_pass,
    check_stays,
    check_values,
    exponential,
    graph_of,
    multiplied,
)

X = Value("x", (2, 3, 4), "float32")


def test_what_changes_nothing_is_removed(golden: Callable[[object], None]) -> None:
    constants = Constants()
    a = added("a", X, constants.add("zero", np.zeros((4,))))
    b = multiplied("b", constants.add("one", 1.0), *a.outputs)
    c = reshape_node("c", *b.outputs, X.shape)
    check_pass(simplification, graph_of([a, b, c, exponential("y", *c.outputs)], constants), golden)


@pytest.mark.parametrize("number", [0.0, 1.0])
def test_sums_with_one_and_products_with_zero_stay(number: float) -> None:
    constants = Constants()
    node = (added if number else multiplied)("a", X, constants.add("c", number))
    check_stays(simplification, graph_of([node], constants))


def test_a_sum_that_broadcasts_stays() -> None:
    constants = Constants()
    check_stays(simplification, graph_of([added("a", X, constants.add("c", np.zeros((5, 1, 1, 1))))], constants))


def test_infinity_times_zero_is_not_zero() -> None:
    constants = Constants()
    graph = graph_of([multiplied("a", X, constants.add("c", 0.0))], constants)
    (found,) = evaluate(simplification(graph), {X: np.full(X.shape, np.inf, "float32")})
    assert np.isnan(found).all()


def test_moves_of_elements_are_joined(golden: Callable[[object], None]) -> None:
    a = transpose_node("a", X, (2, 0, 1))
    b = transpose_node("b", *a.outputs, (1, 0, 2))
    c = reshape_node("c", *b.outputs, (4, 6))
    d = reshape_node("d", *c.outputs, (24,))
    check_pass(simplification, graph_of([a, b, c, d], {}), golden)


def test_moves_that_cancel_each_other_are_removed(golden: Callable[[object], None]) -> None:
    a = transpose_node("a", X, (2, 0, 1))
    b = transpose_node("b", *a.outputs, (1, 2, 0))
    check_pass(simplification, graph_of([a, b, exponential("y", *b.outputs)], {}), golden)


def test_moves_with_others_between_them_stay() -> None:
    a = transpose_node("a", X, (2, 0, 1))
    b = exponential("b", *a.outputs)
    c = transpose_node("c", *b.outputs, (1, 2, 0))
    d = reshape_node("d", *c.outputs, (24,))
    check_stays(simplification, graph_of([a, b, c, d], {}))


def test_an_output_keeps_its_name() -> None:
    constants = Constants()
    a = exponential("a", X)
    y = added("y", *a.outputs, constants.add("zero", 0.0))
    graph = graph_of([a, y], constants)
    made = simplification(graph)
    assert str(made.nodes[0]) == "y: float32[2, 3, 4] = Exp(x)"
    check_values(graph, made)


def test_an_output_equal_to_an_input_is_a_copy() -> None:
    constants = Constants()
    graph = graph_of([added("y", X, constants.add("zero", 0.0))], constants)
    made = simplification(graph)
    assert [node.kind for node in made.nodes] == ["Reshape"]
    check_values(graph, made)


def test_two_outputs_that_are_equal_are_both_made() -> None:
    constants = Constants()
    a = exponential("a", X)
    zero = constants.add("zero", 0.0)
    b, c = added("b", *a.outputs, zero), added("c", *a.outputs, zero)
    graph = graph_of([a, b, c], constants, *b.outputs, *c.outputs)
    made = simplification(graph)
    assert [node.kind for node in made.nodes] == ["Exp", "Reshape"]
    check_values(graph, made)
