"""The pass that turns the masks of scores into summands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pegbox.compute.ops import compute as computed
from pegbox.compute.plain_attention import HIGHEST_SCORE
from pegbox.compute.tensor import Tensor
from pegbox.expr.build import const
from pegbox.expr.nodes import Const, Expr, Select, Var
from pegbox.expr.visit import walk
from pegbox.graph.affine import affine_of
from pegbox.graph.graph import Array, Graph, Node, Value
from pegbox.graph.kind import is_pointwise, is_view, pointwise_values
from pegbox.graph.meaning import bound
from pegbox.graph.operations import make_node, pointwise_node
from pegbox.graph.passes.common_nodes import common_nodes
from pegbox.graph.passes.constant_folding import constant_folding
from pegbox.graph.passes.dead_nodes import dead_nodes
from pegbox.graph.rewriting import Rewriting

HIDDEN = -1e30
"""The score, or summand of a score, below which a key counts as hidden from a query."""


def score_masks(graph: Graph) -> Graph:
    """Turn the masks of the scores before a softmax into summands, and add up constant summands.

    ::

        h = Where(m, s, low)        h.mask = Where(m, 0, low)
        p = Softmax(h, axis=-1)  -> h = Add(s, h.mask)
                                    p = Softmax(h, axis=-1)

    A constant added to the scores in another shape, as to the windows of Swin's attention, is a summand, too.
    """
    made = Rewriting(graph)
    scores = {node.inputs[0] for node in graph.nodes if node.kind == "Softmax" and len(node.inputs) == 1}
    is_changed = False
    for node in graph.nodes:
        own = node.outputs[0] if len(node.outputs) == 1 and node.outputs[0] in scores else None
        nodes = None if own is None else _masked(graph, node) or _summed(graph, made, own)
        is_changed |= nodes is not None
        made.add(*(nodes or (node,)))
    return common_nodes(constant_folding(dead_nodes(made.graph()))) if is_changed else graph


def _masked(graph: Graph, node: Node) -> Sequence[Node] | None:
    """Write a choice between the scores and a very low number as a sum of the scores and a mask."""
    (out,) = node.outputs
    if graph.sole_consumer(out) is None or out.dtype not in HIGHEST_SCORE or not is_pointwise(node):
        return None
    elements = [Var(f"p{place}", value.dtype) for place, value in enumerate(node.inputs)]
    (chosen,) = pointwise_values(node, elements)
    if not isinstance(chosen, Select):
        return None
    for data, other in ((chosen.a, chosen.b), (chosen.b, chosen.a)):
        place = next((place for place, element in enumerate(elements) if element is data), None)
        if place is None or node.inputs[place].shape != out.shape or data in walk(chosen.cond):
            continue
        low = _number(other, elements, node.inputs, graph)
        if low is not None and low < HIDDEN:
            x = node.inputs[place]
            others = [value for value in node.inputs if value is not x]
            compute = bound(_without, node.compute, place, x.dtype)
            mask = make_node(f"{node.name}.mask", node.kind, others, compute)
            return mask, pointwise_node(node.name, "Add", _plus, [x, mask.outputs[0]], output=out)
    return None


def _number(expr: Expr, elements: Sequence[Var], inputs: Sequence[Value], graph: Graph) -> float | None:
    """Return the value of a constant expression; None for any other."""
    if isinstance(expr, Const):
        return float(expr.value)
    array = next(
        (graph.constants.get(value) for value, each in zip(inputs, elements, strict=True) if each is expr), None
    )
    return float(array.item()) if array is not None and array.size == 1 else None


def _without(compute: Callable[..., Sequence[Tensor]], place: int, dtype: str, *tensors: Tensor) -> Sequence[Tensor]:
    """Compute a node with zeros in place of one of its inputs."""
    zero = computed((1,), lambda _: const(0, dtype), name="zero")
    return compute(*tensors[:place], zero, *tensors[place:])


def _plus(a: Expr, b: Expr) -> Expr:
    return a + b


def _summed(graph: Graph, made: Rewriting, out: Value) -> Sequence[Node] | None:
    """Add up the constant summands of scores, if there are several or they have another shape."""
    x, total, steps, turned = out, np.zeros((), out.dtype), 0, False
    while (found := _summand(graph, x)) is not None:
        x, array, is_viewed = found
        total, steps, turned = total + array, steps + 1, turned or is_viewed
    if steps < 2 and not turned:
        return None
    name = graph.producers[out].name
    constant = made.constant(f"{name}.sum", np.asarray(total, out.dtype))
    return [pointwise_node(name, "Add", _plus, [x, constant], output=out)]


def _summand(graph: Graph, out: Value) -> tuple[Value, Array, bool] | None:
    """Find a constant summand of scores: the scores without it, the constant, and True if it is between two views."""
    node = graph.producers.get(out)
    if node is None or graph.sole_consumer(out) is None:
        return None
    if not is_view(node):
        found = affine_of(node, graph.constants)
        if found is None or found.scale is not None or found.shift is None:
            return None
        return found.x, found.shift, False
    (inner,) = node.inputs
    within = _summand(graph, inner)
    first = graph.producers.get(within[0]) if within is not None and not within[2] else None
    if within is None or first is None or not is_view(first) or graph.sole_consumer(within[0]) is None:
        return None
    x = first.inputs[0]
    return (x, np.broadcast_to(within[1], inner.shape).reshape(out.shape), True) if x.shape == out.shape else None
