"""The pass that moves guards against NaN away from the weights of an attention."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pegbox.compute.ops import compute, max, reduce_axis
from pegbox.compute.tensor import Tensor
from pegbox.expr.build import const, select
from pegbox.expr.equal import same
from pegbox.expr.math import isnan
from pegbox.expr.nodes import Expr, Var
from pegbox.graph.graph import Graph, Node, Value
from pegbox.graph.kind import is_pointwise, permutation_of, pointwise_values
from pegbox.graph.meaning import bound
from pegbox.graph.operations import make_node, pointwise_node
from pegbox.graph.passes.common_nodes import common_nodes
from pegbox.graph.passes.constant_folding import constant_folding
from pegbox.graph.passes.dead_nodes import dead_nodes
from pegbox.graph.passes.scores import is_product, scores_of
from pegbox.graph.rewriting import Rewriting


def nan_guards(graph: Graph) -> Graph:
    """Move a guard against NaN from the weights of an attention, where PyTorch puts it, to the output.

    ::

        s = Add(x, bias)                       s = Add(x, bias)
        p = Softmax(s, axis=-1)                p = Softmax(s, axis=-1)
        n = IsNaN(p)                     ->    o.sums = MatMul(p, v)
        g = Where(n, zero, p)                  o.seen = AnySeen(bias)
        o = MatMul(g, v)                       o = Where(o.seen, o.sums)
        return o                               return o

    The weights of a query are NaN if its bias hides all keys. If a constant bias never hides all keys of a query, no
    guard is left. NaNs of infinite scores stay NaNs.
    """
    guards = {node: guard for node in graph.nodes if (guard := _guard(graph, node)) is not None}
    if not guards:
        return graph
    lasts = {guard.last: guard for guard in guards.values()}
    made = Rewriting(graph)
    for node in graph.nodes:
        product = node.over((guards[node].weights, node.inputs[1]), node.outputs) if node in guards else node
        made.add(*(lasts[node].nodes(product) if node in lasts else [product]))
    return common_nodes(constant_folding(dead_nodes(made.graph())))


@dataclass(frozen=True)
class _Guard:
    """A guard of weights.

    Attributes:
        weights: the guarded weights.
        last: the product with the weights, or the transposition of that.
        perm: the order of its axes.
        bias: the summand of the scores that may hide all keys of a query, or None.
    """

    weights: Value
    last: Node
    perm: tuple[int, ...]
    bias: Value | None

    def nodes(self, last: Node) -> Iterator[Node]:
        """Yield the last node, and the nodes that make zeros for queries whose bias hides all keys."""
        if self.bias is None:
            yield last
            return
        (out,) = last.outputs
        sums = Value(f"{out.name}.sums", out.shape, out.dtype)
        yield replace(last, name=f"{last.name}.sums", outputs=(sums,))
        seen = make_node(f"{last.name}.seen", "AnySeen", [self.bias], bound(_any_seen, self.perm))
        yield seen
        yield pointwise_node(last.name, "Where", _zero_unless, [*seen.outputs, sums], output=out)


def _guard(graph: Graph, node: Node) -> _Guard | None:
    """Find the guard of the weights that a node multiplies."""
    weights = _guarded(graph, node.inputs[0]) if is_product(node) else None
    scores = None if weights is None else scores_of(graph, graph.producers[weights].inputs[0])
    if weights is None or scores is None:
        return None
    array = None if scores.bias is None else graph.constants.get(scores.bias)
    is_needed = array is None or (np.max(array, axis=-1) == -math.inf).any()
    turned = graph.sole_consumer(node.outputs[0])
    perm = None if turned is None else permutation_of(turned)
    last, order = (node, tuple(range(len(weights.shape)))) if turned is None or perm is None else (turned, perm)
    bias = scores.bias if is_needed else None
    return None if bias is not None and not bias.shape else _Guard(weights, last, order, bias)


def _guarded(graph: Graph, value: Value) -> Value | None:
    """Find the softmax weights in which a value replaces NaN by zeros."""
    choice = graph.producers.get(value)
    if choice is None or not is_pointwise(choice) or len(choice.outputs) != 1 or graph.sole_consumer(value) is None:
        return None
    weights = next((each for each in choice.inputs if _is_softmax(graph, each) and each.shape == value.shape), None)
    if weights is None or weights in graph.outputs:
        return None
    weight = Var("weight", weights.dtype)
    elements = [element for each in choice.inputs if (element := _element(graph, each, weights, weight)) is not None]
    if len(elements) < len(choice.inputs):
        return None
    (chosen,) = pointwise_values(choice, elements)
    return weights if same(chosen, select(isnan(weight), const(0, weight.dtype), weight)) else None


def _is_softmax(graph: Graph, value: Value) -> bool:
    node = graph.producers.get(value)
    return node is not None and node.kind == "Softmax" and len(node.inputs) == 1


def _element(graph: Graph, value: Value, weights: Value, weight: Var) -> Expr | None:
    """Return an element of a value as an expression of a weight; None if it depends on anything else."""
    if value is weights:
        return weight
    array, node = graph.constants.get(value), graph.producers.get(value)
    if array is not None:
        return const(array.item(), value.dtype) if array.size == 1 else None
    if node is None or node.inputs != (weights,) or not is_pointwise(node) or len(node.outputs) != 1:
        return None
    return pointwise_values(node, [weight])[0]


def _any_seen(perm: Sequence[int], bias: Tensor) -> list[Tensor]:
    """Compute, for each query, whether its bias shows it any key.

    Args:
        perm: the order of the scores' axes in the output, where the axis of the keys has one element.
        bias: the bias of the scores, broadcast.
    """
    key = reduce_axis((0, bias.shape[-1]), name="key")
    missing = len(perm) - bias.ndim
    top = compute(bias.shape[:-1], lambda *at: max(bias(*at, key), axis=key), name="top")
    extents = (*[1] * missing, *top.shape, 1)
    lowest = const(-math.inf, bias.dtype)

    def element(*at: Expr) -> Expr:
        rows = [at[perm.index(axis)] for axis in range(missing, len(perm) - 1)]
        return top(*rows) > lowest

    return [compute([extents[axis] for axis in perm], element, name="AnySeen")]


def _zero_unless(is_seen: Expr, x: Expr) -> Expr:
    return select(is_seen, x, const(0, x.dtype))
