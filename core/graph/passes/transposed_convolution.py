"""Transposed convolutions whose windows lie side by side, as convolutions of single pixels."""

from __future__ import annotations

import math
import operator
from typing import Any

from pegbox.graph.graph import Node, Value
from pegbox.graph.operations import conv_node, pointwise_node, reshape_node, transpose_node
from pegbox.graph.rewriting import Rewriting


def of_single_pixels(node: Node, made: Rewriting) -> list[Node] | None:
    """Write a transposed convolution with strides of its kernel's size: each pixel makes one window of outputs.

    The windows are put in their places with the channels last, where whole rows of channels move.

    ::

        y = ConvTranspose(x, w, b)    ->    y.sums = Conv(x, y.filters, strides=(1, 1), ...)
                                            y.windows = Add(y.sums, y.bias)
                                            y.last = Transpose(y.windows, perm=(0, 2, 3, 1))
                                            y.apart = Reshape(y.last, shape=(1, 5, 5, 2, 2, 8))
                                            y.pixels = Transpose(y.apart, perm=(0, 1, 3, 2, 4, 5))
                                            y.image = Reshape(y.pixels, shape=(1, 10, 10, 8))
                                            y = Transpose(y.image, perm=(0, 3, 1, 2))
    """
    (x, w, *bias), (y,) = node.inputs, node.outputs
    (n, c, *spatial), (_, o, *kernel) = x.shape, w.shape
    rank, ones, size = len(kernel), [1] * len(kernel), math.prod(kernel)
    apart = [e * k for e, k in zip(spatial, kernel, strict=True)]
    known = all(value in made.constants for value in (w, *bias))
    if (
        not known
        or list(_attribute(node, "strides", ones)) != kernel
        or list(y.shape) != [n, o, *apart]
        or _is_cut(node)
    ):
        return None
    filters = made.constants[w].reshape(c, o, size).transpose(2, 1, 0).reshape(size * o, c, *ones)
    nodes = [conv_node(f"{node.name}.sums", x, made.constant(f"{node.name}.filters", filters), strides=ones,
                       pads=[0] * (2 * rank), dilations=ones)]  # fmt: skip
    if bias:
        added = made.constant(
            f"{node.name}.bias", made.constants[bias[0]].reshape(1, o).repeat(size, 0).reshape(-1, *ones)
        )
        values: list[Value] = [*nodes[-1].outputs, added]
        nodes.append(pointwise_node(f"{node.name}.windows", "Add", operator.add, values))
    space = range(2, 2 + rank)
    nodes.append(transpose_node(f"{node.name}.last", nodes[-1].outputs[0], (0, *space, 1)))
    nodes.append(reshape_node(f"{node.name}.apart", nodes[-1].outputs[0], (n, *spatial, *kernel, o)))
    order = [axis for d in range(rank) for axis in (1 + d, 1 + rank + d)]
    nodes.append(transpose_node(f"{node.name}.pixels", nodes[-1].outputs[0], (0, *order, 1 + 2 * rank)))
    nodes.append(reshape_node(f"{node.name}.image", nodes[-1].outputs[0], (n, *apart, o)))
    return [*nodes, transpose_node(node.name, nodes[-1].outputs[0], (0, rank + 1, *range(1, rank + 1)), output=y)]


def _attribute(node: Node, name: str, default: object) -> Any:
    return node.attributes.get(name) or default


def _is_cut(node: Node) -> bool:
    """Check whether outputs are left out or added, windows have holes, or channels are in groups."""
    moved = any((*_attribute(node, "pads", ()), *_attribute(node, "output_padding", ())))
    holes = any(each != 1 for each in _attribute(node, "dilations", ()))
    return moved or holes or _attribute(node, "group", 1) != 1 or "output_shape" in node.attributes
