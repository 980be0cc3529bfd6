"""Makers of canonical nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegbox.errors import GraphError
from pegbox.graph import Node, Value, conv_node, make_node, matmul_node, pointwise_node, reshape_node, transpose_node
from pegbox.graph.graph import Array
from pegbox.graph.reference import run_node

RNG = np.random.default_rng(0)


def results(node: Node, *arrays: Array) -> list[Array]:
    return run_node(node, arrays)


def value(*shape: int) -> Value:
    return Value("v", shape, "float64")


def integers(*shape: int) -> Array:
    return RNG.integers(-4, 5, shape).astype("float64")


@pytest.mark.parametrize(("a", "b"), [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 5)),
    ((4,), (2, 4, 5)), ((2, 3, 4), (4,)),
])  # fmt: skip
def test_products_are_those_of_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left, right = integers(*a), integers(*b)
    (found,) = results(matmul_node("m", value(*a), value(*b)), left, right)
    np.testing.assert_array_equal(found, left @ right)


@given(st.permutations(range(3)))
def test_transpositions_are_those_of_numpy(order: list[int]) -> None:
    array = integers(2, 3, 4)
    (found,) = results(transpose_node("t", value(2, 3, 4), order), array)
    np.testing.assert_array_equal(found, array.transpose(order))


@pytest.mark.parametrize("shape", [(24,), (4, 6), (1, 2, 1, 12), (3, 8)])
def test_reshapes_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    array = integers(2, 3, 4)
    (found,) = results(reshape_node("r", value(2, 3, 4), shape), array)
    np.testing.assert_array_equal(found, array.reshape(shape))


def test_a_number_has_a_shape_too() -> None:
    (found,) = results(reshape_node("r", value(1, 1), ()), integers(1, 1))
    assert found.shape == ()


@pytest.mark.parametrize("group", [1, 2])
def test_channels_may_be_the_last_axis(group: int) -> None:
    x, w = integers(1, 4, 6, 5), integers(6, 4 // group, 3, 2)
    steps = {"strides": (2, 1), "pads": (1, 0, 0, 1), "dilations": (1, 2), "group": group}
    (first,) = results(conv_node("c", value(*x.shape), value(*w.shape), **steps), x, w)  # type: ignore[arg-type]
    last = x.transpose(0, 2, 3, 1)
    (found,) = results(
        conv_node("c", value(*last.shape), value(*w.shape), layout="NHWC", **steps),
        last,
        w,  # type: ignore[arg-type]
    )
    np.testing.assert_array_equal(found.transpose(0, 3, 1, 2), first)


def test_shapes_that_do_not_fit_are_errors_that_name_the_node() -> None:
    with pytest.raises(GraphError, match=r"MatMul 'm': .*\[2, 3\] and \[4, 5\]"):
        matmul_node("m", value(2, 3), value(4, 5))
    with pytest.raises(GraphError, match="Reshape 'r'"):
        reshape_node("r", value(2, 3), (7,))
    with pytest.raises(GraphError, match="Transpose 't'"):
        transpose_node("t", value(2, 3), (0, 0))
    with pytest.raises(GraphError, match="Add 'a'"):
        pointwise_node("a", "Add", lambda a, b: a + b, [value(2), value(3)])


def test_an_output_has_the_shape_that_is_computed() -> None:
    node = reshape_node("r", value(2, 3), (6,), output=Value("y", (5,), "float64"))
    with pytest.raises(GraphError, match=r"Reshape 'r': computes float64\[6\]; its outputs are y: float64\[5\]"):
        node.computation  # noqa: B018


def test_outputs_have_names() -> None:
    node = make_node("n", "Twice", [value(2)], lambda x: [x, x], outputs=["a"])
    assert [each.name for each in node.outputs] == ["a", "n.1"]
    with pytest.raises(GraphError, match=r"has 1 output\(s\), not 2"):
        make_node("n", "Once", [value(2)], lambda x: [x], outputs=["a", "b"])
