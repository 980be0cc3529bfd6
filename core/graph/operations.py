"""Makers of canonical nodes, whose kinds and attributes passes and implementations recognize."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pegbox.compute.convolution import convolve, padded
from pegbox.compute.elementwise import elementwise
from pegbox.compute.head_layout import HeadLayout
from pegbox.compute.movement import reshaped, transposed
from pegbox.compute.ops import compute
from pegbox.compute.plain_attention import attention
from pegbox.compute.product import matmul
from pegbox.compute.tensor import Tensor
from pegbox.errors import GraphError
from pegbox.graph.graph import Node, Value, computed
from pegbox.graph.meaning import bound

CHANNEL_FIRST, CHANNEL_LAST = "NCHW", "NHWC"
"""The layouts of a convolution's data, for any number of spatial axes."""


def make_node(
    name: str,
    kind: str,
    inputs: Sequence[Value],
    compute: Callable[..., Sequence[Tensor]],
    attributes: Mapping[str, object] | None = None,
    *,
    outputs: Sequence[str] = (),
) -> Node:
    """Make a node with new outputs of the computed shapes and types.

    Args:
        outputs: the names of the first outputs; others get the node's name, with a number from the second one on.

    Raises:
        GraphError: the inputs do not fit the operator, or it has fewer outputs than names.
    """
    made = computed(f"{kind} {name!r}", inputs, compute)
    if len(outputs) > len(made.outputs):
        raise GraphError(f"{kind} {name!r}: has {len(made.outputs)} output(s), not {len(outputs)}")
    default = [f"{name}.{place}" if place else name for place in range(len(made.outputs))]
    names = [*outputs, *default[len(outputs) :]]
    values = tuple(Value(each, t.shape, t.dtype) for each, t in zip(names, made.outputs, strict=True))
    node = Node(name, kind, tuple(inputs), values, compute, attributes or {})
    node.__dict__["computation"] = made  # a cached property
    return node


def _node(
    name: str,
    kind: str,
    inputs: Sequence[Value],
    compute: Callable[..., Sequence[Tensor]],
    attributes: Mapping[str, object],
    output: Value | None,
) -> Node:
    """Make a node with one output: a given one with the right shape, or a new one."""
    if output is None:
        return make_node(name, kind, inputs, compute, attributes)
    return Node(name, kind, tuple(inputs), (output,), compute, attributes)


def conv_node(
    name: str,
    x: Value,
    w: Value,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    group: int = 1,
    layout: str = CHANNEL_FIRST,
    output: Value | None = None,
) -> Node:
    """Make a convolution of X with filters W[o, c / group, *kernel].

    Args:
        pads: the borders of zeros before each spatial axis, then those after each.
        layout: the place of the channels in X and in the output: "NCHW" or "NHWC".
    """
    attributes: dict[str, Any] = {
        "strides": tuple(strides), "pads": tuple(pads), "dilations": tuple(dilations), "group": group, "layout": layout,
    }  # fmt: skip
    return _node(name, "Conv", (x, w), bound(_convolved, **attributes), attributes, output)


def _convolved(
    x: Tensor,
    w: Tensor,
    *,
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    group: int,
    layout: str,
) -> list[Tensor]:
    last = layout == CHANNEL_LAST
    before, after = ((0, *side, 0) if last else (0, 0, *side) for side in (pads[: len(strides)], pads[len(strides) :]))
    return [convolve(padded(x, before, after), w, strides, dilations, group, channel_last=last)]


def matmul_node(name: str, a: Value, b: Value, *, output: Value | None = None) -> Node:
    """Make a product of stacks of matrices, which broadcast as in NumPy's `matmul`."""
    return _node(name, "MatMul", (a, b), _multiplied, {}, output)


def _multiplied(a: Tensor, b: Tensor) -> list[Tensor]:
    return [matmul(a, b, name="MatMul")]


def attention_node(
    name: str,
    arrays: Sequence[Value],
    bias: Value | None = None,
    *,
    layout: str,
    scale: float,
    causal: bool = False,
    output: Value | None = None,
) -> Node:
    """Make softmax(Q · Kᵀ · scale + bias) · V.

    Args:
        arrays: Q, K and V, or one array with all of them.
        bias: a summand of the scores [batch, heads, queries, keys], broadcast along axes with one element.
        layout: the axes of the arrays and of the output, as for `HeadLayout`.
        causal: True if the last query sees all keys, and each earlier one sees one key less.
    """
    attributes: dict[str, Any] = {"layout": layout, "scale": scale, "causal": causal}
    inputs = [*arrays, *([] if bias is None else [bias])]
    return _node(name, "Attention", inputs, bound(_attended, **attributes), attributes, output)


def _attended(*tensors: Tensor, layout: str, scale: float, causal: bool) -> list[Tensor]:
    axes = HeadLayout(layout)
    count = 1 if axes.is_joined else 3
    bias = tensors[count] if len(tensors) > count else None
    return [attention(tensors[:count], layout=axes, scale=scale, causal=causal, bias=bias, name="Attention")]


def transpose_node(name: str, x: Value, perm: Sequence[int], *, output: Value | None = None) -> Node:
    """Make a node that permutes axes: axis d of the output is axis `perm[d]` of X."""
    order = tuple(perm)
    return _node(name, "Transpose", (x,), bound(_transposed, perm=order), {"perm": order}, output)


def _transposed(x: Tensor, *, perm: tuple[int, ...]) -> list[Tensor]:
    return [transposed(x, perm, name="Transpose")]


def reshape_node(name: str, x: Value, shape: Sequence[int], *, output: Value | None = None) -> Node:
    """Make a node that returns the same elements in another shape."""
    new = tuple(shape)
    return _node(name, "Reshape", (x,), bound(_reshaped, shape=new), {"shape": new}, output)


def _reshaped(x: Tensor, *, shape: tuple[int, ...]) -> list[Tensor]:
    return [reshaped(x, shape, name="Reshape")]


def crop_node(name: str, x: Value, begin: Sequence[int], shape: Sequence[int], *, output: Value | None = None) -> Node:
    """Make a node that copies a part of X, from the indices `begin` on."""
    attributes: dict[str, Any] = {"begin": tuple(begin), "shape": tuple(shape)}
    return _node(name, "Crop", (x,), bound(_cropped, **attributes), attributes, output)


def _cropped(x: Tensor, *, begin: tuple[int, ...], shape: tuple[int, ...]) -> list[Tensor]:
    return [compute(shape, lambda *at: x(*(i + b for i, b in zip(at, begin, strict=True))), name="Crop")]


def pointwise_node(
    name: str,
    kind: str,
    function: Callable[..., object],
    inputs: Sequence[Value],
    *,
    attributes: Mapping[str, object] | None = None,
    output: Value | None = None,
) -> Node:
    """Make a node that applies a function of elements to its inputs, which are broadcast."""
    return _node(name, kind, inputs, bound(_applied, function, kind), attributes or {}, output)


def _applied(function: Callable[..., object], kind: str, *tensors: Tensor) -> list[Tensor]:
    return [elementwise(function, *tensors, name=kind)]
