"""Passes over graphs: each is a function of a graph that returns an equivalent one."""

from pegbox.graph.graph import Graph
from pegbox.graph.passes.attention import attention
from pegbox.graph.passes.canonical_form import canonical_form
from pegbox.graph.passes.common_nodes import common_nodes
from pegbox.graph.passes.constant_folding import constant_folding
from pegbox.graph.passes.dead_nodes import dead_nodes
from pegbox.graph.passes.fusion import fusion
from pegbox.graph.passes.layouts import layouts
from pegbox.graph.passes.linear_folding import linear_folding
from pegbox.graph.passes.moves import moves
from pegbox.graph.passes.padding import padding
from pegbox.graph.passes.reshape_motion import reshape_motion
from pegbox.graph.passes.simplification import simplification

PASSES = (
    dead_nodes, constant_folding, canonical_form, padding, simplification, common_nodes, dead_nodes, linear_folding,
    moves, dead_nodes, reshape_motion, simplification, dead_nodes,
)  # fmt: skip
"""The passes in order: later ones rely on the forms that earlier ones produce."""


def optimize(graph: Graph, *, layout: str = "NHWC", attend: bool = True, fuse: bool = True) -> Graph:
    """Apply all passes.

    Args:
        layout: the place of the channels in images: "NCHW", or "NHWC" in convolutions and around them.
        attend: join products around a softmax.
        fuse: join nodes.
    """
    for each in PASSES:
        graph = each(graph)
    if attend:
        graph = dead_nodes(simplification(moves(dead_nodes(attention(graph)))))
    if layout == "NHWC":
        graph = dead_nodes(simplification(layouts(graph)))
    return fusion(graph) if fuse else graph
