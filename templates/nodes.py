"""Implementations of a model's nodes.

Convolutions, products and attention are computed by templates, and the pointwise nodes after them by an epilogue;
softmax and normalizations, with all that is fused with them, by the space generator `rows`; poolings with the channels
first by `windows`, transpositions by `transposition`.

Constant weights are packed ahead. A kernel's arrays may have fewer or more dimensions than the graph's, with the same
elements in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pegbox as pb
from pegbox import te
from pegbox.codegen import Target
from pegbox.compute import HeadLayout, reshaped
from pegbox.errors import TemplateError
from pegbox.graph import Node, Value
from pegbox.model import Argument, NodeTask, generated_task
from pegbox.task import Task
from pegbox.templates.implementations import matmul_strassen

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
Constants: TypeAlias = "Mapping[Value, Array]"

_DTYPES = {"float32", "float64"}
_CONVOLUTION = {"strides", "pads", "dilations", "group", "layout"}


def conv2d(node: Node, constants: Constants, target: Target) -> NodeTask | None:
    """Return the task of a convolution of one group in one or two dimensions, and of the pointwise nodes after it.

    With filters of one pixel, and channels last, all images of a batch become one, because their pixels are neighbours.
    """
    first = _first(node, "Conv", _CONVOLUTION)
    if first is None or first.attributes["group"] != 1 or len(first.inputs[0].shape) not in (3, 4):
        return None
    w = first.inputs[1]
    image, line, arguments = _images(first)
    if _is_of_pixels(first) and arguments["layout"] == "NHWC":
        n, c, rows, columns = image
        image = 1, c, n * rows, columns
    arguments["weights"] = "packed" if w in constants else "OIHW"
    filters = (w.shape[0], image[1], *line, *w.shape[2:])
    return _product_task(node, "conv2d", (*image, w.shape[0], *filters[2:]), arguments, target, (filters, "OIHW"))


def depthwise_conv2d(node: Node, constants: Constants, target: Target) -> NodeTask | None:
    """Return the task of a convolution with a filter for each channel, and of the pointwise nodes after it.

    Filters have the layout that the graph gives them: HWIO for constants where the image has its channels last.
    """
    first = _first(node, "Conv", _CONVOLUTION)
    if first is None or len(first.inputs[0].shape) not in (3, 4):
        return None
    image, line, arguments = _images(first)
    w, layout = first.inputs[1].shape, str(first.attributes.get("weights", "OIHW"))
    named = (
        dict(zip("OIHW", (*w[:2], *line, *w[2:]), strict=True))
        if layout == "OIHW"
        else dict(zip(layout, w, strict=True))
    )
    if first.attributes["group"] != image[1] or named["O"] != image[1] or image[1] == 1:
        return None
    arguments["weights"] = layout
    return _product_task(node, "depthwise_conv2d", (*image, named["H"], named["W"]), arguments, target, ((), ""))


def group_conv2d(node: Node, constants: Constants, target: Target) -> NodeTask | None:
    """Return the task of a convolution in groups whose image has its channels last, and of what follows pointwise.

    Its filters have the layout HWIO; constants are packed.
    """
    first = _first(node, "Conv", {*_CONVOLUTION, "weights"})
    if first is None or len(first.inputs[0].shape) != 4:
        return None
    image, _, arguments = _images(first)
    w = first.inputs[1]
    kh, kw, inner, outputs = w.shape
    group = first.attributes["group"]
    if group == 1 or (inner == 1 and outputs == group) or first.attributes["weights"] != "HWIO":
        return None
    arguments |= {"groups": group, "weights": "packed" if w in constants else "HWIO"}
    return _product_task(node, "group_conv2d", (*image, outputs, kh, kw), arguments, target, (w.shape, "HWIO"))


def _images(first: Node) -> tuple[tuple[int, ...], list[int], dict[str, Any]]:
    """Return a convolution's (N, C, H, W), with missing axes first, and its window and layout."""
    x, layout = first.inputs[0], first.attributes["layout"]
    n, c, *size = x.shape if layout == "NCHW" else (x.shape[0], x.shape[-1], *x.shape[1:-1])
    line = [1] * (4 - len(x.shape))  # one row
    edge = [0] * len(line)
    pads: Any = first.attributes["pads"]
    before, after = [*edge, *pads[: len(size)]], [*edge, *pads[len(size) :]]
    steps: list[Any] = [first.attributes[name] for name in ("strides", "dilations")]
    arguments = {
        "stride": [*line, *steps[0]],
        "padding": before if before == after else [*before, *after],
        "dilation": [*line, *steps[1]],
        "layout": layout,
        "dtype": x.dtype,
    }
    return (n, c, *line, *size), line, arguments


def pixel_product(node: Node, constants: Constants, target: Target) -> NodeTask | None:
    """Return the task of a product of filters and pixels, one for each group, and of the pointwise nodes after it.

    The node is a convolution by filters of one pixel: of one image with its channels first; or of images with channels
    last by constant filters, for Strassen's algorithm, as `conv2d` has the direct sum.
    """
    first = _first(node, "Conv", _CONVOLUTION)
    if first is None or not _is_of_pixels(first):
        return None
    x, w = first.inputs
    groups: Any = first.attributes["group"]
    if first.attributes["layout"] == "NHWC":
        return _strassen_product(node, target) if groups == 1 and w in constants else None
    if x.shape[0] != 1 or w.shape[1] == 1:
        return None
    shape = w.shape[0] // groups, w.shape[1], math.prod(x.shape[2:])
    template, lead = ("matmul", ()) if groups == 1 else ("batch_matmul", (groups,))
    arguments = {"dtype": x.dtype, "weights": "plain"}
    return _node_task(node, template, arguments, target, [Argument(w), Argument(x)], (*lead, *shape))


def _strassen_product(node: Node, target: Target) -> NodeTask | None:
    """Return the task of the product of an image's pixels and filters, if Strassen's algorithm may apply."""
    x, w = (node.parts or (node,))[0].inputs
    o, c = w.shape[:2]

    def pack(task: Task, array: Array) -> Array:
        return _packed((c, o), "", task, array.reshape(o, c).T)

    arguments = {"dtype": x.dtype, "weights": "packed"}
    shape = (math.prod(x.shape[:-1]), c, o)
    try:
        matmul_strassen(pb.create_task("matmul", shape, arguments, target=target))
    except TemplateError:
        return None
    return _node_task(node, "matmul", arguments, target, [Argument(x), Argument(w, pack)], shape)


def _is_of_pixels(first: Node) -> bool:
    """Decide if each pixel of a convolution's result is a sum over the channels of the same pixel."""
    numbers: Any = first.attributes
    strides, pads = numbers["strides"], numbers["pads"]
    return math.prod(first.inputs[1].shape[2:]) == 1 and set(strides) == {1} and not any(pads)


def matmul(node: Node, constants: Constants, target: Target) -> NodeTask | None:
    """Return the task of a product, and of the pointwise nodes after it.

    If there is one matrix on the right, the rows of all matrices on the left form one matrix.
    """
    first = _first(node, "MatMul", set())
    if first is None:
        return None
    a, b = (value.shape for value in first.inputs)
    *lead, m, k = a if len(a) > 1 else (1, *a)
    *batch, _, n = b if len(b) > 1 else (*b, 1)
    is_packed = first.inputs[1] in constants
    arguments = {"dtype": first.inputs[0].dtype, "weights": "packed" if is_packed else "plain"}
    if math.prod(batch) == 1:
        return _product_task(node, "matmul", (math.prod(lead) * m, k, n), arguments, target, ((k, n), ""))
    if math.prod(lead) == 1 or lead != batch:
        return None
    count = math.prod(lead)
    return _product_task(node, "batch_matmul", (count, m, k, n), arguments, target, ((count, k, n), ""))


def attention(node: Node, constants: Constants, target: Target) -> NodeTask | None:
    """Return the task of an attention, and of the pointwise nodes after it."""
    first = (node.parts or (node,))[0]
    if first.kind != "Attention" or not {"layout", "scale", "causal"} <= first.attributes.keys():
        return None
    layout = HeadLayout(str(first.attributes["layout"]))
    count = 1 if layout.is_joined else 3
    sizes = layout.sizes([value.shape for value in first.inputs[:count]])
    bias = first.inputs[count:]
    arguments = {**asdict(sizes), **first.attributes, "dtype": first.inputs[0].dtype}
    if bias:
        arguments["bias"] = "".join(axis for axis, extent in zip("BHN", bias[0].shape, strict=False) if extent > 1)
    return _node_task(node, "attention", arguments, target, list(map(Argument, first.inputs)))


def rows(node: Node, constants: Constants, target: Target) -> NodeTask | None:
    """Return the task of a node that reduces windows along the rows of its input, such as a pooling, or whole rows."""
    if {part.kind for part in node.parts or (node,)} & {"Conv", "MatMul", "Attention"}:
        return None
    inputs = [te.placeholder(value.shape, value.dtype, f"p{number}") for number, value in enumerate(node.inputs)]
    for space in ("windows", "rows"):
        with suppress(TemplateError):
            task = pb.create_task([*inputs, *node.compute(*inputs)], space=space, target=target)
            return NodeTask(node, task, tuple(map(Argument, (*node.inputs, *node.outputs))))
    return None


def transposition(node: Node, constants: Constants, target: Target) -> NodeTask | None:
    """Return the task of a node that reads elements in another order than it writes them."""
    try:
        return generated_task(node, target, space="transposition")
    except TemplateError:
        return None


def _first(node: Node, kind: str, attributes: set[str]) -> Node | None:
    """Return the first operator of a node, if it is a canonical one of that kind, of floats of one type."""
    first = (node.parts or (node,))[0]
    dtypes = {value.dtype for value in (*first.inputs, *first.outputs)}
    is_canonical = first.kind == kind and len(first.inputs) == 2 and attributes <= first.attributes.keys()
    return first if is_canonical and len(dtypes) == 1 and dtypes <= _DTYPES and len(node.outputs) == 1 else None


def _product_task(
    node: Node,
    template: str,
    shape: Sequence[int],
    arguments: Mapping[str, Any],
    target: Target,
    weights: tuple[tuple[int, ...], str],
) -> NodeTask | None:
    """Return the task of a product or a convolution, and of the other parts of the node.

    Args:
        weights: the shape and the layout of the second operand for packing.
    """
    x, w = (node.parts or (node,))[0].inputs
    pack = partial(_packed, *weights) if arguments["weights"] == "packed" else None
    return _node_task(node, template, arguments, target, [Argument(x), Argument(w, pack)], shape)


def _node_task(
    node: Node,
    template: str,
    arguments: Mapping[str, Any],
    target: Target,
    operands: Sequence[Argument],
    shape: Sequence[int] = (),
) -> NodeTask | None:
    """Return the task of a template with the other parts of a node as its epilogue; None if that is impossible."""
    first, *others = node.parts or (node,)
    made = {value for part in (first, *others) for value in part.outputs}
    further = list(dict.fromkeys(value for part in others for value in part.inputs if value not in made))
    try:
        task = pb.create_task(template, shape, arguments, target=target)
        if others:
            task = task.with_epilogue(partial(_epilogue, node, further))
    except TemplateError:
        return None
    return NodeTask(node, task, (*operands, *map(Argument, further), Argument(node.outputs[0])))


def _packed(shape: tuple[int, ...], layout: str, task: Task, array: Array) -> Array:
    base = task.base
    pack = base.template.packer(base.workload[1])
    given = array.reshape(shape)
    return given if pack is None else pack(base, given, {"weights": layout} if layout else {})


def _epilogue(node: Node, further: Sequence[Value], source: te.Tensor) -> list[te.Tensor]:
    """Compute the parts of a node after the first from its output; with the model's names, equal ones would differ."""
    first, *others = node.parts
    known = {first.outputs[0]: reshaped(source, first.outputs[0].shape)}
    inputs = []
    for number, value in enumerate(further):
        shape = source.shape if math.prod(value.shape) == math.prod(source.shape) else value.shape
        inputs.append(te.placeholder(shape, value.dtype, f"p{number}"))
        known[value] = reshaped(inputs[-1], value.shape)
    for part in others:
        known |= zip(part.outputs, part.compute(*(known[value] for value in part.inputs)), strict=True)
    last = reshaped(known[node.outputs[0]], source.shape)
    return [*inputs, te.compute(source.shape, lambda *at: last(*at), name="out")]
