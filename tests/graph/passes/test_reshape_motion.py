"""Reshapes in front of products, and behind pointwise nodes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pegbox.graph import Value, matmul_node, reshape_node, transpose_node
from pegbox.graph.passes.reshape_motion import reshape_motion
from tests.helpers.graphs import added, relu
from tests.helpers.optimized import Constants, check_pass, check_stays, exponential, graph_of, multiplied

Golden = Callable[[object], None]
X = Value("x", (6, 4), "float32")


def test_a_reshape_of_rows_moves_in_front_of_their_product(golden: Golden) -> None:
    constants = Constants()
    m = matmul_node("m", X, constants.random("w", 4, 8))
    b = added("b", *m.outputs, constants.random("bias", 8))
    r = relu("r", *b.outputs)
    y = reshape_node("y", *r.outputs, (2, 3, 8))
    other = Value("other", (2, 3, 8), "float32")
    check_pass(reshape_motion, graph_of([m, b, r, y, added("z", other, *y.outputs)], constants), golden)


@pytest.mark.parametrize("why", ["columns", "another reader", "another value", "rows of a bias", "stacks"])
def test_a_reshape_stays_behind_a_product(why: str) -> None:
    constants = Constants()
    w = constants.random("w", *((2, 4, 8) if why == "stacks" else (4, 8)))
    m = matmul_node("m", Value("x", (2, 3, 4), "float32") if why == "stacks" else X, w)
    bias = constants.random("bias", *((6, 1) if why == "rows of a bias" else (8,)))
    b = added("b", *m.outputs, Value("given", (8,), "float32") if why == "another value" else bias)
    y = reshape_node("y", *b.outputs, (12, 4) if why == "columns" else (3, 2, 8))
    others = [exponential("e", *b.outputs)] if why == "another reader" else []
    nodes = [m, b, y, *others]
    check_stays(reshape_motion, graph_of(nodes, constants, *(node.outputs[0] for node in nodes[2:])))


def test_a_product_with_a_number_moves_in_front_of_a_reshape(golden: Golden) -> None:
    constants = Constants()
    t = transpose_node("t", X, (1, 0))
    r = reshape_node("r", *t.outputs, (1, 2, 2, 6))
    s = multiplied("s", *r.outputs, constants.add("half", 0.5))
    check_pass(reshape_motion, graph_of([t, r, s, exponential("y", *s.outputs)], constants), golden)


@pytest.mark.parametrize("why", ["rows", "input", "another reader"])
def test_a_pointwise_node_stays_behind_a_reshape(why: str) -> None:
    constants = Constants()
    t = transpose_node("t", X, (1, 0))
    r = reshape_node("r", X if why == "input" else t.outputs[0], (2, 12))
    s = multiplied("s", *r.outputs, constants.random("c", 12) if why == "rows" else constants.add("c", 0.5))
    nodes = [t, r, s, *([exponential("e", *r.outputs)] if why == "another reader" else [])]
    check_stays(reshape_motion, graph_of(nodes, constants, *(node.outputs[0] for node in nodes[2:])))
