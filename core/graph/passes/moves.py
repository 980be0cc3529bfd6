"""The pass that joins chains of copies into one copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

from pegbox.compute.axis import IterVar
from pegbox.compute.ops import compute
from pegbox.compute.tensor import Tensor
from pegbox.expr.bounds import Ranges
from pegbox.expr.nodes import Binary, Const, Expr, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import substitute, walk
from pegbox.graph.graph import Graph, Node, Value
from pegbox.graph.kind import copied_element, is_view, permutation_of
from pegbox.graph.operations import reshape_node, transpose_node
from pegbox.graph.rewriting import Rewriting

Makers: TypeAlias = Mapping[Value, Node]


def moves(graph: Graph) -> Graph:
    """Join chains of nodes that only move elements: transpositions, slices and the views between them.

    ::

        r = Reshape(x, shape=(8, 3, 16))
        t = Transpose(r, perm=(1, 0, 2))    ->    a = Copy(x, indices=i, j + 16)
        a = Gather(t, axis=0, row=1)              return a
        return a

    A chain that ends with a view already has only one copy. It is joined only if it shuffles an array within its shape,
    so that nodes that rely on this shape (`layouts`) need not see another.
    """
    made = Rewriting(graph)
    makers: dict[Value, Node] = {}
    for node in graph.nodes:
        joined = _joined(node, makers) or node
        made.add(joined)
        makers.update(dict.fromkeys(joined.outputs, joined))
    return made.graph()


def _is_copy(node: Node) -> bool:
    if len(node.inputs) != 1 or len(node.outputs) != 1:
        return False
    return node.inputs[0].dtype == node.outputs[0].dtype and copied_element(node) is not None


def _joined(node: Node, makers: Makers) -> Node | None:
    """Return a node that copies from the earliest value with simple subscripts; None if that joins nothing."""
    if not node.inputs or node.inputs[0] not in makers or not _is_copy(node):
        return None
    axes, indices = copied_element(node) or ((), ())
    ends_with_view = is_view(node)
    ranges: Ranges = {axis: (0, axis.extent - 1) for axis in axes}
    value, best, copies = node.inputs[0], None, 0
    while (before := makers.get(value)) is not None and _is_copy(before):
        inner_axes, inner = copied_element(before) or ((), ())
        places: dict[Var, Expr] = dict(zip(inner_axes, indices, strict=True))
        indices = tuple(simplify(substitute(index, places), ranges) for index in inner)
        (value,) = before.inputs
        copies += not is_view(before)
        shuffles = value.shape == node.outputs[0].shape
        if copies and all(map(_is_simple, indices)) and (shuffles or not ends_with_view):
            best = value, indices
    return None if best is None else _copy(node, best[0], axes, best[1])


def _is_simple(index: Expr) -> bool:
    """Decide if the only divisions of an index are bit shifts."""
    return all(
        isinstance(each.b, Const) and each.b.integer & (each.b.integer - 1) == 0
        for each in walk(index) if isinstance(each, Binary) and each.op in ("floordiv", "floormod")
    )  # fmt: skip


def _copy(node: Node, x: Value, axes: Sequence[IterVar], indices: Sequence[Expr]) -> Node:
    (y,) = node.outputs
    meaning = partial(_copied, y.shape, tuple(axes), tuple(indices))
    made = Node(node.name, "Copy", (x,), (y,), meaning, {"indices": ", ".join(map(str, indices))})
    if is_view(made):
        return reshape_node(node.name, x, y.shape, output=y)
    order = permutation_of(made)
    return made if order is None else transpose_node(node.name, x, order, output=y)


def _copied(shape: tuple[int, ...], axes: Sequence[IterVar], indices: Sequence[Expr], x: Tensor) -> list[Tensor]:
    def element(*at: Expr) -> Expr:
        places: dict[Var, Expr] = dict(zip(axes, at, strict=True))
        return x(*(substitute(index, places) for index in indices))

    return [compute(shape, element, name="Copy")]
