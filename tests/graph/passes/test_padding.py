"""Borders of zeros that convolutions take over, and borders that stay."""

from __future__ import annotations

import pytest
from graphs import check_same_values, convolution, graph_of

from pegbox import te
from pegbox.compute import padded
from pegbox.graph import Node, Value, make_node, transpose_node
from pegbox.graph.passes.dead_nodes import dead_nodes
from pegbox.graph.passes.padding import borders_of, padding

X, W = Value("x", (1, 4, 6, 5), "float32"), Value("w", (8, 4, 3, 3), "float32")


def pad(*borders: tuple[int, int], value: float = 0.0) -> Node:
    before, after = zip(*borders, strict=True)
    return make_node("p", "Pad", [X], lambda x: [padded(x, before, after, value)])


def test_a_border_of_zeros_becomes_that_of_the_convolution() -> None:
    border = pad((0, 0), (0, 0), (1, 2), (0, 3))
    conv = convolution("c", *border.outputs, W, stride=2)
    graph = graph_of([border, conv], [X], conv.outputs, [W])
    made = dead_nodes(padding(graph))
    assert [node.kind for node in made.nodes] == ["Conv"]
    assert made.nodes[0].attributes["pads"] == (2, 1, 3, 4)
    check_same_values(graph, made)


@pytest.mark.parametrize(
    "border",
    [
        pad((0, 0), (0, 0), (1, 1), (0, 0), value=1.0),
        pad((0, 0), (1, 0), (1, 1), (0, 0)),
        transpose_node("t", X, (0, 1, 3, 2)),
    ],
    ids=["of ones", "of channels", "none"],
)  # fmt: skip
def test_other_nodes_in_front_of_a_convolution_stay(border: Node) -> None:
    filters = Value("w", (8, border.outputs[0].shape[1], 3, 3), "float32")
    conv = convolution("c", *border.outputs, filters)
    graph = graph_of([border, conv], [X], conv.outputs, [filters])
    made = padding(graph)
    assert [node.kind for node in made.nodes] == [border.kind, "Conv"]


def test_a_mask_inside_of_the_image_is_no_border() -> None:
    def masked(x: te.Tensor) -> list[te.Tensor]:
        return [te.compute(x.shape, lambda n, c, y, z: te.if_then_else(y >= 1, x[n, c, y, z], 0.0), name="y")]

    def shifted(x: te.Tensor) -> list[te.Tensor]:
        return [te.compute(x.shape, lambda n, c, y, z: te.if_then_else(y >= 1, x[n, c, y - 1, z], 0.0), name="y")]

    assert borders_of(make_node("m", "Mask", [X], masked)) is None
    assert borders_of(make_node("s", "Shift", [X], shifted)) is None
    assert borders_of(pad((0, 0), (0, 0), (1, 0), (0, 2))) == ((0, 0), (0, 0), (1, 0), (0, 2))
