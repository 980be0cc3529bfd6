"""The pass that joins products around a softmax into one attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod

import numpy as np

from pegbox.compute.head_layout import PARTS, AttentionSizes, HeadLayout
from pegbox.compute.movement import flat_index
from pegbox.compute.plain_attention import HIGHEST_SCORE
from pegbox.expr.bounds import Ranges
from pegbox.expr.nodes import Binary, Const, Expr, Var
from pegbox.expr.simplify import simplified_linear, simplify
from pegbox.expr.visit import substitute
from pegbox.graph.graph import Array, Graph, Node, Value
from pegbox.graph.kind import copied_element, is_view
from pegbox.graph.operations import attention_node, reshape_node, transpose_node
from pegbox.graph.passes.nan_guards import nan_guards
from pegbox.graph.passes.score_masks import HIDDEN, score_masks
from pegbox.graph.passes.scores import is_product, scaled_by, scores_of
from pegbox.graph.rewriting import Rewriting

_USUAL = ("BHND", "BNHD", "BN3HD")
_ANY = ("".join(order) + "D" for axes in ("BHN", "BHN3") for order in permutations(axes))
LAYOUTS = tuple(map(HeadLayout, dict.fromkeys((*_USUAL, *_ANY))))
"""The layouts to try for arrays; among equals, the first is taken."""
_PLAIN = tuple(layout for layout in LAYOUTS if not layout.is_joined)


def attention(graph: Graph) -> Graph:
    """Join a product, a softmax of its rows, the product with that, and the scales and masks of the scores.

    ::

        q = Transpose(x, perm=(0, 2, 1, 3))          o.heads = Attention(x, y, z, layout=BNHD, scale=0.125)
        k = Transpose(y, perm=(0, 2, 3, 1))    ->    o = Transpose(o.heads, perm=(0, 2, 1, 3))
        v = Transpose(z, perm=(0, 2, 1, 3))          return o
        s = MatMul(q, k)
        n = Mul(s, eighth)
        p = Softmax(n, axis=-1)
        o = MatMul(p, v)
        return o

    Queries, keys and values are read from the earliest array that has them in an order of batch, heads, rows and
    elements; the output has that order, too. Keys and values that are repeated for groups of heads are read before the
    repetition. A constant mask that hides the keys after each query is `causal`; any other summand is the bias. Scores
    and weights must have no other reader.
    """
    graph = nan_guards(score_masks(graph))
    found = {match.last: match for node in graph.nodes if (match := _match(graph, node)) is not None}
    made = Rewriting(graph)
    for node in graph.nodes:
        made.add(*(found[node].nodes() if node in found else (node,)))
    return made.graph()


@dataclass(frozen=True)
class _Place:
    """An array from which the rows of an operand can be read.

    Attributes:
        value: the array.
        steps: for each axis of the operand (batch, heads, rows, elements of a head), the distance of its elements; for
            heads, that of groups.
        group: the number of consecutive heads that share a part of the array.
        start: the place of the first.
        scale: the factor of the elements.
        copies: the following nodes that need not run.
    """

    value: Value
    steps: tuple[int, ...]
    group: int
    start: int
    scale: float
    copies: int


@dataclass(frozen=True)
class _Operand:
    """An array of queries, keys or values, and its layout, from which it is permuted if that differs."""

    value: Value
    layout: HeadLayout

    def nodes(self, name: str, shape: tuple[int, ...], layout: HeadLayout) -> Iterator[Node]:
        """Yield the nodes, at least one, that bring the array into the wanted shape and layout."""
        order = tuple(self.layout.axes.index(axis) for axis in layout.axes)
        own = dict(zip(layout.axes, shape, strict=True))
        view = reshape_node(name, self.value, [own[axis] for axis in self.layout.axes])
        yield view
        if self.layout != layout:
            yield transpose_node(f"{name}.turned", view.outputs[0], order)


@dataclass(frozen=True)
class _Match:
    """An attention in a graph.

    Attributes:
        last: the product that makes its output.
        sizes, layout, scale, causal: as for `attention_node`.
        operands: its arrays.
        bias: the summand of the scores.
    """

    last: Node
    sizes: AttentionSizes
    layout: HeadLayout
    operands: tuple[_Operand, ...]
    scale: float
    causal: bool
    bias: Value | None

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes that replace the last one."""
        name, (out,) = self.last.name, self.last.outputs
        inputs = []
        for number, (operand, shape) in enumerate(zip(self.operands, self.layout.shapes(self.sizes), strict=True)):
            nodes = list(operand.nodes(f"{name}.input{number}", shape, self.layout))
            yield from nodes
            inputs.append(nodes[-1].outputs[0])
        bias = None
        if self.bias is not None:
            view = reshape_node(f"{name}.bias", self.bias, (1,) * (4 - len(self.bias.shape)) + self.bias.shape)
            yield view
            (bias,) = view.outputs
        made = attention_node(
            f"{name}.heads", inputs, bias, layout=self.layout.axes, scale=self.scale, causal=self.causal
        )
        yield made
        order = tuple(self.layout.of_output.axes.index(axis) for axis in "BHND")
        turned = transpose_node(f"{name}.turned", made.outputs[0], order)
        yield turned
        yield reshape_node(name, turned.outputs[0], out.shape, output=out)


def _match(graph: Graph, node: Node) -> _Match | None:
    """Find the attention around a softmax."""
    if node.kind != "Softmax" or len(node.inputs) != 1:
        return None
    (x,), (weights,) = node.inputs, node.outputs
    rank = len(x.shape)
    last = graph.sole_consumer(weights)
    if last is None or not is_product(last) or last.inputs[0] is not weights or x.dtype not in HIGHEST_SCORE:
        return None
    scores = scores_of(graph, x) if node.attributes.get("axis") in (-1, rank - 1) and rank in (3, 4) else None
    if scores is None:
        return None
    q, k, v = *scores.product.inputs, last.inputs[1]
    stack = x.shape[:-2]
    if any(value.shape[:-2] != stack for value in (q, k, v)):
        return None
    batch, heads = (1, *stack)[-2:]
    places = [list(_places(graph, value, turned=value is k)) for value in (q, k, v)]
    found = []
    for kv_heads in dict.fromkeys((heads, *(_heads(place, heads) for place in places[1]))):
        sizes = AttentionSizes(batch, heads, x.shape[-2], x.shape[-1], q.shape[-1], kv_heads, v.shape[-1])
        found += [(layout, sizes, *_operands(layout, sizes, places)) for layout in LAYOUTS]
    layout, sizes, operands, scale, copies = max(found, key=lambda each: each[-1])
    if copies < 0:
        return None
    bias, causal = scores.bias, False
    if bias is not None:
        if bias.shape[-1:] != x.shape[-1:]:
            return None
        causal = bias in graph.constants and _is_causal(graph.constants[bias], *x.shape[-2:])
    return _Match(last, sizes, layout, operands, scale * scores.scale, causal, None if causal else bias)


def _is_causal(mask: Array, n_q: int, n_k: int) -> bool:
    """Decide if a mask hides the later keys from each query, such that the last query sees all."""
    if prod(mask.shape[:-2]) != 1 or mask.shape[-2:] != (n_q, n_k) or not 1 < n_q <= n_k:
        return False
    seen = np.arange(n_k) <= np.arange(n_q)[:, None] + (n_k - n_q)
    rows = mask.reshape(n_q, n_k)
    return bool((rows[seen] == 0).all() and (rows[~seen] < HIDDEN).all())


def _places(graph: Graph, operand: Value, *, turned: bool) -> Iterator[_Place]:
    """Yield the arrays from which an operand is copied, beginning with the operand.

    Args:
        turned: True if the last two axes of the operand are its elements and its rows.
    """
    axes = [Var(name, "int64") for name in "bhnc"]
    batch, heads, row, element = axes
    at = [batch, heads, *((element, row) if turned else (row, element))][4 - len(operand.shape) :]
    extents = {axis: (0, extent - 1) for axis, extent in zip(at, operand.shape, strict=True)}
    ranges: Ranges = {batch: (0, 0)} | extents
    value, indices, scale, copies = operand, tuple[Expr, ...](at), 1.0, 0
    while True:
        form = simplified_linear(flat_index(value.shape, indices), ranges)
        shared = list(set(form.terms) - set(axes))
        group = _group(shared[0], heads) if len(shared) == 1 and heads not in form.terms else 0
        if not shared or group:
            of_axes = [batch, shared[0] if group else heads, row, element]
            yield _Place(value, tuple(map(form.coefficient, of_axes)), max(group, 1), form.const, scale, copies)
        node = graph.producers.get(value)
        if node is None or len(node.outputs) > 1:
            return
        copied = copied_element(node) if len(node.inputs) == 1 and node.inputs[0].dtype == value.dtype else None
        if copied is not None:
            places: dict[Var, Expr] = dict(zip(copied[0], indices, strict=True))
            indices = tuple(simplify(substitute(index, places), ranges) for index in copied[1])
            copies += not is_view(node)
            (value,) = node.inputs
        elif (scaled := scaled_by(node, graph.constants)) is not None:
            value, scale, copies = scaled[0], scale * scaled[1], copies + 1
        else:
            return


def _group(term: Expr, heads: Var) -> int:
    """Return g for the term `heads // g`, else 0."""
    if isinstance(term, Binary) and term.op == "floordiv" and term.a is heads and isinstance(term.b, Const):
        return int(term.b.value)
    return 0


def _heads(place: _Place, heads: int) -> int:
    """Return the number of heads in the array, given that of the operand."""
    return 1 if not place.steps[1] else heads // place.group


def _operands(
    layout: HeadLayout, sizes: AttentionSizes, places: Sequence[Sequence[_Place]]
) -> tuple[tuple[_Operand, ...], float, int]:
    """Return the arrays of the operands for a layout, the scale, and the number of nodes that need not run.

    If the operands do not have the layout, there are no arrays, and the number is -1.

    Keys and values that groups of heads share may have another layout, because permuting them costs less than repeating
    them.
    """
    none = (), 1.0, -1
    of = sizes
    if layout.is_joined and (of.n_q, of.d, of.heads) != (of.n_k, of.d_v, of.kv_heads):
        return none
    chosen: list[tuple[_Operand, float, int]] = []
    keys = ((of.batch, of.kv_heads, of.n_k, width) for width in (of.d, of.d_v))
    extents = ((of.batch, of.heads, of.n_q, of.d), *keys)
    for part, (own, found) in enumerate(zip(extents, places, strict=True)):
        sources = [layout] if own[1] == of.heads else [*_PLAIN, layout]
        fitting = [
            (place.copies - (source != layout), source == layout, number, place, source)
            for source in sources
            for number, place in enumerate(found)
            if (part < 2 or place.scale == 1) and _fits(place, of.heads, source, own, part)
        ]
        if not fitting:
            return none
        copies, *_, place, source = max(fitting, key=lambda each: each[:3])
        chosen.append((_Operand(place.value, source), place.scale, copies))
    operands, scales, copied = zip(*chosen, strict=True)
    if layout.is_joined and len(set(operands)) > 1:
        return none
    return operands[:1] if layout.is_joined else operands, prod(scales), sum(copied)


def _fits(place: _Place, heads: int, layout: HeadLayout, own: tuple[int, int, int, int], part: int) -> bool:
    """Decide if an array has a part with these extents in a layout."""
    steps, start = _expected(layout, own, part)
    has_size = (place.start, prod(place.value.shape)) == (start, prod(layout.shape(*own)))
    is_alike = all(a == b or extent == 1 for a, b, extent in zip(place.steps, steps, own, strict=True))
    return has_size and is_alike and _heads(place, heads) == own[1]


def _expected(layout: HeadLayout, own: tuple[int, int, int, int], part: int) -> tuple[tuple[int, ...], int]:
    """Return the distances of elements along each axis in a layout, and the place of the first of a part."""
    shape = layout.shape(*own)
    strides = {axis: prod(shape[place + 1 :]) for place, axis in enumerate(layout.axes)}
    return tuple(strides[axis] for axis in "BHND"), part * strides.get(PARTS, 0)
