"""Nodes that no output needs."""

from __future__ import annotations

from collections.abc import Callable

from pegbox import te
from pegbox.graph import Value, make_node
from pegbox.graph.passes.dead_nodes import dead_nodes
from tests.helpers.graphs import added
from tests.helpers.optimized import Constants, check_pass, check_stays, exponential, graph_of

X = Value("x", (3,), "float32")


def test_what_no_output_needs_is_removed(golden: Callable[[object], None]) -> None:
    constants = Constants()
    used, unused = exponential("used", X), exponential("unused", X)
    further = added("further", *unused.outputs, constants.random("c", 3))
    made = check_pass(dead_nodes, graph_of([used, unused, further], constants, *used.outputs), golden)
    assert not made.constants


def test_an_output_of_a_node_may_be_dead(golden: Callable[[object], None]) -> None:
    def compute(x: te.Tensor) -> list[te.Tensor]:
        return [te.compute(x.shape, lambda i, factor=factor: x[i] * factor) for factor in (1.0, 2.0, 3.0)]

    node = make_node("n", "Multiples", [X], compute, outputs=["once", "twice", "thrice"])
    check_pass(dead_nodes, graph_of([node], {}, *node.outputs[::2]), golden)


def test_what_outputs_need_stays() -> None:
    constants = Constants()
    a = added("a", X, constants.random("c", 3))
    b = exponential("b", *a.outputs)
    check_stays(dead_nodes, graph_of([a, b], constants, *a.outputs, *b.outputs))
