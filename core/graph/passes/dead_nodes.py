"""The pass that removes nodes, outputs of nodes, and constants that no output of the graph needs."""

from __future__ import annotations

from dataclasses import replace

from pegbox.graph.graph import Graph, Node, Value
from pegbox.graph.rewriting import with_outputs


def dead_nodes(graph: Graph) -> Graph:
    """Keep the nodes and constants that the outputs need, and all inputs.

    ::

        a = Exp(x)
        b, mask = Dropout(x)    ->    b = Dropout(x)
        return b                      return b
    """
    needed = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            continue
        kept.append(_with_outputs(node, needed))
        needed.update(node.inputs)
    constants = {value: array for value, array in graph.constants.items() if value in needed}
    return replace(graph, nodes=tuple(reversed(kept)), constants=constants)


def _with_outputs(node: Node, needed: set[Value]) -> Node:
    """Return the node without unneeded outputs."""
    places = [place for place, value in enumerate(node.outputs) if value in needed]
    return node if len(places) == len(node.outputs) else with_outputs(node, places)
