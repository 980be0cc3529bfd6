"""Nodes that read constants alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pegbox import te
from pegbox.errors import GraphError
from pegbox.graph import Value, make_node, reshape_node, transpose_node
from pegbox.graph.passes.constant_folding import constant_folding
from tests.helpers.graphs import added
from tests.helpers.optimized import Constants, check_pass, check_stays, exponential, graph_of, multiplied

X = Value("x", (3,), "float32")


def test_nodes_of_constants_are_computed(golden: Callable[[object], None]) -> None:
    constants = Constants()
    a = exponential("a", constants.random("c", 3))
    b = added("b", *a.outputs, constants.random("d", 1))
    check_pass(constant_folding, graph_of([a, b, multiplied("y", X, *b.outputs)], constants), golden)


def test_nodes_of_inputs_stay() -> None:
    constants = Constants()
    check_stays(constant_folding, graph_of([added("a", X, constants.random("c", 3))], constants))


def test_a_constant_that_only_changes_its_shape_is_not_copied() -> None:
    constants = Constants()
    w = constants.random("w", 4, 6)
    node = reshape_node("r", w, (2, 12))
    made = constant_folding(graph_of([node], constants))
    assert np.shares_memory(made.constants[node.outputs[0]], constants[w])


def test_moved_weights_are_contiguous() -> None:
    constants = Constants()
    node = transpose_node("t", constants.random("w", 4, 6), (1, 0))
    array = constant_folding(graph_of([node], constants)).constants[node.outputs[0]]
    assert array.flags.c_contiguous
    np.testing.assert_array_equal(array, constants[node.inputs[0]].T)


def test_a_result_far_larger_than_its_inputs_is_not_kept() -> None:
    constants = Constants()
    scalar = constants.random("s", 1)
    nodes = [
        make_node(f"{extent}", "Expand", [scalar], lambda t, n=extent: [te.compute((n,), lambda i: t[0], name="wide")])
        for extent in (1 << 20, (1 << 22) + 1)
    ]
    graph = constant_folding(graph_of(nodes, constants, *(node.outputs[0] for node in nodes)))
    assert [node.name for node in graph.nodes] == [str((1 << 22) + 1)]


def test_a_node_that_cannot_be_computed_is_named() -> None:
    constants = Constants()
    at = constants.add("at", 7, "int64")
    node = make_node("far", "Gather", [constants.random("c", 3), at], lambda t, i: [te.compute((), lambda: t[i()])])
    with pytest.raises(GraphError, match=r"Gather 'far': .* reads index 7"):
        constant_folding(graph_of([node], constants))
