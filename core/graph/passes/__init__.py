"""Passes over graphs: each is a function of a graph that gives another one, which computes the same."""

from pegbox.graph.graph import Graph
from pegbox.graph.passes.canonical_form import canonical_form
from pegbox.graph.passes.constant_folding import constant_folding
from pegbox.graph.passes.dead_nodes import dead_nodes


def optimize(graph: Graph) -> Graph:
    """Apply all passes."""
    for each in (dead_nodes, constant_folding, canonical_form, constant_folding, dead_nodes):
        graph = each(graph)
    return graph
