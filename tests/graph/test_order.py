"""Orders of nodes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegbox.errors import GraphError
from pegbox.graph import Node, Value
from pegbox.graph.order import in_order
from tests.helpers.graphs import added
from tests.helpers.optimized import exponential

X = Value("x", (3,), "float32")


@given(st.data())
def test_each_node_is_behind_those_that_it_reads(data: st.DataObject) -> None:
    values, nodes = [X], list[Node]()
    for number in range(8):
        a, b = data.draw(st.sampled_from(values)), data.draw(st.sampled_from(values))
        nodes.append(added(f"n{number}", a, b))
        values += nodes[-1].outputs
    known = {X}
    for node in in_order(data.draw(st.permutations(nodes))):
        assert known.issuperset(node.inputs)
        known.update(node.outputs)
    assert len(known) == 9


def test_nodes_in_order_stay_as_they_are() -> None:
    nodes = [exponential(name, X) for name in "abc"]
    assert in_order(nodes) == nodes


def test_a_cycle_is_an_error_that_names_a_node() -> None:
    a = exponential("a", X)
    b = exponential("b", *a.outputs)
    turned: Callable[[Node], Node] = lambda node: node.over(b.outputs, node.outputs)  # noqa: E731
    with pytest.raises(GraphError, match="Exp 'a' depends on its own output"):
        in_order([turned(a), b])
