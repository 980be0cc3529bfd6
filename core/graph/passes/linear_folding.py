"""The pass that folds constant scales and shifts around convolutions and products into the weights."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from pegbox.expr.dtypes import EXPONENTS, is_float
from pegbox.graph.affine import Affine, affine_of
from pegbox.graph.graph import Array, Graph, Node, Value
from pegbox.graph.operations import CHANNEL_LAST, pointwise_node
from pegbox.graph.rewriting import Rewriting


def linear_folding(graph: Graph) -> Graph:
    """Multiply weights by the scales around a `Conv` or `MatMul`, and join scales and shifts that follow each other.

    ::

        c = Conv(x, w)           n.sums = Conv(x, n.weights)
        b = Add(c, bias)         n = Add(n.sums, n.shift)
        m = Mul(b, scale)   ->   return n
        n = Add(m, shift)
        return n

    Intermediate values must have no other reader. A convolution's border of zeros is not shifted, so a shift before a
    padded convolution remains.
    """
    folding = _Folding(graph)
    for node in graph.nodes:
        if folding.is_linear(node):
            folding.fold(node)
    for node in graph.nodes:
        if node not in folding.joined:
            folding.join(node)
    made = folding.made
    for node in graph.nodes:
        made.add(*folding.replaced.get(node, () if node in folding.joined else (node,)))
    return made.graph()


@dataclass(frozen=True)
class _Step:
    """A node that computes an affine function, in a chain."""

    node: Node
    function: Affine


class _Folding:
    """The state of the pass.

    Attributes:
        made: the graph under construction.
        joined: nodes that are now parts of others.
        replaced: the nodes that replace one.
    """

    def __init__(self, graph: Graph) -> None:
        self.made = Rewriting(graph)
        self.joined: set[Node] = set()
        self.replaced: dict[Node, list[Node]] = {}
        self._graph = graph

    def is_linear(self, node: Node) -> bool:
        """Decide if a node multiplies a value by constant weights with a known layout."""
        if node.kind not in ("Conv", "MatMul") or len(node.inputs) != 2 or not is_float(node.outputs[0].dtype):
            return False
        x, w = node.inputs
        weights = w in self._graph.constants and x not in self._graph.constants
        return weights and ("layout" in node.attributes if node.kind == "Conv" else len(w.shape) == 2)

    def fold(self, node: Node) -> None:
        """Join a linear node with the scales before and after it."""
        weights = _Weights(node, self._graph.constants[node.inputs[1]])
        before = list(weights.taken_before(self._before(node)))
        after = list(weights.taken_after(self._after(node.outputs[0])))
        if sum(step.function.scale is not None for step in (*before, *after)) == 0 and len(before) + len(after) < 2:
            return
        with np.errstate(all="ignore"):
            array, shift = weights.folded(
                [step.function for step in reversed(before)], [step.function for step in after]
            )
        if not _is_as_precise(array, weights.array, (*before, *after)):
            return
        if not _is_worth(shift, after, prod(array.shape)):
            return
        last = after[-1].node if after else node
        (y,) = last.outputs
        x = before[-1].function.x if before else node.inputs[0]
        w = self.made.constant(f"{last.name}.weights", array)
        self.joined.update(step.node for step in (*before, *after))
        if shift is None:
            self.replaced[node] = [node.over((x, w), (y,))]
            return
        sums = Value(f"{y.name}.sums", y.shape, y.dtype)
        added = self.made.constant(f"{last.name}.shift", shift)
        self.replaced[node] = [
            node.over((x, w), (sums,)), pointwise_node(last.name, "Add", operator.add, (sums, added), output=y)
        ]  # fmt: skip

    def join(self, node: Node) -> None:
        """Join an affine node with those after it, as long as no product of scales overflows or vanishes."""
        steps, whole = list[_Step](), None
        for step in self._after_and(node):
            longer = step.function if whole is None else whole.then(step.function)
            if not longer.is_moderate:
                break
            steps.append(step)
            whole = longer
        if whole is None or len(steps) < 2:
            return
        arrays = [array for array in (whole.scale, whole.shift) if array is not None]
        parts = [array for step in steps for array in (step.function.scale, step.function.shift) if array is not None]
        if len(arrays) >= len(steps) or sum(each.size for each in arrays) > sum(each.size for each in parts):
            return
        self.joined.update(step.node for step in steps)
        self.replaced[node] = list(self._written(steps[-1].node, whole))

    def _written(self, last: Node, function: Affine) -> Iterator[Node]:
        """Yield the nodes of an affine function that replace a chain ending with a node."""
        x, (y,) = function.x, last.outputs
        if function.scale is not None:
            scale = self.made.constant(f"{last.name}.scale", function.scale)
            made = y if function.shift is None else Value(f"{y.name}.scaled", y.shape, y.dtype)
            yield pointwise_node(f"{last.name}.scaled", "Mul", operator.mul, (x, scale), output=made)
            x = made
        if function.shift is not None:
            shift = self.made.constant(f"{last.name}.shift", function.shift)
            yield pointwise_node(last.name, "Add", operator.add, (x, shift), output=y)

    def _after_and(self, node: Node) -> Iterator[_Step]:
        step = self._step(node)
        if step is not None:
            yield step
            yield from self._after(node.outputs[0])

    def _after(self, value: Value) -> Iterator[_Step]:
        """Yield the affine nodes after a value, each the only reader of the one before it."""
        while (node := self._graph.sole_consumer(value)) is not None and (step := self._step(node)) is not None:
            yield step
            (value,) = node.outputs

    def _before(self, node: Node) -> Iterator[_Step]:
        """Yield the affine nodes before a node, nearest first."""
        value = node.inputs[0]
        while self._graph.sole_consumer(value) is not None and value in self._graph.producers:
            step = self._step(self._graph.producers[value])
            if step is None:
                return
            yield step
            value = step.function.x

    def _step(self, node: Node) -> _Step | None:
        if node in self.joined:
            return None
        function = affine_of(node, self._graph.constants)
        return None if function is None or not function.is_moderate else _Step(node, function)


def _is_as_precise(array: Array, old: Array, steps: Sequence[_Step]) -> bool:
    """Decide if scaled weights are finite, and not so tiny that all lose digits, unless a scale is zero."""
    normal = 2.0 ** EXPONENTS[str(old.dtype)][0]
    lost = np.abs(array).max(initial=0) < normal <= np.abs(old).max(initial=0)
    has_zero = any(step.function.scale is not None and not step.function.scale.all() for step in steps)
    return bool(np.isfinite(array).all() and (has_zero or not lost))


def _is_worth(shift: Array | None, steps: Sequence[_Step], channels: int) -> bool:
    """Decide if a joined shift is finite, and not larger than its parts."""
    if shift is None:
        return True
    parts = sum(step.function.shift.size for step in steps if step.function.shift is not None)
    return bool(np.isfinite(shift).all()) and shift.size <= max(parts, channels)


class _Weights:
    """The weights of a linear node, and the axes of its channels."""

    def __init__(self, node: Node, array: Array) -> None:
        self.array = array
        self.x, self.y = node.inputs[0].shape, node.outputs[0].shape
        self.is_conv = node.kind == "Conv"
        last = not self.is_conv or node.attributes["layout"] == CHANNEL_LAST
        self.axis = -1 if last else 1
        pads: Any = node.attributes.get("pads", ())
        self.is_padded = any(pads)
        groups: Any = node.attributes.get("group", 1)
        self.groups = int(groups)

    def taken_before(self, steps: Iterator[_Step]) -> Iterator[_Step]:
        """Yield the steps before it, nearest first, as long as they commute with the linear function."""
        for step in steps:
            shift = step.function.shift
            if not self._is_per_channel(step.function.scale, self.x):
                return
            if shift is not None and (self.is_padded or not self._is_per_channel(shift, self.x)):
                return
            yield step

    def taken_after(self, steps: Iterator[_Step]) -> Iterator[_Step]:
        """Yield the steps after it, as long as their scales are per channel."""
        for step in steps:
            if not self._is_per_channel(step.function.scale, self.y):
                return
            yield step

    def folded(self, before: Sequence[Affine], after: Sequence[Affine]) -> tuple[Array, Array | None]:
        """Return the new weights, and the summand of the result."""
        front, back = (reduce(Affine.then, steps) if steps else None for steps in (before, after))
        array, shift = self.array, None
        if front is not None and front.shift is not None:
            shift = self._applied_to(self._vector(front.shift, self.x))
        if front is not None and front.scale is not None:
            array = array * self._of_inputs(self._vector(front.scale, self.x))
        if back is not None and back.scale is not None:
            array = array * self._of_outputs(self._vector(back.scale, self.y))
            shift = None if shift is None else shift * back.scale
        if back is not None and back.shift is not None:
            shift = back.shift if shift is None else shift + back.shift
        return array, shift

    def _is_per_channel(self, array: Array | None, shape: Sequence[int]) -> bool:
        """Decide if an array has one number, or one for each channel of values of a shape."""
        if array is None:
            return True
        extents = [1] * (len(shape) - array.ndim) + list(array.shape)
        return prod(extents) == int(extents[self.axis])

    def _vector(self, array: Array, shape: Sequence[int]) -> Array:
        return np.broadcast_to(array.reshape(-1), (shape[self.axis],))

    def _of_inputs(self, vector: Array) -> Array:
        """Arrange numbers of input channels as factors of the weights."""
        if not self.is_conv:
            return vector[:, None]
        filters, channels, *kernel = self.array.shape
        grouped = np.repeat(vector.reshape(self.groups, channels), filters // self.groups, axis=0)
        return grouped.reshape(filters, channels, *[1] * len(kernel))

    def _of_outputs(self, vector: Array) -> Array:
        """Arrange numbers of output channels as factors of the weights."""
        factors: Array = vector.reshape(-1, *[1] * (self.array.ndim - 1)) if self.is_conv else vector
        return factors

    def _applied_to(self, vector: Array) -> Array:
        """Compute the result for an input whose channels are constant, in the shape in which it is added."""
        wide = self.array.astype("float64") * self._of_inputs(vector)
        axes = tuple(range(1, wide.ndim)) if self.is_conv else (0,)
        made: Array = wide.sum(axis=axes).astype(self.array.dtype)
        after = 0 if self.axis == -1 else len(self.y) - 2
        return made.reshape(-1, *[1] * after)
