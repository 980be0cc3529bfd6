"""Nodes and constants that are equal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pegbox import te
from pegbox.graph import Value, make_node, pointwise_node
from pegbox.graph.passes.common_nodes import common_nodes
from pegbox.graph.passes.dead_nodes import dead_nodes
from tests.helpers.graphs import added
from tests.helpers.optimized import Constants, check_pass, check_stays, check_values, exponential, graph_of

X = Value("x", (2, 3), "float32")


def test_equal_nodes_are_computed_once(golden: Callable[[object], None]) -> None:
    a, b = exponential("a", X), exponential("b", X)
    c, d = exponential("c", *a.outputs), exponential("d", *b.outputs)
    check_pass(common_nodes, graph_of([a, b, c, d, added("y", *c.outputs, *d.outputs)], {}), golden)


def test_equal_constants_are_one() -> None:
    constants = Constants()
    numbers = np.arange(600.0).reshape(2, 300)
    a, b = (added(name, X.__class__("x", (2, 300), "float32"), constants.add(name, numbers)) for name in "ab")
    graph = graph_of([a, b], constants, *a.outputs, *b.outputs)
    made = common_nodes(graph)
    assert made.nodes[0].inputs[1] is made.nodes[1].inputs[1]


def test_nodes_that_differ_in_attributes_or_computation_stay() -> None:
    nodes = [
        pointwise_node("a", "Scaled", lambda e: e * 2.0, [X]),
        pointwise_node("b", "Scaled", lambda e: e * 3.0, [X]),
        pointwise_node("c", "Scaled", lambda e: e * 2.0, [X], attributes={"factor": 2}),
        pointwise_node("d", "Other", lambda e: e * 2.0, [X]),
    ]
    check_stays(common_nodes, graph_of(nodes, {}, *(node.outputs[0] for node in nodes)))


def test_constants_that_differ_in_a_bit_or_in_their_shape_stay() -> None:
    constants = Constants()
    numbers = np.zeros((2, 300))
    other = numbers.copy()
    other[1, 7] = -0.0
    x = Value("x", (2, 300), "float32")
    values = [constants.add("a", numbers), constants.add("b", other), constants.add("c", numbers.reshape(1, 2, 300))]
    nodes = [added(f"y{place}", x, value) for place, value in enumerate(values)]
    check_stays(common_nodes, graph_of(nodes, constants, *(node.outputs[0] for node in nodes)))


def test_nodes_on_exchanged_inputs_stay() -> None:
    other = Value("other", X.shape, "float32")
    a, b = (pointwise_node(name, "Sub", lambda p, q: p - q, values)
            for name, values in (("a", [X, other]), ("b", [other, X])))  # fmt: skip
    check_stays(common_nodes, graph_of([a, b], {}, *a.outputs, *b.outputs))


def test_two_outputs_that_are_equal_are_both_made() -> None:
    a, b = exponential("a", X), exponential("b", X)
    graph = graph_of([a, b], {}, *a.outputs, *b.outputs)
    made = common_nodes(graph)
    assert [node.kind for node in made.nodes] == ["Exp", "Reshape"]
    check_values(graph, made)


def test_nan_is_a_constant_equal_to_itself() -> None:
    constants = Constants()
    a, b = (pointwise_node(name, "Max", te.max, [X, constants.add(name, np.nan)]) for name in "ab")
    made = common_nodes(graph_of([a, b], constants, *a.outputs, *b.outputs))
    assert [node.kind for node in made.nodes] == ["Max", "Reshape"]


def test_equal_constants_may_be_outputs() -> None:
    constants = Constants()
    a, b = constants.add("a", [1.0, 2.0]), constants.add("b", [1.0, 2.0])
    check_stays(common_nodes, graph_of([exponential("y", X)], constants, a, b))


def test_equal_constants_that_are_outputs_stay() -> None:
    constants = Constants()
    a, b = (constants.add(name, np.float32([1, 2])) for name in "ab")
    check_stays(common_nodes, graph_of([], constants, a, b))


def _sum_and_difference(x: te.Tensor) -> list[te.Tensor]:
    return list(te.compute(x.shape, lambda i, j: (x(i, j) + 1.0, x(i, j) - 1.0), name="both"))


def test_different_outputs_of_equal_operations_stay() -> None:
    a, b = (make_node(name, "Both", [X], _sum_and_difference) for name in "ab")
    swapped = make_node("c", "Both", [X], lambda x: _sum_and_difference(x)[::-1])
    nodes = [a, b, swapped, added("y", a.outputs[0], b.outputs[1]), added("z", b.outputs[1], swapped.outputs[1])]
    graph = graph_of(nodes, {}, nodes[-2].outputs[0], nodes[-1].outputs[0])
    check_values(graph, common_nodes(dead_nodes(graph)))
