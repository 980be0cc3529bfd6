"""All passes, on random graphs."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pegbox import te
from pegbox.graph import (
    Graph,
    Node,
    Value,
    conv_node,
    make_node,
    matmul_node,
    pointwise_node,
    reshape_node,
    transpose_node,
)
from pegbox.graph.passes import optimize
from tests.helpers.graphs import added, relu
from tests.helpers.optimized import Constants, batch_normalization, check_values, graph_of, multiplied


def _constant(draw: Any, name: str, value: Value, constants: Constants) -> Value:
    """Draw a constant that can be broadcast to a value."""
    shape = [draw(st.sampled_from([1, extent])) for extent in value.shape]
    given = shape[draw(st.integers(0, len(shape))) :]
    return (
        constants.add(name, draw(st.sampled_from([0.0, 1.0, 0.5])) * np.ones(given))
        if draw(st.booleans())
        else (constants.random(name, *given))
    )


def _split(name: str, x: Value) -> Node:
    def compute(t: te.Tensor) -> list[te.Tensor]:
        shape = (*t.shape[:-1], 1)
        return [te.compute(shape, lambda *at, n=n: t(*at[:-1], at[-1] + n), name="part") for n in range(t.shape[-1])]

    return make_node(name, "Split", [x], compute)


def _node(draw: Any, kind: str, name: str, x: Value, known: Sequence[Value], constants: Constants) -> Node:
    """Make a node as readers do."""
    match kind:
        case "scale":
            return multiplied(name, x, _constant(draw, f"{name}.c", x, constants))
        case "shift":
            return added(name, _constant(draw, f"{name}.c", x, constants), x)
        case "difference":
            return pointwise_node(name, "Sub", operator.sub, [_constant(draw, f"{name}.c", x, constants), x])
        case "relu":
            return relu(name, x)
        case "square":
            return pointwise_node(name, "Mul", operator.mul, [x, x])
        case "power":
            return pointwise_node(name, "Pow", te.pow, [x, constants.add(f"{name}.e", 2.0)])
        case "quotient":
            return pointwise_node(name, "Div", operator.truediv, [x, constants.random(f"{name}.d", x.shape[-1])])
        case "turn":
            return transpose_node(name, x, draw(st.permutations(range(len(x.shape)))))
        case "flat":
            return reshape_node(name, x, (x.shape[0], math.prod(x.shape[1:])))
        case "same":
            return pointwise_node(name, "Identity", lambda e: e, [x])
        case "product":
            return matmul_node(name, x, constants.random(f"{name}.w", x.shape[-1], 3))
        case "split":
            return _split(name, x)
        case "sum":
            return added(name, x, draw(st.sampled_from([value for value in known if value.shape == x.shape])))
        case "conv":
            w = constants.random(f"{name}.w", 4, x.shape[1], 1, 1)
            pads = (draw(st.integers(0, 1)),) * 4
            return conv_node(name, x, w, strides=(1, 1), pads=pads, dilations=(1, 1))
        case _:
            return batch_normalization(name, x, *(constants.random(f"{name}.{each}", x.shape[1]) for each in "sbmv"))


KINDS = [
    "scale", "shift", "difference", "relu", "square", "power", "quotient", "turn", "flat", "same", "product", "split",
    "sum",
]  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Draw a graph with branches, whose values stay small."""
    constants = Constants()
    known, nodes = [Value("x", (2, 4, 3, 3), "float32")], list[Node]()
    for number in range(draw(st.integers(1, 10))):
        x = draw(st.sampled_from([value for value in known[-4:] if math.prod(value.shape) < 2000]))
        kinds = [*KINDS, "conv", "norm"] if len(x.shape) == 4 else KINDS
        nodes.append(_node(draw, draw(st.sampled_from(kinds)), f"n{number}", x, known, constants))
        known += nodes[-1].outputs
    read = {value for node in nodes for value in node.inputs}
    last = [value for value in known if value not in read]
    return graph_of(nodes, constants, *dict.fromkeys([*last, *draw(st.lists(st.sampled_from(known[1:]), max_size=1))]))


@given(graphs())
def test_optimized_graphs_compute_the_same(graph: Graph) -> None:
    check_values(graph, optimize(graph), tolerance=1e-4)


@given(graphs())
def test_optimized_graphs_have_no_more_to_optimize(graph: Graph) -> None:
    made = optimize(graph, layout="NCHW", fuse=False)
    assert len(optimize(made, layout="NCHW", fuse=False).nodes) == len(made.nodes)
