"""Values for one configuration are equal to those for many."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from pegbox.features.graph import OPERATIONS, Evaluation, NumberGraph
from pegbox.features.program import without_collection
from pegbox.features.row_values import RowValues


def test_every_operation_also_where_something_is_divided_by_zero() -> None:
    graph = NumberGraph([5, 4])
    a = graph.table(0, np.array([-7.0, 0.0, 1.0, 8.0, 9.0]))
    b = graph.table(1, np.array([-3.0, 0.0, 2.0, 8.0]))
    nodes = [graph.apply(op, a, b) for op in OPERATIONS]
    nodes += [graph.apply("add", nodes[0], node) for node in nodes]
    plan = Evaluation(graph, nodes)
    for first in range(5):
        for second in range(4):
            row = np.array([first, second])
            many = plan(row[:, None])
            one = RowValues(graph, row)
            assert [one[node] for node in nodes] == [many[plan.place[node], 0] for node in nodes], (first, second)


def test_the_digit_of_a_long_range_has_no_table() -> None:
    graph = NumberGraph([10**9, 4])
    digit, other = graph.digit(0), graph.digit(1)
    assert graph.nodes[digit].table is None
    assert graph.digit(0) == digit
    nodes = [digit, graph.apply("eq", digit, graph.constant(123_456_789)), graph.apply("add", digit, other)]
    row = np.array([123_456_789, 3])
    plan, one = Evaluation(graph, nodes), RowValues(graph, row)
    values = plan(row[:, None])
    assert [one[node] for node in nodes] == [values[plan.place[node], 0] for node in nodes]
    assert [one[node] for node in nodes] == [123_456_789, 1, 123_456_792]


def test_long_sums_need_no_stack() -> None:
    graph = NumberGraph([3, 3])
    a, b = graph.digit(0), graph.digit(1)
    node = graph.apply("mul", a, b)
    for _ in range(5000):
        node = graph.apply("add", node, graph.apply("mul", a, graph.apply("add", b, node)))
        if graph.nodes[node].high > 1e12:
            node = graph.apply("mod", node, graph.constant(1009))
    assert RowValues(graph, np.array([2, 1]))[node] >= 0


def broken_off() -> None:
    with without_collection():
        assert not gc.isenabled()
        raise KeyError


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(KeyError):
            broken_off()
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was else gc.disable)()
