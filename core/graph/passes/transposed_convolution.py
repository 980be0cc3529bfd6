"""Transposed convolutions whose windows lie side by side, as convolutions of single pixels."""

from __future__ import annotations

import math
import operator

from pegbox.graph.graph import Node, Value
from pegbox.graph.operations import conv_node, pointwise_node, reshape_node, transpose_node
from pegbox.graph.rewriting import Rewriting


def of_single_pixels(node: Node, made: Rewriting) -> list[Node] | None:
    """Write a transposed convolution with strides of its kernel's size: each pixel makes one window of outputs.

    ::

        y = ConvTranspose(x, w, b, strides=(2, 2))    ->    y.windows = Conv(x, y.filters, strides=(1, 1), ...)
                                                            y.apart = Reshape(y.windows, shape=(1, 8, 2, 2, 5, 5))
                                                            y.pixels = Transpose(y.apart, perm=(0, 1, 4, 2, 5, 3))
                                                            y.sums = Reshape(y.pixels, shape=(1, 8, 10, 10))
                                                            y = Add(y.sums, y.bias)
    """
    (x, w, *bias), (y,) = node.inputs, node.outputs
    (n, c, *spatial), (_, o, *kernel) = x.shape, w.shape
    strides = list(node.attributes.get("strides") or [1] * len(kernel))  # type: ignore[call-overload]
    apart = [e * k for e, k in zip(spatial, kernel, strict=True)]
    known = all(value in made.constants for value in (w, *bias))
    if not known or kernel != strides or list(y.shape) != [n, o, *apart] or _is_cut(node):
        return None
    filters = made.constants[w].reshape(c, o * math.prod(kernel)).T.reshape(-1, c, *[1] * len(kernel))
    rank, ones = len(kernel), [1] * len(kernel)
    windows = conv_node(
        f"{node.name}.windows", x, made.constant(f"{node.name}.filters", filters), strides=ones, pads=[0] * (2 * rank),
        dilations=ones,
    )  # fmt: skip
    pieces = reshape_node(f"{node.name}.apart", *windows.outputs, (n, o, *kernel, *spatial))
    order = [axis for d in range(rank) for axis in (2 + rank + d, 2 + d)]
    pixels = transpose_node(f"{node.name}.pixels", *pieces.outputs, (0, 1, *order))
    if not bias:
        return [windows, pieces, pixels, reshape_node(node.name, *pixels.outputs, y.shape, output=y)]
    sums = reshape_node(f"{node.name}.sums", *pixels.outputs, y.shape)
    added = made.constant(f"{node.name}.bias", made.constants[bias[0]].reshape(-1, *ones))
    values: list[Value] = [*sums.outputs, added]
    return [windows, pieces, pixels, sums, pointwise_node(node.name, "Add", operator.add, values, output=y)]


def _is_cut(node: Node) -> bool:
    """Check whether outputs are left out or added, windows have holes, or channels are in groups."""
    given = [node.attributes.get(name) or [0] for name in ("pads", "output_padding")]
    holes = node.attributes.get("dilations") or [1]
    moved = any(any(each) for each in given) or any(each != 1 for each in holes)  # type: ignore[attr-defined]
    return moved or node.attributes.get("group", 1) != 1 or "output_shape" in node.attributes
