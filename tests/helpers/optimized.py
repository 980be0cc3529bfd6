"""Comparison of graphs before and after passes, in the values that they compute."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pegbox import te
from pegbox.compute import elementwise
from pegbox.graph import Graph, Node, Value, evaluate, make_node, pointwise_node
from pegbox.graph.graph import Array

Pass = Callable[[Graph], Graph]


class Constants(dict[Value, Array]):
    """The constants of a graph that a test makes."""

    def add(self, name: str, array: object, dtype: str = "float32") -> Value:
        made = np.asarray(array, dtype)
        value = Value(name, made.shape, dtype)
        self[value] = made
        return value

    def random(self, name: str, *shape: int) -> Value:
        return self.add(name, np.random.default_rng(len(name) + sum(shape)).uniform(0.5, 1.5, shape))


def graph_of(nodes: Sequence[Node], constants: Mapping[Value, Array], *outputs: Value) -> Graph:
    """Make a graph, which returns the last node's outputs unless others are given; inputs are what nothing makes."""
    made = {value for node in nodes for value in node.outputs} | constants.keys()
    inputs = dict.fromkeys(value for node in nodes for value in node.inputs if value not in made)
    return Graph("g", tuple(inputs), outputs or nodes[-1].outputs, tuple(nodes), constants)


def check_values(before: Graph, after: Graph, *, tolerance: float = 1e-5) -> None:
    """Compare what two graphs compute: floats by a tolerance, other types exactly."""
    assert after.inputs == before.inputs
    assert after.outputs == before.outputs
    rng = np.random.default_rng(0)
    arrays = {value: rng.normal(size=value.shape).astype(value.dtype) for value in before.inputs}
    for expected, found in zip(evaluate(before, arrays), evaluate(after, arrays), strict=True):
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())
        else:
            np.testing.assert_array_equal(found, expected)


def check_pass(each: Pass, graph: Graph, golden: Callable[[object], None]) -> Graph:
    """Compare a graph, and what a pass makes of it, with a golden file, and their values with each other."""
    made = each(graph)
    golden(f"{graph}\n\n{each.__name__}:\n\n{made}\n")
    check_values(graph, made)
    return made


def check_stays(each: Pass, graph: Graph) -> None:
    """Check that a pass changes nothing."""
    assert str(each(graph)) == str(graph)


def multiplied(name: str, a: Value, b: Value) -> Node:
    return pointwise_node(name, "Mul", operator.mul, [a, b])


def exponential(name: str, x: Value) -> Node:
    return pointwise_node(name, "Exp", te.exp, [x])


def batch_normalization(name: str, *values: Value, epsilon: float = 1e-5) -> Node:
    """Normalize channels by a scale, a shift, a mean and a variance."""

    def compute(x: te.Tensor, *numbers: te.Tensor) -> list[te.Tensor]:
        columns = [te.compute((n.shape[0], *[1] * (x.ndim - 2)), lambda c, *_, n=n: n(c), name="column")
                   for n in numbers]  # fmt: skip
        return [elementwise(lambda e, s, b, m, v: (e - m) / te.sqrt(v + epsilon) * s + b, x, *columns, name="norm")]

    return make_node(name, "BatchNormalization", values, compute, {"epsilon": epsilon})


def conv_transpose(name: str, *values: Value, strides: tuple[int, ...], **attributes: Any) -> Node:
    """Make a transposed convolution: each pixel adds a window to the outputs, of which pads are left out."""
    rank = len(strides)
    pads, dilations = attributes.get("pads", [0] * (2 * rank)), attributes.get("dilations", [1] * rank)
    more, groups = attributes.get("output_padding", [0] * rank), attributes.get("group", 1)

    def compute(x: te.Tensor, w: te.Tensor, *bias: te.Tensor) -> list[te.Tensor]:
        (n, c, *spatial), (_, o, *kernel) = x.shape, w.shape
        rc = te.reduce_axis((0, c // groups), name="rc")
        pixel = [te.reduce_axis((0, e), name=f"p{d}") for d, e in enumerate(spatial)]
        offset = [te.reduce_axis((0, k), name=f"k{d}") for d, k in enumerate(kernel)]

        def element(b: te.Expr, f: te.Expr, *at: te.Expr) -> te.Expr:
            sides = zip(at, pads[:rank], pixel, strides, offset, dilations, strict=True)
            reached = te.all(*((i + before).equal(p * s + k * d) for i, before, p, s, k, d in sides))
            channel = te.floordiv(f, o) * (c // groups) + rc
            product = x(b, channel, *pixel) * w(channel, te.floormod(f, o), *offset)
            return te.sum(te.if_then_else(reached, product, te.const(0, x.dtype)), axis=[rc, *pixel, *offset])

        sides = zip(spatial, strides, kernel, dilations, more, strict=True)
        full = [(e - 1) * s + (k - 1) * d + 1 + m for e, s, k, d, m in sides]
        kept = [f - before - after for f, before, after in zip(full, pads[:rank], pads[rank:], strict=True)]
        sums = te.compute((n, o * groups, *kept), element)
        return [te.compute(sums.shape, lambda b, f, *at: sums(b, f, *at) + bias[0](f)) if bias else sums]

    return make_node(name, "ConvTranspose", values, compute, {"strides": list(strides), **attributes})
