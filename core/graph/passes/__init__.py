"""Passes over graphs: each is a function of a graph that gives another one, which computes the same."""

from pegbox.graph.graph import Graph
from pegbox.graph.passes.canonical_form import canonical_form
from pegbox.graph.passes.common_nodes import common_nodes
from pegbox.graph.passes.constant_folding import constant_folding
from pegbox.graph.passes.dead_nodes import dead_nodes
from pegbox.graph.passes.linear_folding import linear_folding
from pegbox.graph.passes.simplification import simplification

PASSES = (
    dead_nodes, constant_folding, canonical_form, simplification, common_nodes, linear_folding, dead_nodes
)  # fmt: skip
"""The passes in their order: later ones count on what earlier ones have removed or written in another form."""


def optimize(graph: Graph) -> Graph:
    """Apply all passes."""
    for each in PASSES:
        graph = each(graph)
    return graph
