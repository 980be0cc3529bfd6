"""Graphs for tests: made of nodes by a few words, random ones, and the comparison of what two of them compute."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pegbox import te
from pegbox.graph import (
    Graph,
    Node,
    Value,
    conv_node,
    evaluate,
    make_node,
    pointwise_node,
    reshape_node,
    transpose_node,
)
from pegbox.graph.graph import Array


def relu(name: str, x: Value) -> Node:
    return pointwise_node(name, "Relu", lambda e: te.maximum(e, 0.0), [x])


def added(name: str, a: Value, b: Value) -> Node:
    return pointwise_node(name, "Add", operator.add, [a, b])


def softmax_node(name: str, x: Value, axis: int = -1) -> Node:
    def compute(t: te.Tensor) -> list[te.Tensor]:
        place, extent = axis % t.ndim, t.shape[axis]
        k, j = te.reduce_axis((0, extent), name="k"), te.reduce_axis((0, extent), name="j")

        def at(point: Sequence[Any], other: Any) -> list[Any]:
            return [*point[:place], other, *point[place:]]

        rows = [*t.shape[:place], *t.shape[place:][1:]]
        top = te.compute(rows, lambda *p: te.max(t(*at(p, k)), axis=k), name="top")
        powers = te.compute(t.shape, lambda *p: te.exp(t(*p) - top(*p[:place], *p[place + 1 :])), name="powers")
        total = te.compute(rows, lambda *p: te.sum(powers(*at(p, j)), axis=j), name="total")
        return [te.compute(t.shape, lambda *p: powers(*p) / total(*p[:place], *p[place + 1 :]), name="softmax")]

    return make_node(name, "Softmax", [x], compute, {"axis": axis})


def reduced(name: str, x: Value, axes: Sequence[int], *, keep: bool = True) -> Node:
    """Make a node that adds the elements along axes; kept axes have one element afterwards."""

    def compute(t: te.Tensor) -> list[te.Tensor]:
        over = {axis: te.reduce_axis((0, t.shape[axis]), name=f"k{axis}") for axis in axes}
        shape = tuple(1 if axis in over else extent for axis, extent in enumerate(t.shape) if keep or axis not in over)

        def element(*at: Any) -> Any:
            left = iter(at)
            places = [over[axis] if axis in over and not keep else next(left) for axis in range(t.ndim)]
            return te.sum(t(*(over.get(axis, place) for axis, place in enumerate(places))), axis=list(over.values()))

        return [te.compute(shape, element, name="ReduceSum")]

    return make_node(name, "ReduceSum", [x], compute, {"axes": tuple(axes)})


def convolution(name: str, x: Value, w: Value, *, group: int = 1, stride: int = 1) -> Node:
    """Make a convolution whose border keeps the size of the image, before the stride."""
    pads = [extent // 2 for extent in w.shape[2:]] * 2
    return conv_node(name, x, w, strides=[stride] * 2, pads=pads, dilations=[1, 1], group=group)


def graph_of(
    nodes: Sequence[Node], inputs: Sequence[Value], outputs: Sequence[Value], constants: Sequence[Value] = ()
) -> Graph:
    """Make a graph with random constants."""
    return Graph("g", tuple(inputs), tuple(outputs), tuple(nodes), {value: array_of(value) for value in constants})


def array_of(value: Value) -> Array:
    """Return an array of small whole numbers, with which sums in any order are exact."""
    rng = np.random.default_rng(math.prod(value.shape) + len(value.name))
    return rng.integers(-3, 4, value.shape).astype(value.dtype)


def check_same_values(a: Graph, b: Graph) -> None:
    """Compare what two graphs with the same inputs compute."""
    assert (a.inputs, [v.shape for v in a.outputs]) == (b.inputs, [v.shape for v in b.outputs])
    arrays = {value: array_of(value) for value in a.inputs}
    for left, right in zip(evaluate(a, arrays), evaluate(b, arrays), strict=True):
        np.testing.assert_array_equal(left, right)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Draw a graph of some nodes with branches, over images of a few elements."""
    x, filters, depthwise = (
        Value("x", (1, 4, 3, 5), "float32"),
        Value("w", (4, 4, 3, 1), "float32"),
        Value("d", (4, 1, 1, 3), "float32"),
    )
    bias = Value("b", (4, 1, 1), "float32")
    known, nodes = [x], list[Node]()
    makers: dict[str, Callable[[str, Value], Node]] = {
        "relu": relu,
        "conv": lambda name, v: convolution(name, v, filters),
        "depthwise": lambda name, v: convolution(name, v, depthwise, group=4),
        "bias": lambda name, v: added(name, v, bias),
        "sum": lambda name, v: reduced(name, v, [2, 3]),
        "rows": lambda name, v: reduced(name, v, [3]),
        "transpose": lambda name, v: transpose_node(name, v, (0, 1, 3, 2)),
        "reshape": lambda name, v: reshape_node(name, v, (1, 4, *reversed(v.shape[2:]))),
    }
    for number in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from([*makers, "add", "add", "add"]))
        value = draw(st.sampled_from(known[-4:]))
        if kind == "add":
            fitting = [
                v for v in known if all(1 in (m, n) or m == n for m, n in zip(v.shape, value.shape, strict=True))
            ]
            nodes.append(added(f"v{number}", value, draw(st.sampled_from(fitting))))
        else:
            nodes.append(makers[kind](f"v{number}", value))
        known += nodes[-1].outputs
    read = {value for node in nodes for value in node.inputs}
    outputs = [value for value in known if value not in read] + draw(st.lists(st.sampled_from(known[1:]), max_size=1))
    constants = [value for value in (filters, depthwise, bias) if value in read]
    return graph_of(nodes, [x], list(dict.fromkeys(outputs)), constants)
