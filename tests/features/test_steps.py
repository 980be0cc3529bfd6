"""The steps of an evaluation: few, in a valid order, also in a graph that grows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pegbox.features.graph import Evaluation, NumberGraph
from pegbox.features.row_values import RowValues

CHOICES = st.tuples(
    st.sampled_from(["add", "sub", "mul", "min", "max", "floordiv", "ceildiv", "mod", "lt"]),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)


def grown(graph: NumberGraph, nodes: list[int], choices: list[tuple[str, int, int]]) -> None:
    for op, a, b in choices:
        node = graph.apply(op, nodes[a % len(nodes)], nodes[b % len(nodes)])
        if abs(graph.nodes[node].low) > 1e6 or abs(graph.nodes[node].high) > 1e6:
            node = graph.apply("mod", node, graph.constant(101))
        nodes.append(node)


def check_order(graph: NumberGraph) -> None:
    step, code, _, a, b = graph.columns()
    made = a >= 0
    assert (step[~made] == -1).all()
    assert (step[made] > np.maximum(step[a[made]], step[b[made]])).all()
    assert len(set(zip(step[made].tolist(), code[made].tolist(), strict=True))) == len(set(step[made].tolist()))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(CHOICES, max_size=40), min_size=1, max_size=4))
def test_values_stay_right_while_the_graph_grows(parts: list[list[tuple[str, int, int]]]) -> None:
    graph = NumberGraph([5, 4, 3])
    nodes = [graph.digit(0), graph.digit(1), graph.digit(2)]
    row = np.array([4, 3, 2])
    plans = []
    for choices in parts:
        grown(graph, nodes, choices)
        plans.append((Evaluation(graph, nodes), list(nodes)))
        check_order(graph)
    one = RowValues(graph, row)
    for plan, wanted in plans:
        values = plan(row[:, None])[:, 0]
        assert [values[plan.place[node]] for node in wanted] == [one[node] for node in wanted]


def chain(graph: NumberGraph, ops: list[str], value: float) -> None:
    """Add `ops` in turn to a number of two knobs."""
    node = graph.apply("mul", graph.digit(0), graph.digit(1))
    for place, op in enumerate(ops):
        node = graph.apply(op, node, graph.table(place % 2, np.array([value + place, value + place + 1, 2.0])))


def steps_of(graph: NumberGraph) -> int:
    return int(graph.columns()[0].max()) + 1


def test_equal_operations_meet_though_their_depths_differ() -> None:
    graph = NumberGraph([3, 3])
    for late in range(4):
        chain(graph, ["max"] * late + ["min", "add"] * 3, 10.0 * late + 3)
    # mul, up to three of max, then all pairs at once; by depth there would be several operations at most depths.
    assert steps_of(graph) == 1 + 3 + 6


def test_programs_that_are_alike_share_the_steps() -> None:
    graph = NumberGraph([3, 3])
    for number in range(3):
        chain(graph, ["add", "max", "mul", "add"], 100.0 * number + 5)
    before = steps_of(graph)
    for number in range(3, 20):
        chain(graph, ["max", "mul", "add"] if number % 2 else ["add", "mul"], 100.0 * number + 5)
        assert steps_of(graph) == before
