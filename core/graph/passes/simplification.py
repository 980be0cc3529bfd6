"""The pass that removes nodes without effect, and joins moves of elements."""

from __future__ import annotations

from pegbox.graph.affine import affine_of
from pegbox.graph.graph import Graph, Node, Value
from pegbox.graph.kind import is_view, permutation_of
from pegbox.graph.operations import reshape_node, transpose_node
from pegbox.graph.rewriting import Rewriting


def simplification(graph: Graph) -> Graph:
    """Remove nodes that change nothing, and join consecutive reshapes and consecutive transpositions.

    ::

        a = Transpose(x, perm=(0, 2, 1))         y = Exp(x)
        b = Transpose(a, perm=(0, 2, 1))    ->   return y
        c = Add(b, zero)
        y = Exp(c)
        return y

    The sign of zeros may change: `x + 0` turns -0 into 0.
    """
    made = Rewriting(graph)
    makers: dict[Value, Node] = {}
    for node in graph.nodes:
        node = _joined(made.current(node), makers)
        same = _unchanged(node, made)
        if same is not None:
            made.replace(node.outputs[0], same)
            continue
        made.add(node)
        makers.update(dict.fromkeys(node.outputs, node))
    return made.graph()


def _joined(node: Node, makers: dict[Value, Node]) -> Node:
    """Join a node that moves elements with the one before it, to read that node's input."""
    if node.kind not in ("Reshape", "Transpose"):
        return node
    before = makers.get(node.inputs[0])
    if before is None or before.kind != node.kind:
        return node
    (x,), (y,) = before.inputs, node.outputs
    if node.kind == "Reshape":
        return reshape_node(node.name, x, y.shape, output=y)
    first, second = permutation_of(before), permutation_of(node)
    if first is None or second is None:
        return node
    joined = transpose_node(node.name, x, [first[axis] for axis in second], output=y)
    return reshape_node(node.name, x, y.shape, output=y) if is_view(joined) else joined


def _unchanged(node: Node, made: Rewriting) -> Value | None:
    """Return the input of a node whose output is equal to it."""
    if node.kind == "Reshape":
        return node.inputs[0] if node.inputs[0].shape == node.outputs[0].shape else None
    function = affine_of(node, made.constants)
    return function.x if function is not None and function.is_identity else None
