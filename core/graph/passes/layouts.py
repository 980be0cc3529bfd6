"""Channel-last regions: convolutions and the nodes around them over images with the channels as the last axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from pegbox.compute.graph import post_order
from pegbox.compute.permutation import Order, permuted
from pegbox.compute.tensor import ComputeOp, PlaceholderOp, Tensor, body_loads
from pegbox.graph.graph import Computation, Graph, Node, Value
from pegbox.graph.kind import is_pointwise, permutation_of
from pegbox.graph.operations import CHANNEL_LAST, conv_node, reshape_node, transpose_node
from pegbox.graph.rewriting import Rewriting

_LAST = (0, 2, 3, 1)
_FIRST = (0, 3, 1, 2)
_LINES = (0, 2, 1)  # permutation of an image that lacks one axis of its pixels, the same in both directions
_FILTERS = (2, 3, 1, 0)  # permutation of the filters of grouped convolutions, including depthwise ones
_RANK = len(_LAST)
_BARRIERS = frozenset({"MatMul", "Reshape", "Transpose", "Gather"})
"""The kinds that do not become channel-last because their neighbours are."""

_NARROW = 8
"""The number of channels below which transposed convolutions keep them first, since vectors would run along them."""


def layouts(graph: Graph, *, everywhere: bool = False) -> Graph:
    """Compute convolutions of images, and nodes that read their results, with the channels as the last axis.

    Nodes that need the channels as the second axis get transposes before them, and so do the outputs.

    Args:
        everywhere: include nodes that read images not made by a convolution.

    ::

        c = Conv(x, w, layout=NCHW)        x.last = Transpose(x, perm=(0, 2, 3, 1))
        y = Relu(c)                   ->   c.last = Conv(x.last, w, layout=NHWC)
        return y                           y.last = Relu(c.last, layout=NHWC)
                                           y = Transpose(y.last, perm=(0, 3, 1, 2))
                                           return y
    """
    made = _ChannelLast(graph, everywhere)
    for node in graph.nodes:
        made.add(node)
    return made.graph()


class _ChannelLast:
    """A graph under construction, with the channel-last twins of its values."""

    def __init__(self, graph: Graph, everywhere: bool) -> None:
        self._made = Rewriting(graph)
        self._everywhere = everywhere
        self._outputs = graph.outputs
        self._twins: dict[Value, Value] = {}
        self._pending: set[Value] = set()  # values that exist only as twins
        self._filters: dict[Value, Value] = {}

    def graph(self) -> Graph:
        """Make the graph."""
        for value in self._outputs:
            self._first(value)
        return self._made.graph()

    def add(self, node: Node) -> None:
        """Add a node in the layout of its neighbours."""
        if _is_image_convolution(node):
            self._emit(self._convolution(node), node)
        elif self._belongs(node):
            self._emit(self._conjugated(node), node)
        elif not (node.kind in ("Reshape", "Transpose") and self._moved(node)):
            for value in node.inputs:
                self._first(value)
            self._made.add(node)

    def _emit(self, made: Node, node: Node) -> None:
        self._made.add(made)
        for old, new in zip(node.outputs, made.outputs, strict=True):
            if _is_image(old):
                self._twins[old] = new
                self._pending.add(old)
            elif new is not old:
                self._made.add(_transposed(old, new, _LINES))

    def _belongs(self, node: Node) -> bool:
        """Decide if at least half of a node's inputs are channel-last."""
        images = [value for value in node.inputs if _is_image(value) and value not in self._made.constants]
        ready = [value for value in images if value in self._pending]
        enough = 2 * _elements(ready) >= _elements(images) if ready else self._everywhere and bool(images)
        is_narrow = node.kind == "ConvTranspose" and node.outputs[0].shape[1] < _NARROW
        if node.kind in _BARRIERS or is_narrow or not enough:
            return False
        ops = post_order([tensor.op for tensor in node.computation.outputs])
        return all(type(op) in (ComputeOp, PlaceholderOp) for op in ops)

    def _convolution(self, node: Node) -> Node:
        x, w = node.inputs
        self._first(w)
        numbers: Mapping[str, Any] = {**node.attributes, "layout": CHANNEL_LAST}
        name, output = f"{node.name}.last", _twin(node.outputs[0])
        made = conv_node(name, self._last(x), w, **numbers, output=output)
        if node.attributes["group"] == 1 or w not in self._made.constants:
            return made
        # Vectors run along the channels, which form one axis with those of the image.
        if w not in self._filters:
            array = self._made.constants[w].transpose(_FILTERS)
            self._filters[w] = self._made.constant(f"{w.name}.last", array)
        compute = _Permuted(made.computation, ((1, _FILTERS),), ())
        inputs, attributes = (made.inputs[0], self._filters[w]), {**made.attributes, "weights": "HWIO"}
        return replace(made, inputs=inputs, compute=compute, attributes=attributes)

    def _conjugated(self, node: Node) -> Node:
        # Operands of lower rank are broadcast to images; those of higher rank keep their layout.
        low = is_pointwise(node)
        moved = [_is_image(value) or (low and 0 < len(value.shape) < _RANK) for value in node.inputs]
        orders = tuple((place, _order(value)) for place, value in enumerate(node.inputs) if moved[place])
        inputs = tuple(self._last(value) if last else value for value, last in zip(node.inputs, moved, strict=True))
        lines = _are_lines(node)
        outputs = tuple(_twin(value) if lines or _is_image(value) else value for value in node.outputs)
        attributes = {**node.attributes, "layout": CHANNEL_LAST}
        compute = _Permuted(node.computation, orders, ((_RANK, _LAST), *([(_RANK - 1, _LINES)] if lines else [])))
        return replace(
            node, name=f"{node.name}.last", inputs=inputs, outputs=outputs, compute=compute, attributes=attributes
        )

    def _moved(self, node: Node) -> bool:
        """Add a node that moves elements of a channel-last value; let it read the twin if that is simpler."""
        (x,), (y,) = node.inputs, node.outputs
        order = permutation_of(node) if node.kind == "Transpose" else None
        if x not in self._pending:
            return False
        if order is not None and len(order) == _RANK:
            self._made.add(_transposed(y, self._twins[x], [_FIRST[axis] for axis in order]))
            return True
        if node.kind == "Reshape" and _is_view(x, _LAST):
            self._made.add(reshape_node(node.name, self._twins[x], y.shape, output=y))
            return True
        return False

    def _last(self, value: Value) -> Value:
        """Return the channel-last twin of a value, with new leading axes if it has too few."""
        if value not in self._twins:
            shape = (*[1] * (_RANK - len(value.shape)), *value.shape)
            if value in self._made.constants:
                array = self._made.constants[value].reshape(shape).transpose(_LAST)
                self._twins[value] = self._made.constant(f"{value.name}.last", array)
            elif not _is_image(value):
                lifted = reshape_node(f"{value.name}.image", value, shape)
                self._made.add(lifted)
                self._twins[value] = self._last(lifted.outputs[0])
            else:
                self._twins[value] = _twin(value)
                self._made.add(_transposed(self._twins[value], value, _LAST))
        return self._twins[value]

    def _first(self, value: Value) -> None:
        """Add the transpose that makes a value from its twin, unless it exists."""
        if value in self._pending:
            self._pending.remove(value)
            self._made.add(_transposed(value, self._twins[value], _FIRST))


@dataclass(frozen=True)
class _Permuted:
    """A computation over tensors with permuted axes.

    Attributes:
        computation: the tensors in their own order.
        inputs: the places of the permuted inputs, each with its order of axes.
        orders: the orders of axes of computed tensors, by the number of axes.
    """

    computation: Computation
    inputs: tuple[tuple[int, Order], ...]
    orders: tuple[tuple[int, Order], ...]

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        replaced = {
            old: (new, dict(self.inputs).get(place, tuple(range(old.ndim))))
            for place, (old, new) in enumerate(zip(self.computation.inputs, tensors, strict=True))
        }
        return permuted(self.computation.outputs, replaced, dict(self.orders))


def _is_image(value: Value) -> bool:
    return len(value.shape) == _RANK


def _are_lines(node: Node) -> bool:
    """Decide if a node reduces one axis of pixels, so that its output has channels before the other axis."""
    rank = _RANK - 1
    if any(len(value.shape) != rank for value in node.outputs):
        return False
    ops = [op for op in post_order([t.op for t in node.computation.outputs]) if isinstance(op, ComputeOp)]
    reads = [(op.axis[1:2], load) for op in ops for load in body_loads(op.body) if len(load.indices) >= rank]
    return all(own and load.indices[1] is own[0] for own, load in reads)


def _is_image_convolution(node: Node) -> bool:
    return node.kind == "Conv" and node.attributes.get("layout") == "NCHW" and _is_image(node.inputs[0])


def _elements(values: Sequence[Value]) -> int:
    return sum(prod(value.shape) for value in values)


def _twin(value: Value) -> Value:
    order = _LAST if _is_image(value) else _LINES
    return Value(f"{value.name}.last", tuple(value.shape[axis] for axis in order), value.dtype)


def _order(value: Value) -> Order:
    """Return the order of the axes of a value in its channel-last twin."""
    new = _RANK - len(value.shape)
    return tuple(axis - new if axis >= new else None for axis in _LAST)


def _is_view(value: Value, order: Sequence[int]) -> bool:
    """Decide if permuting the axes leaves the elements in place: all moved axes but one have extent one."""
    long = [axis for axis in order if value.shape[axis] > 1]
    return long == sorted(long)


def _transposed(output: Value, value: Value, order: Sequence[int]) -> Node:
    """Make the node that permutes axes, a view if possible."""
    if _is_view(value, order):
        return reshape_node(output.name, value, output.shape, output=output)
    return transpose_node(output.name, value, order, output=output)
