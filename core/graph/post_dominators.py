"""Post-dominators: the first node on all paths from a node to the outputs."""

from __future__ import annotations

from collections.abc import Mapping

from pegbox.graph.graph import Graph, Node

_FARTHEST = 64
"""The largest number of steps to a node where paths meet again; farther ones are useless, and take quadratic time."""


def post_dominators(graph: Graph) -> Mapping[Node, Node]:
    """Return the immediate post-dominator of each node that has one nearby (Cooper, Harvey and Kennedy, 2001).

    A node whose output the graph returns has none.
    """
    depth: dict[Node, int] = {}
    found: dict[Node, Node] = {}
    outputs = set(graph.outputs)
    for node in reversed(graph.nodes):
        readers = [reader for value in node.outputs for reader in graph.consumers.get(value, ())]
        meeting = None if not readers or not outputs.isdisjoint(node.outputs) else readers[0]
        for reader in readers[1:]:
            if meeting is None:
                break
            meeting = _meeting(meeting, reader, found, depth)
        depth[node] = 0 if meeting is None else depth[meeting] + 1
        if meeting is not None:
            found[node] = meeting
    return found


def _meeting(a: Node, b: Node, above: Mapping[Node, Node], depth: Mapping[Node, int]) -> Node | None:
    """Return the lowest common ancestor of two nodes in the tree."""
    for _ in range(_FARTHEST):
        if a is b:
            return a
        deeper, other = (a, b) if depth[a] >= depth[b] else (b, a)
        if deeper not in above:
            return None
        a, b = above[deeper], other
    return None
