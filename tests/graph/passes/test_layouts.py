"""Channel-last regions: their borders, the nodes in them, and what they compute."""

from __future__ import annotations

from dataclasses import replace

import pytest
from graphs import added, check_same_values, convolution, graph_of, graphs, reduced, relu
from hypothesis import given

from pegbox import te
from pegbox.graph import Graph, Value, matmul_node, reshape_node, transpose_node
from pegbox.graph.passes.fusion import fusion
from pegbox.graph.passes.layouts import layouts
from tests.helpers.optimized import conv_transpose

X = Value("x", (1, 4, 6, 5), "float32")
W = Value("w", (8, 4, 3, 3), "float32")


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def test_a_region_has_transposes_at_its_borders() -> None:
    conv = convolution("c", X, W)
    act = relu("y", *conv.outputs)
    graph = graph_of([conv, act], [X], act.outputs, [W])
    made = layouts(graph)
    attributes = "strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), group=1, layout=NHWC"
    assert str(made).splitlines() == [
        "graph g(x: float32[1, 4, 6, 5]):",
        "    x.last: float32[1, 6, 5, 4] = Transpose(x, perm=(0, 2, 3, 1))",
        f"    c.last: float32[1, 6, 5, 8] = Conv(x.last, w, {attributes})",
        "    y.last: float32[1, 6, 5, 8] = Relu(c.last, layout=NHWC)",
        "    y: float32[1, 8, 6, 5] = Transpose(y.last, perm=(0, 3, 1, 2))",
        "    return y",
    ]
    check_same_values(graph, made)


def test_a_graph_without_convolutions_stays_as_it_is() -> None:
    act = relu("y", X)
    product = matmul_node("m", *act.outputs, Value("k", (5, 5), "float32"))
    graph = graph_of([act, product], [X], product.outputs, [product.inputs[1]])
    assert str(layouts(graph)) == str(graph)


def test_nodes_without_convolutions_become_channel_last_on_request() -> None:
    total = reduced("t", X, [2, 3])
    graph = graph_of([total], [X], total.outputs)
    made = layouts(graph, everywhere=True)
    assert kinds(made) == ["Transpose", "ReduceSum", "Reshape"]
    check_same_values(graph, made)


def test_neighbours_in_a_region_have_no_transposes_between_them() -> None:
    conv = convolution("c", X, W)
    bias = Value("b", (8, 1, 1), "float32")
    shifted = added("s", *conv.outputs, bias)
    depthwise = Value("d", (8, 1, 3, 3), "float32")
    again = convolution("a", *shifted.outputs, depthwise, group=8)
    total = reduced("t", *again.outputs, [2, 3])
    flat = reshape_node("f", *total.outputs, (1, 8))
    graph = graph_of([conv, shifted, again, total, flat], [X], flat.outputs, [W, bias, depthwise])
    made = layouts(graph)
    assert kinds(made) == ["Transpose", "Conv", "Add", "Conv", "ReduceSum", "Reshape"]
    assert made.nodes[3].inputs[1].shape == (3, 3, 1, 8)
    check_same_values(graph, made)


@pytest.mark.parametrize("axis", [2, 3])
def test_one_axis_of_pixels_is_reduced_with_channels_last(axis: int) -> None:
    conv = convolution("c", X, W)
    total = reduced("t", *conv.outputs, [axis], keep=False)
    graph = graph_of([conv, total], [X], total.outputs, [W])
    made = layouts(graph)
    left = X.shape[5 - axis]
    assert [value.shape for node in made.nodes[2:] for value in node.outputs] == [(1, left, 8), (1, 8, left)]
    assert kinds(made) == ["Transpose", "Conv", "ReduceSum", "Transpose"]
    check_same_values(graph, made)


@pytest.mark.parametrize("axes", [[1], [0], [2, 3]])
def test_other_reductions_to_fewer_axes_keep_their_outputs(axes: list[int]) -> None:
    conv = convolution("c", X, W)
    total = reduced("t", *conv.outputs, axes, keep=False)
    graph = graph_of([conv, total], [X], total.outputs, [W])
    made = layouts(graph)
    assert kinds(made) == ["Transpose", "Conv", "ReduceSum"]
    check_same_values(graph, made)


def test_an_average_over_channels_keeps_its_output() -> None:
    conv = convolution("c", X, W)
    total = reduced("t", *conv.outputs, [1], keep=False)

    def average(x: te.Tensor) -> list[te.Tensor]:
        (sums,) = total.compute(x)
        return [te.compute(sums.shape, lambda *at: sums(*at) / x.shape[1], name="mean")]

    graph = graph_of([conv, replace(total, compute=average)], [X], total.outputs, [W])
    made = layouts(graph)
    assert kinds(made) == ["Transpose", "Conv", "ReduceSum"]
    check_same_values(graph, made)


def test_a_product_gets_its_own_layout_back() -> None:
    conv = convolution("c", X, W)
    product = matmul_node("m", *conv.outputs, Value("k", (5, 3), "float32"))
    graph = graph_of([conv, product], [X], product.outputs, [W, product.inputs[1]])
    made = layouts(graph)
    assert kinds(made) == ["Transpose", "Conv", "Transpose", "MatMul"]
    check_same_values(graph, made)


def test_a_transpose_out_of_the_region_is_joined_with_the_border() -> None:
    conv = convolution("c", X, W)
    last = transpose_node("t", *conv.outputs, (0, 2, 3, 1))
    other = transpose_node("o", *conv.outputs, (0, 3, 2, 1))
    graph = graph_of([conv, last, other], [X], [*last.outputs, *other.outputs], [W])
    made = layouts(graph)
    assert kinds(made) == ["Transpose", "Conv", "Reshape", "Transpose"]
    assert made.nodes[-1].attributes["perm"] == (0, 2, 1, 3)
    check_same_values(graph, made)


def test_transposes_of_one_channel_are_views() -> None:
    x, w = Value("x", (1, 1, 6, 5), "float32"), Value("w", (1, 1, 3, 3), "float32")
    conv = convolution("c", x, w)
    graph = graph_of([conv], [x], conv.outputs, [w])
    assert kinds(layouts(graph)) == ["Reshape", "Conv", "Reshape"]


def test_an_operand_that_stays_out_of_the_region_is_transposed_once() -> None:
    conv = convolution("c", X, W)
    other = Value("o", (1, 8, 6, 5), "float32")
    first, second = added("s", *conv.outputs, other), added("t", *conv.outputs, other)
    both = added("y", *first.outputs, *second.outputs)
    graph = graph_of([conv, first, second, both], [X, other], both.outputs, [W])
    made = layouts(graph)
    assert kinds(made) == ["Transpose", "Conv", "Transpose", "Add", "Add", "Add", "Transpose"]
    check_same_values(graph, made)


def test_operands_of_higher_rank_stay_as_they_are() -> None:
    conv = convolution("c", X, W)
    constant, other = Value("k", (2, 1, 1, 1, 1), "float32"), Value("o", (3, 1, 8, 1, 5), "float32")
    nodes = [conv, added("y", *conv.outputs, constant), added("z", other, *conv.outputs)]
    graph = graph_of(nodes, [X, other], [*nodes[1].outputs, *nodes[2].outputs], [W, constant])
    check_same_values(graph, layouts(graph))


@pytest.mark.parametrize(("outputs", "name"), [(3, "y"), (8, "y.last")])
def test_transposed_convolutions_with_few_outputs_keep_their_layout(outputs: int, name: str) -> None:
    conv, v = convolution("c", X, W), Value("v", (8, outputs, 4, 4), "float32")
    node = conv_transpose("y", *conv.outputs, v, strides=(2, 2), pads=[1] * 4)
    graph = graph_of([conv, node], [X], node.outputs, [W, v])
    made = layouts(graph)
    assert [each.name for each in made.nodes if each.kind == "ConvTranspose"] == [name]
    check_same_values(graph, made)


def test_filters_that_a_convolution_makes_have_their_own_layout() -> None:
    filters = convolution("f", Value("k", (2, 4, 3, 3), "float32"), W)
    graph = graph_of(
        [filters, conv := convolution("c", Value("i", (1, 8, 6, 5), "float32"), *filters.outputs)],
        [filters.inputs[0], conv.inputs[0]], conv.outputs, [W],
    )  # fmt: skip
    made = layouts(graph)
    assert kinds(made) == ["Transpose", "Conv", "Transpose", "Transpose", "Conv", "Transpose"]
    check_same_values(graph, made)


@given(graphs())
def test_random_graphs_compute_the_same(graph: Graph) -> None:
    made = layouts(graph)
    check_same_values(graph, made)
    check_same_values(graph, fusion(made))
