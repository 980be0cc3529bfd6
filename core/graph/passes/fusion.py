"""Fusion of nodes into one, so that the values between them stay in registers and caches."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pegbox.expr.dtypes import nbytes
from pegbox.graph.access import NodeAccess
from pegbox.graph.fused_node import fused_node
from pegbox.graph.graph import Graph, Node, Value
from pegbox.graph.post_dominators import post_dominators

MOST_PARTS = 40
"""The largest number of nodes in a fused one."""

ROW_BYTES = 1 << 17
"""The size in bytes up to which the values of a row stay in a cache until the next stage reads them."""


def fusion(graph: Graph) -> Graph:
    """Join nodes whose intermediate values need not be stored.

    Each node in turn begins a group. A group takes in its post-dominator and all nodes in between, as long as
    `is_worth_fusing` agrees. Only the last node of a group is read outside it, so that no path leaves a group and
    returns.

    ::

        c = Conv(x, w)          z = Conv+Add+Relu(x, w, r)
        a = Add(c, r)      ->   return z
        z = Relu(a)
        return z
    """
    groups = _Groups(graph)
    for node in graph.nodes:
        groups.grow(node)
    return groups.graph()


class _Groups:
    """A partition of a graph's nodes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._places = {node: place for place, node in enumerate(graph.nodes)}
        self._above = post_dominators(graph)
        self._groups: dict[Node, tuple[Node, ...]] = {node: (node,) for node in graph.nodes}
        self._access = {node: NodeAccess(node) for node in graph.nodes}

    def grow(self, node: Node) -> None:
        """Let the group that ends with a node take in its followers."""
        while self._groups[node][-1] is node and node in self._above:
            last = self._above[node]
            united = self._united(node, last)
            if united is None or not is_worth_fusing([self._access[member] for member in united]):
                return
            for member in united:
                self._groups[member] = united
            node = united[-1]

    def _united(self, node: Node, last: Node) -> tuple[Node, ...] | None:
        """Return the groups between a node and its post-dominator as one, in order; None if it has several exits."""
        members = {node: None, last: None}
        pending = [node]
        while pending:
            for value in pending.pop().outputs:
                for reader in self._graph.consumers.get(value, ()):
                    if reader not in members:
                        members[reader] = None
                        pending.append(reader)
            if len(members) > MOST_PARTS:
                return None
        found = {part for member in members for part in self._groups[member]}
        ordered = tuple(sorted(found, key=self._places.__getitem__))
        return ordered if len(found) <= MOST_PARTS and self._ends_with_last(ordered) else None

    def _ends_with_last(self, group: Sequence[Node]) -> bool:
        inside, returned = set(group), set(self._graph.outputs)
        return all(
            value not in returned and inside.issuperset(self._graph.consumers.get(value, ()))
            for node in group[:-1] for value in node.outputs
        )  # fmt: skip

    def graph(self) -> Graph:
        """Make the graph."""
        nodes = [self._made(self._groups[node]) for node in self._graph.nodes if self._groups[node][-1] is node]
        graph = self._graph
        return Graph(graph.name, graph.inputs, graph.outputs, tuple(nodes), graph.constants)

    def _made(self, group: tuple[Node, ...]) -> Node:
        if len(group) == 1:
            return group[0]
        anchors = [node for node in group if self._access[node].has_reuse]
        return fused_node([*anchors, *(node for node in group if node not in anchors)])


def is_worth_fusing(group: Sequence[NodeAccess]) -> bool:
    """Decide if one kernel for a group of nodes, of which only the last is read outside, beats several.

    - A convolution, a product, or another reduction that reads elements many times takes in the pointwise nodes that
      follow it. It takes in no nodes before it, because these would be computed as many times.
    - Other nodes are joined if no element of a value between them is computed twice.
    - Nodes with reductions are also joined if each row of the values between them depends on only one row, and a cache
      holds the rows.
    - Views cost nothing by themselves.
    """
    if any(each.is_opaque or each.is_view for each in group) or len(group[-1].node.outputs) > 1:
        return False
    anchors = [each for each in group if each.has_reuse]
    if anchors:
        return len(anchors) == 1 and all(each is anchors[0] or _follows(each, anchors[0]) for each in group)
    edges = _edges(group)
    return all(_streams(value, readers) for value, readers in edges) or (
        any(each.has_reduction for each in group) and _fits_by_rows(group, edges)
    )


Edges = list[tuple[Value, list[NodeAccess]]]


def _edges(group: Sequence[NodeAccess]) -> Edges:
    """Return the values between the nodes of a group, each with its readers."""
    readers: dict[Value, list[NodeAccess]] = {value: [] for each in group[:-1] for value in each.node.outputs}
    for each in group:
        for value in each.node.inputs:
            if value in readers:
                readers[value].append(each)
    return list(readers.items())


def _follows(each: NodeAccess, anchor: NodeAccess) -> bool:
    (made,) = anchor.node.outputs[:1]
    return (
        each.is_pointwise and each.node.outputs[0].shape == made.shape
        and set(anchor.node.inputs).isdisjoint(each.node.outputs)
    )  # fmt: skip


def _streams(value: Value, readers: Sequence[NodeAccess]) -> bool:
    """Decide if each element of a value is read once, or always at the same place."""
    if len(readers) == 1:
        return readers[0].reads(value) <= 1
    return all(each.is_pointwise and each.node.outputs[0].shape == value.shape for each in readers)


def _fits_by_rows(group: Sequence[NodeAccess], edges: Edges) -> bool:
    rank = min(each.rows(value) for value, readers in edges for each in readers)
    rows = edges[0][0].shape[:rank]
    values = {value for each in group for value in (*each.node.inputs, *each.node.outputs)}
    of_rows = [value for value in values if value.shape[:rank] == rows]
    return rank > 0 and all(prod(value.shape[rank:]) * nbytes(value.dtype) <= ROW_BYTES for value in of_rows)
