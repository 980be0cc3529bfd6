"""Scales and shifts around convolutions and products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pegbox.graph import Node, Value, conv_node, matmul_node
from pegbox.graph.passes.linear_folding import linear_folding
from tests.helpers.graphs import added, relu
from tests.helpers.optimized import (
    Constants,
    check_pass,
    check_stays,
    check_values,
    exponential,
    graph_of,
    multiplied,
)

Golden = Callable[[object], None]
X = Value("x", (1, 4, 5, 5), "float32")


def convolution(name: str, x: Value, w: Value, *, pad: int = 1, group: int = 1, layout: str = "NCHW") -> Node:
    return conv_node(name, x, w, strides=(1, 1), pads=(pad,) * 4, dilations=(1, 1), group=group, layout=layout)


def test_a_scale_and_shifts_behind_a_convolution_go_into_it(golden: Golden) -> None:
    constants = Constants()
    c = convolution("c", X, constants.random("w", 6, 4, 3, 3))
    b = added("b", *c.outputs, constants.random("bias", 6, 1, 1))
    s = multiplied("s", constants.random("scale", 6, 1, 1), *b.outputs)
    n = added("n", *s.outputs, constants.random("shift", 6, 1, 1))
    check_pass(linear_folding, graph_of([c, b, s, n, relu("y", *n.outputs)], constants), golden)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_scale_in_front_of_a_grouped_convolution_goes_into_it(layout: str) -> None:
    constants = Constants()
    shape, channels = ((1, 4, 5, 5), (4, 1, 1)) if layout == "NCHW" else ((1, 5, 5, 4), (4,))
    s = multiplied("s", Value("x", shape, "float32"), constants.add("scale", np.arange(1, 5).reshape(channels)))
    c = convolution("c", *s.outputs, constants.random("w", 6, 2, 3, 3), group=2, layout=layout)
    graph = graph_of([s, c], constants)
    made = linear_folding(graph)
    assert [node.kind for node in made.nodes] == ["Conv"]
    check_values(graph, made)


def test_a_shift_does_not_pass_a_border(golden: Golden) -> None:
    constants = Constants()
    s = multiplied("s", X, constants.random("scale", 4, 1, 1))
    b = added("b", *s.outputs, constants.random("shift", 4, 1, 1))
    c = convolution("c", *b.outputs, constants.random("w", 6, 4, 3, 3))
    graph = graph_of([s, b, c], constants)
    golden(graph)
    check_stays(linear_folding, graph)


def test_a_shift_passes_where_there_is_no_border(golden: Golden) -> None:
    constants = Constants()
    s = multiplied("s", X, constants.random("scale", 4, 1, 1))
    b = added("b", *s.outputs, constants.random("shift", 4, 1, 1))
    c = convolution("c", *b.outputs, constants.random("w", 6, 2, 3, 3), pad=0, group=2)
    d = added("d", *c.outputs, constants.random("bias", 6, 1, 1))
    check_pass(linear_folding, graph_of([s, b, c, d], constants), golden)


def test_a_scale_around_a_product_goes_into_it(golden: Golden) -> None:
    constants = Constants()
    x = Value("x", (2, 3, 4), "float32")
    s = multiplied("s", x, constants.random("gamma", 4))
    b = added("b", *s.outputs, constants.random("beta", 4))
    m = matmul_node("m", *b.outputs, constants.random("w", 4, 5))
    t = multiplied("t", *m.outputs, constants.add("half", 0.5))
    check_pass(linear_folding, graph_of([s, b, m, t], constants), golden)


def refused(kind: str) -> list[tuple[list[Node], Constants]]:
    """List nodes whose scale stays."""
    constants = Constants()
    w = constants.random("w", 6, 4, 3, 3)
    c = convolution("c", X, w)
    scales = {
        "another reader": (6, 1, 1), "an output": (6, 1, 1), "of pixels": (5, 5), "of a batch": (2, 1, 1, 1),
        "of all": (6, 5, 5), "computed": (6, 1, 1),
    }  # fmt: skip
    scale = Value("scale", (6, 1, 1), "float32") if kind == "computed" else constants.random("scale", *scales[kind])
    s = multiplied("s", *c.outputs, scale)
    nodes = [c, s, *([exponential("e", *c.outputs)] if kind == "another reader" else [])]
    return [(nodes, constants)]


@pytest.mark.parametrize("kind", ["another reader", "an output", "of pixels", "of a batch", "of all", "computed"])
def test_a_scale_stays(kind: str) -> None:
    ((nodes, constants),) = refused(kind)
    outputs = [node.outputs[0] for node in (nodes if kind == "an output" else nodes[1:])]
    check_stays(linear_folding, graph_of(nodes, constants, *outputs))


@pytest.mark.parametrize("number", [np.inf, np.nan, 1e30, 1e-30])
def test_a_scale_that_may_overflow_stays(number: float) -> None:
    constants = Constants()
    c = convolution("c", X, constants.random("w", 6, 4, 3, 3))
    check_stays(linear_folding, graph_of([c, multiplied("s", *c.outputs, constants.add("s", number))], constants))


def test_weights_that_are_not_finite_stay() -> None:
    constants = Constants()
    c = convolution("c", X, constants.add("w", np.full((6, 4, 1, 1), np.inf)), pad=0)
    check_stays(linear_folding, graph_of([c, multiplied("s", *c.outputs, constants.add("s", 0.0))], constants))


def test_scales_and_shifts_that_follow_each_other_are_joined(golden: Golden) -> None:
    constants = Constants()
    nodes = [multiplied("a", X, constants.random("a", 4, 1, 1))]
    nodes.append(added("b", *nodes[-1].outputs, constants.random("b", 1)))
    nodes.append(multiplied("c", *nodes[-1].outputs, constants.random("c", 4, 1, 1)))
    nodes.append(added("d", *nodes[-1].outputs, constants.random("d", 4, 1, 1)))
    check_pass(linear_folding, graph_of(nodes, constants), golden)


def test_shifts_that_round_on_purpose_are_not_joined() -> None:
    constants = Constants()
    a = added("a", X, constants.add("big", 1.5 * 2**23))
    b = added("b", *a.outputs, constants.add("back", -1.5 * 2**23))
    check_stays(linear_folding, graph_of([a, b], constants))


def test_joined_constants_do_not_grow() -> None:
    constants = Constants()
    a = multiplied("a", X, constants.random("a", 4, 1, 1))
    check_stays(linear_folding, graph_of([a, multiplied("b", *a.outputs, constants.random("b", 5, 5))], constants))


def test_integers_stay() -> None:
    constants = Constants()
    a = multiplied("a", Value("x", (3,), "int32"), constants.add("a", 3, "int32"))
    check_stays(linear_folding, graph_of([a, multiplied("b", *a.outputs, constants.add("b", 5, "int32"))], constants))


def test_scales_that_vanish_together_are_not_joined() -> None:
    constants = Constants()
    tiny = constants.add("tiny", 2.0**-60)
    nodes = [multiplied("a", X, tiny)]
    for name in "bc":
        nodes.append(multiplied(name, *nodes[-1].outputs, tiny))
    check_stays(linear_folding, graph_of(nodes, constants))


def test_long_chains_of_scales_are_joined_in_parts() -> None:
    constants = Constants()
    nodes = [multiplied("m0", X, constants.add("tiny", 2.0**-30))]
    for number in range(1, 6):
        nodes.append(multiplied(f"m{number}", *nodes[-1].outputs, constants.add(f"s{number}", 2.0**-20)))
    graph = graph_of(nodes, constants)
    made = linear_folding(graph)
    assert len(made.nodes) == 3
    check_values(graph, made)


@pytest.mark.parametrize(("dtype", "weight", "number"), [("float32", 1e-28, 1e-18), ("float16", 1.1e-3, 0.0079)])
def test_weights_that_would_lose_digits_stay(dtype: str, weight: float, number: float) -> None:
    constants = Constants()
    m = matmul_node("m", Value("x", (2, 3), dtype), constants.add("w", np.full((3, 4), weight), dtype))
    check_stays(
        linear_folding, graph_of([m, multiplied("s", *m.outputs, constants.add("s", number, dtype))], constants)
    )
