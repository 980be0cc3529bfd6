"""Transposed convolutions, as convolutions that compute the outputs of a whole step of the window at once."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pegbox.graph.graph import Array, Node, Value
from pegbox.graph.operations import conv_node, crop_node, pointwise_node, reshape_node, transpose_node
from pegbox.graph.rewriting import Rewriting

_ROW = 16
"""The elements of a vector, at most."""

_WINOGRAD_TAPS = 3
"""The taps along an axis of convolutions that Winograd's algorithm is for."""

_WINOGRAD_WORK = 1.5
"""The factor by which that algorithm reduces the products, at least."""


def of_steps(node: Node, made: Rewriting) -> list[Node] | None:
    """Write a transposed convolution as a convolution of stride 1, whose channels are the outputs of a step.

    Along an axis, a window's step of s outputs has as inputs the same ⌈k / s⌉ pixels. So the outputs of a step, for
    which the kernel is filled up with zeros, are channels of a convolution (Shi et al., "Is the deconvolution layer
    the same as a convolutional layer?", 2016). They are put in their places with the channels last, where whole rows
    of channels move, and what the borders cut is left out.

    ::

        y = ConvTranspose(x, w, b)    ->    y.sums = Conv(x, y.filters, strides=(1, 1), ...)
                                            y.steps = Add(y.sums, y.bias)
                                            y.last = Transpose(y.steps, perm=(0, 2, 3, 1))
                                            y.apart = Reshape(y.last, shape=(1, 5, 5, 2, 2, 8))
                                            y.pixels = Transpose(y.apart, perm=(0, 1, 3, 2, 4, 5))
                                            y.image = Reshape(y.pixels, shape=(1, 10, 10, 8))
                                            y = Transpose(y.image, perm=(0, 3, 1, 2))
    """
    x, w, *bias = node.inputs
    known = all(value in made.constants for value in (w, *bias))
    if not known or len(x.shape) < 3 or not _is_plain(node):
        return None
    sides = [_Side(*side) for side in _sides(node)]
    if not _is_faster(sides, w.shape[1] * math.prod(side.step for side in sides)):
        return None
    sums = _sums(node, sides, made)
    return [*sums, *_placement(node, sums[-1].outputs[0], sides)]


def _sums(node: Node, sides: Sequence[_Side], made: Rewriting) -> list[Node]:
    """Make the convolution that computes the outputs of steps, and add the bias to each."""
    x, w, *bias = node.inputs
    ones = [1] * len(sides)
    filters = made.constant(f"{node.name}.filters", _filters(made.constants[w], sides))
    pads = [*(side.before for side in sides), *(side.after for side in sides)]
    sums = conv_node(f"{node.name}.sums", x, filters, strides=ones, pads=pads, dilations=ones)
    if not bias:
        return [sums]
    step = math.prod(side.step for side in sides)
    repeated = made.constants[bias[0]].reshape(1, -1).repeat(step, 0).reshape(-1, *ones)
    values = [sums.outputs[0], made.constant(f"{node.name}.bias", repeated)]
    return [sums, pointwise_node(f"{node.name}.steps", "Add", operator.add, values)]


def _placement(node: Node, sums: Value, sides: Sequence[_Side]) -> list[Node]:
    """Put the outputs of steps, which are channels, in their places, and leave out what the borders cut."""
    (y,), rank, (n, channels) = node.outputs, len(sides), node.outputs[0].shape[:2]
    counts, steps = [side.count for side in sides], [side.step for side in sides]
    last = transpose_node(f"{node.name}.last", sums, (0, *range(2, 2 + rank), 1))
    apart = reshape_node(f"{node.name}.apart", last.outputs[0], (n, *counts, *steps, channels))
    order = [axis for d in range(rank) for axis in (1 + d, 1 + rank + d)]
    pixels = transpose_node(f"{node.name}.pixels", apart.outputs[0], (0, *order, 1 + 2 * rank))
    whole = (n, *(c * s for c, s in zip(counts, steps, strict=True)), channels)
    nodes = [last, apart, pixels, reshape_node(f"{node.name}.image", pixels.outputs[0], whole)]
    kept = (n, *(side.kept for side in sides), channels)
    if kept != whole:
        begin = (0, *(side.begin for side in sides), 0)
        nodes.append(crop_node(f"{node.name}.kept", nodes[-1].outputs[0], begin, kept))
    return [*nodes, transpose_node(node.name, nodes[-1].outputs[0], (0, rank + 1, *range(1, rank + 1)), output=y)]


@dataclass(frozen=True)
class _Side:
    """A spatial axis.

    Attributes:
        extent, kernel, stride: of the transposed convolution.
        cut: the outputs that are left out in front.
        kept: the outputs that stay.
    """

    extent: int
    kernel: int
    stride: int
    cut: int
    kept: int

    @property
    def step(self) -> int:
        """The outputs of a step: all of a single window."""
        return self.kernel if self.extent == 1 else self.stride

    @property
    def taps(self) -> int:
        """The pixels that an output has as inputs, at most."""
        return -(-self.kernel // self.step)

    @property
    def first(self) -> int:
        """The first step that is computed."""
        return min(self.cut // self.step, self.taps - 1)

    @property
    def last(self) -> int:
        """The last step that is computed."""
        return max((self.cut + self.kept - 1) // self.step, self.extent - 1)

    @property
    def count(self) -> int:
        """The steps that are computed."""
        return self.last - self.first + 1

    @property
    def before(self) -> int:
        """The zeros in front of the pixels."""
        return self.taps - 1 - self.first

    @property
    def after(self) -> int:
        """The zeros behind the pixels."""
        return self.last - self.extent + 1

    @property
    def begin(self) -> int:
        """The computed outputs that are left out in front."""
        return self.cut - self.first * self.step

    @property
    def work(self) -> float:
        """The products of the convolution, relative to those of each pixel with the kernel."""
        return self.count * self.step * self.taps / (self.extent * self.kernel)


def _is_faster(sides: Sequence[_Side], channels: int) -> bool:
    """Decide if the convolution is the faster form, by what was measured.

    The other form has vectors along rows of outputs, and no products with the zeros that fill up a kernel.
    """
    if all(side.taps == 1 and side.kept == side.count * side.step for side in sides):
        return True
    if channels < _ROW:
        return False
    work, row = math.prod(side.work for side in sides), sides[-1].extent
    for_winograd = len(sides) == 2 and all(side.taps == _WINOGRAD_TAPS for side in sides)
    return work <= (_WINOGRAD_WORK if for_winograd else 0) or (row < _ROW and work * row <= _ROW)


def _sides(node: Node) -> list[tuple[int, int, int, int, int]]:
    (x, w, *_), (y,) = node.inputs, node.outputs
    rank = len(x.shape) - 2
    strides = _attribute(node, "strides", [1] * rank)
    cut = _attribute(node, "pads", [0] * (2 * rank))[:rank]
    return [*zip(x.shape[2:], w.shape[2:], strides, cut, y.shape[2:], strict=True)]


def _filters(w: Array, sides: Sequence[_Side]) -> Array:
    """Return the filters [*step, output channel][input channel, *tap] of the kernels [input, output, *place].

    The taps run against the places of a kernel, and places beyond it are zeros.
    """
    inputs, outputs, *_ = w.shape
    filled = np.pad(w, [(0, 0), (0, 0), *((0, side.taps * side.step - side.kernel) for side in sides)])
    apart = filled.reshape(inputs, outputs, *(extent for side in sides for extent in (side.taps, side.step)))
    taps, steps = (tuple(first + 2 * d for d in range(len(sides))) for first in (2, 3))
    turned = np.flip(apart, taps).transpose(*steps, 1, 0, *taps)
    return np.ascontiguousarray(turned).reshape(-1, inputs, *(side.taps for side in sides))


def _attribute(node: Node, name: str, default: object) -> Any:
    return node.attributes.get(name) or default


def _is_plain(node: Node) -> bool:
    """Check for no dilation, no groups, and explicit pads."""
    holes = any(each != 1 for each in _attribute(node, "dilations", ()))
    said = _attribute(node, "auto_pad", "NOTSET") in ("NOTSET", "VALID") and not node.attributes.get("output_shape")
    return said and not holes and _attribute(node, "group", 1) == 1
