"""Implementations of a model's nodes by templates."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pytest
from epilogues import ACTIVATIONS

import pegbox as pb
from pegbox import te
from pegbox.codegen.targets.target import target_of
from pegbox.graph import (
    Node,
    Value,
    attention_node,
    conv_node,
    evaluate,
    make_node,
    matmul_node,
    pointwise_node,
    reshape_node,
)
from pegbox.graph.graph import Array, Graph
from pegbox.graph.passes.layouts import layouts
from pegbox.hooks import registry
from pegbox.model import NodeTask
from pegbox.model.node_task import implementations_of

TARGET = target_of("llvm -num-cores 1")


def value(name: str, *shape: int, dtype: str = "float32") -> Value:
    return Value(name, shape, dtype)


def fused(*parts: Node) -> Node:
    """Make one node of several, of which the last makes the output."""
    made = {each for part in parts for each in part.outputs}
    inputs = tuple(dict.fromkeys(each for part in parts for each in part.inputs if each not in made))

    def compute(*tensors: te.Tensor) -> Sequence[te.Tensor]:
        known = dict(zip(inputs, tensors, strict=True))
        for part in parts:
            known |= zip(part.outputs, part.compute(*(known[each] for each in part.inputs)), strict=True)
        return [known[each] for each in parts[-1].outputs]

    return Node("fused", "Fused", inputs, parts[-1].outputs, compute, parts=parts)


def followed(first: Node, *shapes: tuple[int, ...]) -> Node:
    """Follow a node by a sum with inputs of these shapes, and an activation."""
    parts = [first]
    for number, shape in enumerate(shapes):
        given = value(f"given{number}", *shape)
        parts.append(pointwise_node(f"add{number}", "Add", lambda a, b: a + b, [parts[-1].outputs[0], given]))
    return fused(*parts, pointwise_node("end", "HardSwish", ACTIVATIONS["hard_swish"], parts[-1].outputs))


def implemented(
    node: Node, constants: Collection[Value] = (), place: int = 0
) -> tuple[NodeTask | None, dict[Value, Array]]:
    rng = np.random.default_rng(0)
    arrays: dict[Value, Array] = {each: rng.uniform(-1, 1, each.shape).astype(each.dtype) for each in node.inputs}
    found = implementations_of(node, {each: arrays[each] for each in constants}, TARGET)[:-1]
    return (found[place] if place < len(found) else None), arrays


def check(
    node: Node, template: str, constants: Collection[Value] = (), *, place: int = 0, packs: bool | None = None
) -> pb.Task:
    """Check that the task of the template computes the node from its arrays, as they are or packed.

    Further implementations, behind the one in place 0, take all arrays as they are, unless the argument says otherwise.
    """
    packs = place == 0 if packs is None else packs
    made, arrays = implemented(node, constants, place)
    assert made is not None
    assert made.task.base.name == template
    packed = {argument.value for argument in made.arguments if argument.pack is not None}
    assert packed == (set(constants) & {(node.parts or (node,))[0].inputs[1]} if packs else set())
    (expected,) = evaluate(Graph("g", node.inputs, node.outputs, (node,), {}), arrays)
    for row in made.task.space.sample(2, np.random.default_rng(0)):
        given = []
        for argument, spec in zip(made.arguments, made.task.arguments(), strict=True):
            if spec.is_output:
                given.append(np.full(spec.shape, np.nan, spec.dtype))
            elif argument.pack is not None:
                given.append(argument.pack(made.task, arrays[argument.value]))
            else:
                given.append(arrays[argument.value].reshape(spec.shape))
        pb.build(made.task, config=made.task.space.config(row))(*given)
        assert made.arguments[-1].value is node.outputs[0]
        np.testing.assert_allclose(given[-1].reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)
    return made.task


def convolution(x: tuple[int, ...], w: tuple[int, ...], **attributes: Any) -> Node:
    axes = len(x) - 2
    usual = {"strides": [1] * axes, "pads": [1] * 2 * axes, "dilations": [1] * axes}
    return conv_node("conv", value("x", *x), value("w", *w), **{**usual, **attributes})


DEPTHWISE: list[tuple[Node, list[tuple[int, ...]]]] = [
    (convolution((1, 6, 9, 8), (6, 1, 3, 3), group=6), [(6, 1, 1), (1, 6, 9, 8)]),
    (convolution((2, 9, 8, 12), (12, 1, 5, 5), layout="NHWC", strides=[2, 2], pads=[2] * 4, group=12), [(12,)]),
    (convolution((1, 5, 19), (5, 1, 3), group=5), []),
]


@pytest.mark.parametrize(("node", "further"), DEPTHWISE)
def test_depthwise_convolutions(node: Node, further: list[tuple[int, ...]]) -> None:
    task = check(followed(node, *further), "depthwise_conv2d")
    assert task.name.startswith("depthwise_conv2d+out-")


def test_convolutions_in_groups_have_a_task_where_layouts_puts_the_channels_last() -> None:
    node = convolution((1, 8, 9, 7), (16, 2, 3, 3), group=4, pads=[1] * 4, strides=[2, 1])
    constants = {node.inputs[1]: np.random.default_rng(0).standard_normal((16, 2, 3, 3), np.float32)}
    graph = layouts(Graph("g", node.inputs[:1], node.outputs, (node,), constants))
    (found,) = (each for each in graph.nodes if each.kind == "Conv")
    for known in ([], [found.inputs[1]]):
        check(found, "group_conv2d", known)


def test_several_filters_for_each_channel_are_groups_of_one() -> None:
    node = convolution((1, 6, 9, 7), (12, 1, 3, 3), group=6, pads=[1] * 4)
    constants = {node.inputs[1]: np.random.default_rng(0).standard_normal((12, 1, 3, 3), np.float32)}
    graph = layouts(Graph("g", node.inputs[:1], node.outputs, (node,), constants))
    (found,) = (each for each in graph.nodes if each.kind == "Conv")
    for known in ([], [found.inputs[1]]):
        check(found, "group_conv2d", known)


@pytest.mark.parametrize(
    "node",
    [
        convolution((1, 6, 9, 8), (6, 3, 3, 3), group=2),
        convolution((1, 6, 9, 8), (12, 1, 3, 3), group=6),
        convolution((1, 2, 5, 5, 5), (2, 1, 3, 3, 3), group=2),
    ],
)
def test_other_groups_have_no_depthwise_task(node: Node) -> None:
    assert implemented(node)[0] is None


CONVOLUTIONS: list[tuple[Node, list[tuple[int, ...]]]] = [
    (convolution((1, 3, 9, 8), (10, 3, 3, 3)), [(10, 1, 1), (1, 10, 9, 8)]),
    (convolution((2, 9, 8, 5), (7, 5, 3, 3), layout="NHWC", strides=[2, 1]), [(7,), (2, 5, 8, 7)]),
    (convolution((1, 6, 7, 5), (18, 5, 3, 2), layout="NHWC", pads=[0, 1, 2, 0]), [(1, 6, 7, 18)]),
    (convolution((1, 4, 19), (6, 4, 3), dilations=[2]), [(6, 1)]),
    (convolution((1, 19, 4), (6, 4, 3), layout="NHWC", pads=[2, 1]), []),
]


@pytest.mark.parametrize(("node", "further"), CONVOLUTIONS)
@pytest.mark.parametrize("is_constant", [True, False])
def test_convolutions(node: Node, further: list[tuple[int, ...]], is_constant: bool) -> None:
    task = check(followed(node, *further), "conv2d", [node.inputs[1]] if is_constant else [])
    assert task.name.startswith("conv2d+out-")


def test_a_convolution_alone_is_the_template_s_task() -> None:
    node = convolution((1, 3, 9, 8), (10, 3, 3, 3))
    assert check(node, "conv2d", [node.inputs[1]]).name == "conv2d"


PIXELS: list[tuple[Node, list[tuple[int, ...]]]] = [
    (convolution((1, 6, 19), (20, 6, 1), pads=[0, 0]), [(20, 1), (1, 20, 19)]),
    (convolution((1, 6, 5, 7), (9, 6, 1, 1), pads=[0] * 4), [(9, 1, 1)]),
]


@pytest.mark.parametrize(("node", "further"), PIXELS)
@pytest.mark.parametrize("is_constant", [True, False])
def test_convolutions_of_single_pixels_are_also_products_of_filters_and_pixels(
    node: Node, further: list[tuple[int, ...]], is_constant: bool
) -> None:
    check(followed(node, *further), "matmul", [node.inputs[1]] if is_constant else [], place=1)


def test_three_dimensional_convolutions_of_single_pixels_are_products() -> None:
    check(convolution((1, 3, 4, 3, 2), (5, 3, 1, 1, 1), pads=[0] * 6), "matmul")


def test_groups_of_single_pixels_are_products_side_by_side() -> None:
    node = convolution((1, 6, 19), (20, 3, 1), pads=[0, 0], group=2)
    check(followed(node, (20, 1), (1, 20, 19)), "batch_matmul")


@pytest.mark.parametrize("shape", [(1, 14, 15, 128), (2, 9, 11, 128), (1, 210, 128)])
def test_channel_last_pixels_are_also_products_by_strassens_algorithm(shape: tuple[int, ...]) -> None:
    window = [1] * (len(shape) - 2)
    node = convolution(shape, (160, 128, *window), pads=[0] * 2 * len(window), layout="NHWC")
    node, w = followed(node, (160,), (*shape[:-1], 160)), node.inputs[1]
    _, arrays = implemented(node, [w])
    names = [each.task.base.name for each in implementations_of(node, {w: arrays[w]}, TARGET)]
    assert names[0] == "conv2d"
    for name in ("matmul", "matmul_strassen"):
        check(node, name, [w], place=names.index(name), packs=True)


@pytest.mark.parametrize(
    "node",
    [
        convolution((2, 6, 19), (20, 6, 1), pads=[0, 0]),
        convolution((1, 6, 19), (20, 6, 1), pads=[0, 0], strides=[2]),
        convolution((1, 6, 19), (20, 6, 1), pads=[0, 1]),
        convolution((1, 6, 19), (20, 6, 3)),
        convolution((1, 6, 19), (6, 1, 1), pads=[0, 0], group=6),
        convolution((1, 5, 7, 6), (9, 6, 1, 1), pads=[0] * 4, layout="NHWC"),
    ],
)
def test_other_convolutions_are_not_products_of_filters_and_pixels(node: Node) -> None:
    names = {each.task.base.name for each in implementations_of(node, {}, TARGET)}
    assert names.isdisjoint({"matmul", "batch_matmul"})


@pytest.mark.parametrize(("shape", "pixels"), [((3, 5, 7, 6), (15, 7)), ((3, 5, 6), (3, 5))])
def test_channel_last_images_of_single_pixels_are_one_image(shape: tuple[int, ...], pixels: tuple[int, int]) -> None:
    window = [1] * (len(shape) - 2)
    node = convolution(shape, (9, 6, *window), pads=[0] * 2 * len(window), layout="NHWC")
    task = check(followed(node, (9,), (*shape[:-1], 9)), "conv2d", [node.inputs[1]])
    assert [task.base.workload[1][name] for name in "NHW"] == [1, *pixels]


def test_images_whose_pixels_have_neighbours_stay_apart() -> None:
    node = convolution((3, 5, 7, 6), (9, 6, 1, 1), pads=[0] * 4, strides=[2, 1], layout="NHWC")
    assert check(node, "conv2d").workload[1]["N"] == 3


PRODUCTS: list[tuple[tuple[int, ...], tuple[int, ...], str, list[tuple[int, ...]]]] = [
    ((6, 8), (8, 20), "matmul", [(20,)]),
    ((2, 7, 12), (12, 20), "matmul", [(20,), (2, 7, 20), (1, 7, 20), (2, 1, 1)]),
    ((2, 7, 12), (1, 12, 20), "matmul", [(20,)]),
    ((8,), (8, 20), "matmul", [(20,)]),
    ((3, 70), (70,), "matmul", [(3,)]),
    ((2, 3, 7, 8), (2, 3, 8, 9), "batch_matmul", [(2, 1, 1, 9), (1,)]),
]


@pytest.mark.parametrize(("a", "b", "template", "further"), PRODUCTS)
@pytest.mark.parametrize("is_constant", [True, False])
def test_products(
    a: tuple[int, ...], b: tuple[int, ...], template: str, further: list[tuple[int, ...]], is_constant: bool
) -> None:
    node = matmul_node("product", value("a", *a), value("b", *b))
    check(followed(node, *further), template, [node.inputs[1]] if is_constant else [])


def test_the_input_of_a_convolution_may_be_its_residual() -> None:
    node = convolution((1, 5, 6, 6), (5, 5, 3, 3))
    add = pointwise_node("add", "Add", lambda a, b: a + b, [node.outputs[0], node.inputs[0]])
    check(fused(node, add), "conv2d", [node.inputs[1]])


def test_names_of_the_model_do_not_tell_tasks_apart() -> None:
    def named(name: str) -> NodeTask | None:
        node = matmul_node(name, value(f"{name}a", 4, 8), value(f"{name}b", 8, 20))
        add = pointwise_node(f"{name}add", "Add", lambda a, b: a + b, [node.outputs[0], value(f"{name}c", 20)])
        return implemented(fused(node, add))[0]

    one, other = named("first"), named("second")
    assert one is not None
    assert other is not None
    assert one.task.workload == other.task.workload


def softmax_like(x: te.Tensor) -> Sequence[te.Tensor]:
    k = te.reduce_axis((0, x.shape[1]), name="k")
    total = te.compute((x.shape[0],), lambda i: te.sum(x[i, k], axis=k), name="total")
    return [te.compute(x.shape, lambda i, j: x[i, j] / total[i], name="shares")]


def product_then(make: Any) -> Node:
    node = matmul_node("product", value("a", 6, 8), value("b", 8, 20))
    return fused(node, make(node.outputs[0]))


@pytest.mark.parametrize(
    "node",
    [
        convolution((1, 4, 9, 9), (6, 2, 3, 3), group=2),
        convolution((1, 2, 4, 4, 4), (3, 2, 3, 3, 3)),
        conv_node("c", value("x", 1, 2, 4, 4, dtype="int32"), value("w", 3, 2, 1, 1, dtype="int32"),
                  strides=[1, 1], pads=[0] * 4, dilations=[1, 1]),
        matmul_node("broadcast", value("a", 1, 6, 8), value("b", 3, 8, 20)),
        product_then(lambda x: make_node("share", "Share", [x], softmax_like)),
        product_then(lambda x: make_node("turn", "Turn", [x],
                     lambda t: [te.compute(t.shape, lambda i, j: t[5 - i, j], name="turned")])),
        product_then(lambda x: pointwise_node("grow", "Add", lambda a, b: a + b, [x, value("c", 3, 1, 1)])),
        pointwise_node("relu", "Relu", ACTIVATIONS["relu"], [value("x", 5)]),
    ],
)  # fmt: skip
def test_other_nodes_are_left_to_others(node: Node) -> None:
    assert implemented(node)[0] is None


def test_a_view_behind_a_product_is_part_of_it() -> None:
    check(product_then(lambda x: reshape_node("heads", x, (6, 4, 5))), "matmul")


def test_a_convolution_that_is_not_canonical_is_left_to_others() -> None:
    canonical = convolution((1, 3, 9, 8), (10, 3, 3, 3))
    raw = Node("conv", "Conv", canonical.inputs, canonical.outputs, canonical.compute, {"auto_pad": "VALID"})
    assert implemented(raw)[0] is None


def test_their_names() -> None:
    assert {"conv2d", "matmul"} <= set(registry.names("node_task"))


@pytest.mark.parametrize(("layout", "bias"), [("BHND", None), ("BNHD", (1, 2, 1, 6)), ("BN3HD", (1, 1, 5, 5))])
def test_attention_has_the_layout_and_the_bias_of_the_node(layout: str, bias: tuple[int, ...] | None) -> None:
    joined = "3" in layout
    shapes = [(1, 5, 3, 2, 4)] if joined else [(1, n, 2, 4) if layout == "BNHD" else (1, 2, n, 4) for n in (5, 6, 6)]
    arrays = [value(name, *shape) for name, shape in zip("qkv", shapes, strict=False)]
    given = None if bias is None else value("bias", *bias)
    task = check(attention_node("a", arrays, given, layout=layout, scale=0.3, causal=bias is None), "attention")
    assert task.workload[1]["layout"] == layout
    assert task.workload[1]["bias"] == (None if bias is None else "H" if bias[1] > 1 else "N")


def test_an_attention_is_followed_by_pointwise_nodes() -> None:
    arrays = [value(name, 1, n, 2, 4) for name, n in zip("qkv", (5, 6, 6), strict=True)]
    check(followed(attention_node("a", arrays, layout="BNHD", scale=0.3), (1, 5, 2, 4)), "attention")


def test_an_attention_of_another_reader_has_no_template() -> None:
    arrays = [value(name, 1, 2, 5, 4, dtype="float16") for name in "qkv"]
    node = Node("a", "Attention", tuple(arrays), (value("o", 1, 2, 5, 4, dtype="float16"),), lambda *t: t, {})
    assert registry.get("node_task", "attention")(node, {}, TARGET) is None
