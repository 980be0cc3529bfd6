"""The pass that writes operators as a few simple ones: `Conv`, `MatMul`, `Reshape`, `Transpose` and pointwise nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pegbox.compute.ops import compute
from pegbox.compute.tensor import Tensor
from pegbox.expr import math
from pegbox.expr.build import const
from pegbox.expr.dtypes import EXPONENTS, is_float
from pegbox.expr.nodes import Expr
from pegbox.graph.graph import Array, Graph, Node, Value
from pegbox.graph.kind import copied_element, is_pointwise, is_view, permutation_of, pointwise_values
from pegbox.graph.meaning import bound
from pegbox.graph.operations import (
    conv_node,
    crop_node,
    matmul_node,
    pointwise_node,
    reshape_node,
    transpose_node,
)
from pegbox.graph.passes.transposed_convolution import of_steps
from pegbox.graph.rewriting import Rewriting, with_distinct_inputs, with_outputs

_FEW = 16
"""The number of outputs up to which convolutions are padded to a power of two, instead of cut into several vectors."""

Rule = Callable[[Node, Rewriting], "list[Node] | None"]


def canonical_form(graph: Graph) -> Graph:
    """Write operators as canonical ones.

    ::

        c = Conv(x, w, b)                              c.sums = Conv(x, w, strides=(1, 1), ...)
        n = BatchNormalization(c, s, o, mean, var)     c = Add(c.sums, b.1)
        y = Flatten(n)                           ->    n.scaled = Mul(c, n.scale)
        return y                                       n = Add(n.scaled, n.shift)
                                                       y = Reshape(n, shape=(1, 64))
                                                       return y
    """
    made = Rewriting(graph)
    for node in graph.nodes:
        node = with_distinct_inputs(node)
        # Readers compute 16-bit floats in a wider type, but the steps of a canonical form would not.
        is_short = any(value.dtype in ("float16", "bfloat16") for value in node.outputs)
        rule = _moved if is_short else _RULES.get(node.kind, _moved)
        made.add(*(rule(node, made) or [node]))
    return made.graph()


def _moved(node: Node, made: Rewriting) -> list[Node] | None:
    """Write a node that moves all elements of an array as `Reshape` or `Transpose`."""
    if len(node.inputs) == 1 and len(node.outputs) > 1:
        return _apart(node)
    if len(node.inputs) != 1 or len(node.outputs) != 1 or node.inputs[0].dtype != node.outputs[0].dtype:
        return None
    (x,), (y,) = node.inputs, node.outputs
    if is_view(node):
        return [reshape_node(node.name, x, y.shape, output=y)]
    order = permutation_of(node)
    return None if order is None else [transpose_node(node.name, x, order, output=y)]


def _apart(node: Node) -> list[Node] | None:
    """Copy each part of an array by its own node, which may be a view."""
    places = range(len(node.outputs))
    if any(copied_element(node, place) is None for place in places):
        return None
    return [replace(with_outputs(node, [place]), name=node.outputs[place].name) for place in places]


def _gather(node: Node, made: Rewriting) -> list[Node] | None:
    """Write the choice of one row with a known number without a memory access for the number."""
    array = made.constants.get(node.inputs[1]) if len(node.inputs) == 2 else None
    (x, y) = node.inputs[0], node.outputs[0]
    if array is None or array.size != 1 or x in made.constants:
        return None
    axis = int(_attribute(node, "axis", 0)) % len(x.shape)
    row = int(array.item()) % x.shape[axis]
    attributes = {"axis": axis, "row": row}
    taken = bound(_row, axis=axis, row=row, rank=array.ndim)
    return [Node(node.name, node.kind, (x,), (y,), taken, attributes)]


def _row(x: Tensor, *, axis: int, row: int, rank: int) -> list[Tensor]:
    shape = (*x.shape[:axis], *[1] * rank, *x.shape[axis + 1 :])
    return [compute(shape, lambda *at: x(*at[:axis], row, *at[axis + rank :]), name="Gather")]


def _conv(node: Node, made: Rewriting) -> list[Node] | None:
    if "layout" in node.attributes:
        return None
    (x, w, *bias), (y,) = node.inputs, node.outputs
    rank = len(w.shape) - 2
    strides, dilations = (_numbers(node, name, [1] * rank) for name in ("strides", "dilations"))
    pads = _pads(node, x.shape[2:], w.shape[2:], strides, dilations)
    group = _attribute(node, "group", 1)
    w, pads = _used_taps(node, made, strides, dilations, pads)
    convolve = partial(conv_node, x=x, strides=strides, pads=pads, dilations=dilations, group=group)
    name, sums = (f"{node.name}.sums", Value(f"{y.name}.sums", y.shape, y.dtype)) if bias else (node.name, y)
    if (whole := _whole_vectors(node, made, w, group)) is None:
        nodes = [convolve(name, w=w, output=sums)]
    else:
        nodes = [convolve(f"{name}.whole", w=whole)]
        nodes.append(crop_node(name, nodes[0].outputs[0], [0] * len(y.shape), y.shape, output=sums))
    if not bias:
        return nodes
    shape = (y.shape[1], *[1] * rank)
    if bias[0] in made.constants:
        added = made.constant(f"{bias[0].name}.{rank}", made.constants[bias[0]].reshape(shape))
    else:
        nodes.append(reshape_node(f"{node.name}.bias", bias[0], shape))
        added = nodes[-1].outputs[0]
    return [*nodes, pointwise_node(node.name, "Add", operator.add, (sums, added), output=y)]


def _whole_vectors(node: Node, made: Rewriting, w: Value, group: int) -> Value | None:
    """Add filters of zeros to a few filters, so that their outputs fill a whole vector; None if that does not pay."""
    outputs, _, *kernel = w.shape
    more = (1 << (outputs - 1).bit_length()) - outputs
    is_image = len(kernel) == 2 and max(kernel) > 1
    if w not in made.constants or group != 1 or not is_image or not more or outputs > _FEW:
        return None
    filters = np.pad(made.constants[w], [(0, more), *[(0, 0)] * (len(w.shape) - 1)])
    return made.constant(f"{node.name}.whole", filters)


def _used_taps(
    node: Node, made: Rewriting, strides: Sequence[int], dilations: Sequence[int], pads: list[int]
) -> tuple[Value, list[int]]:
    """Drop the outermost taps of filters that only read the border; return the filters and the borders.

    Filters with wide dilations have such taps on small images (Chen et al., "Rethinking Atrous Convolution for Semantic
    Image Segmentation", 2017, section 3.3).
    """
    x, w = node.inputs[:2]
    rank = len(w.shape) - 2
    if w not in made.constants:
        return w, pads
    kept, borders = [slice(None), slice(None)], list(pads)
    extents, outputs = x.shape[2:], node.outputs[0].shape[2:]
    for d, (extent, size, step, apart) in enumerate(zip(extents, outputs, strides, dilations, strict=True)):
        first = [tap * apart - pads[d] for tap in range(w.shape[2 + d])]
        used = [tap for tap, at in enumerate(first) if at < extent and at + (size - 1) * step >= 0]
        before, after = min(used, default=0), len(first) - 1 - max(used, default=0)
        if pads[d] < before * apart or pads[rank + d] < after * apart:  # dropping the taps would also drop pixels
            before = after = 0
        kept.append(slice(before, len(first) - after))
        borders[d] -= before * apart
        borders[rank + d] -= after * apart
    filters = made.constants[w][tuple(kept)]
    if filters.shape == w.shape:
        return w, pads
    return made.constant(f"{node.name}.filters", filters.copy()), borders


def _numbers(node: Node, name: str, default: list[int]) -> list[int]:
    return [int(number) for number in _attribute(node, name, default) or default]


def _attribute(node: Node, name: str, default: object) -> Any:
    return node.attributes.get(name, default)


def _pads(
    node: Node, extents: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """Return the borders before and after the spatial axes, which may be given as a rule."""
    rule = node.attributes.get("auto_pad", "NOTSET")
    if rule == "NOTSET":
        return _numbers(node, "pads", [0] * (2 * len(kernel)))
    sides = zip(extents, kernel, strides, dilations, strict=True)
    totals = [max((-(-e // s) - 1) * s + d * (k - 1) + 1 - e, 0) if rule != "VALID" else 0 for e, k, s, d in sides]
    small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return [*small, *large] if rule == "SAME_UPPER" else [*large, *small]


def _gemm(node: Node, made: Rewriting) -> list[Node] | None:
    (a, b, *c), (y,) = node.inputs, node.outputs
    scale, portion = (float(_attribute(node, name, 1.0)) for name in ("alpha", "beta"))
    if (
        node.attributes.get("transA")
        or b not in made.constants
        or (c and portion != 1.0 and c[0] not in made.constants)
    ):
        return None
    if not is_float(y.dtype) and (scale, portion) != (1.0, 1.0):
        return None
    weights = made.constants[b]
    if node.attributes.get("transB") or scale != 1.0:
        weights = weights.T if node.attributes.get("transB") else weights
        b = made.constant(f"{node.name}.weights", weights if scale == 1.0 else weights * weights.dtype.type(scale))
    if not c:
        return [matmul_node(node.name, a, b, output=y)]
    sums = matmul_node(f"{node.name}.sums", a, b, output=Value(f"{y.name}.sums", y.shape, y.dtype))
    added = c[0]
    if portion != 1.0:
        bias = made.constants[added]
        added = made.constant(f"{node.name}.bias", bias * bias.dtype.type(portion))
    return [sums, pointwise_node(node.name, "Add", operator.add, (*sums.outputs, added), output=y)]


def _batch_normalization(node: Node, made: Rewriting) -> list[Node] | None:
    x, *others = node.inputs
    arrays = [made.constants.get(value) for value in others]
    if len(arrays) != 4 or len(node.outputs) != 1 or node.attributes.get("training_mode", 0):
        return None
    shape = (x.shape[1], *[1] * (len(x.shape) - 2)) if len(x.shape) > 1 else ()
    if any(array is None or array.shape != shape[:1] or str(array.dtype) != x.dtype for array in arrays):
        return None
    scale, shift, mean, variance = (array.astype("float64") for array in arrays if array is not None)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + float(_attribute(node, "epsilon", 1e-5)))
        offset = shift - mean * factor
    if not (np.isfinite(factor).all() and np.isfinite(offset).all()):
        return None  # the order of the operations matters for infinities and NaNs
    return _scaled(node, made, factor.reshape(shape), offset.reshape(shape))


def _scaled(node: Node, made: Rewriting, factor: Array, offset: Array) -> list[Node]:
    """Make the nodes of `x * factor + offset`, for the first input x of a node."""
    x, (y,) = node.inputs[0], node.outputs
    scale, shift = (made.constant(f"{node.name}.{name}", array.astype(x.dtype))
                    for name, array in (("scale", factor), ("shift", offset)))  # fmt: skip
    middle = Value(f"{y.name}.scaled", y.shape, y.dtype)
    scaled = pointwise_node(f"{node.name}.scaled", "Mul", operator.mul, (x, scale), output=middle)
    return [scaled, pointwise_node(node.name, "Add", operator.add, (middle, shift), output=y)]


def _clip(node: Node, made: Rewriting) -> list[Node] | None:
    """Write the bounds into the computation: only a few values are common, and kernels get faster."""
    x, *others = node.inputs
    bounds = _scalars(others, made)
    if not others or bounds is None or not is_pointwise(node):
        return None
    attributes = {**node.attributes, "bounds": tuple(bound.value for bound in bounds)}
    function = partial(_with_scalars, node, bounds)
    return [pointwise_node(node.name, node.kind, function, (x,), attributes=attributes, output=node.outputs[0])]


def _scalars(values: Sequence[Value], made: Rewriting) -> list[Any] | None:
    """Return values as constants of expressions; None if one is not a single known number."""
    arrays = [made.constants.get(value) for value in values]
    if any(array is None or array.size != 1 for array in arrays):
        return None
    return [const(array.item(), value.dtype) for array, value in zip(arrays, values, strict=True) if array is not None]


def _with_scalars(node: Node, scalars: Sequence[Expr], x: Expr) -> Expr:
    return pointwise_values(node, (x, *scalars))[0]


_POWERS: Mapping[float, Callable[[Expr], Expr]] = {
    -1.0: lambda x: 1.0 / x,
    -0.5: math.rsqrt,
    0.5: math.sqrt,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
}


def _power(node: Node, made: Rewriting) -> list[Node] | None:
    """Write powers with usual exponents as products and roots."""
    x, *others = node.inputs
    exponent = _scalars(others, made)
    if exponent is None or len(exponent) != 1 or not is_float(x.dtype) or x.shape != node.outputs[0].shape:
        return None
    value = exponent[0].value
    if value == 1.0:
        return [reshape_node(node.name, x, x.shape, output=node.outputs[0])]
    if value not in _POWERS:
        return None
    function = bound(_to_the, float(value))
    return [pointwise_node(node.name, "Pow", function, (x,), attributes={"exponent": value}, output=node.outputs[0])]


def _to_the(exponent: float, x: Expr) -> Expr:
    return _POWERS[exponent](x)


def _quotient(node: Node, made: Rewriting) -> list[Node] | None:
    """Write a division by a constant as a product, if that differs only by rounding."""
    if len(node.inputs) != 2 or node.inputs[1] not in made.constants or not is_float(node.outputs[0].dtype):
        return None
    if not is_pointwise(node):
        return None  # old models name the axis for broadcasting
    divisor = made.constants[node.inputs[1]]
    with np.errstate(all="ignore"):
        factor = np.reciprocal(divisor)
    normal = 2.0 ** EXPONENTS[str(divisor.dtype)][0]
    if not all((np.isfinite(each) & (np.abs(each) >= normal)).all() for each in (divisor, factor)):
        return None
    scale = made.constant(f"{node.name}.reciprocal", factor)
    return [pointwise_node(node.name, "Mul", operator.mul, (node.inputs[0], scale), output=node.outputs[0])]


_RULES: Mapping[str, Rule] = {
    "Conv": _conv, "Gemm": _gemm, "BatchNormalization": _batch_normalization, "Clip": _clip, "Pow": _power,
    "Div": _quotient, "Gather": _gather, "ConvTranspose": of_steps,
}  # fmt: skip
