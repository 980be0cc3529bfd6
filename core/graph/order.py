"""An order in which nodes can run."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from pegbox.errors import GraphError
from pegbox.graph.graph import Node, Value


def in_order(nodes: Sequence[Node]) -> list[Node]:
    """Sort nodes so that each comes behind those that make its inputs, and otherwise as they are given.

    Raises:
        GraphError: nodes depend on each other in a cycle.
    """
    makers: dict[Value, int] = {value: place for place, node in enumerate(nodes) for value in node.outputs}
    needed = [{makers[value] for value in node.inputs if value in makers} for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for place, before in enumerate(needed):
        for maker in before:
            readers[maker].append(place)
    ready = [place for place, before in enumerate(needed) if not before]  # ascending, so that it is a heap
    order = []
    while ready:
        place = heapq.heappop(ready)
        order.append(nodes[place])
        for reader in readers[place]:
            needed[reader].remove(place)
            if not needed[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(nodes):
        placed = set(order)
        stuck = next(node for node in nodes if node not in placed)
        raise GraphError(f"{stuck.kind} {stuck.name!r} depends on its own output through other nodes")
    return order
