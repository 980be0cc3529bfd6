"""Guards against NaN weights, behind the products that weights are factors of."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from pegbox import te
from pegbox.graph import Graph, Node, Value, evaluate, matmul_node, pointwise_node, transpose_node
from pegbox.graph.passes import optimize
from pegbox.graph.passes.nan_guards import nan_guards
from tests.helpers.graphs import softmax_node
from tests.helpers.optimized import Constants, check_pass, check_stays, graph_of

Golden = Callable[[object], None]
HEADS = (2, 3, 5, 4)
CAUSAL = np.where(np.arange(5) <= np.arange(5)[:, None], 0, -np.inf)


def guarded(bias: Value | None, constants: Constants, *, turned: bool = False, zero: float = 0.0) -> Graph:
    """Make a graph of an attention whose weights are guarded, as PyTorch writes it."""
    q, k, v = (Value(name, HEADS, "float32") for name in "qkv")
    columns = transpose_node("columns", k, (0, 1, 3, 2))
    nodes = [columns, matmul_node("scores", q, *columns.outputs)]
    if bias is not None:
        nodes.append(pointwise_node("biased", "Add", operator.add, [*nodes[-1].outputs, bias]))
    nodes.append(softmax_node("weights", *nodes[-1].outputs))
    (weights,) = nodes[-1].outputs
    nodes.append(pointwise_node("nan", "IsNaN", te.isnan, [weights]))
    given = [*nodes[-1].outputs, constants.add("zero", zero), weights]
    nodes.append(pointwise_node("guarded", "Where", te.if_then_else, given))
    nodes.append(matmul_node("o", *nodes[-1].outputs, v))
    if turned:
        nodes.append(transpose_node("turned", *nodes[-1].outputs, (0, 2, 1, 3)))
    return graph_of(nodes, constants)


def values(graph: Graph, bias: Value | None, array: object = None) -> Sequence[object]:
    rng = np.random.default_rng(0)
    given = {each: rng.normal(size=each.shape).astype(each.dtype) for each in graph.inputs}
    if bias is not None:
        given[bias] = np.broadcast_to(np.asarray(array, bias.dtype), bias.shape)
    with np.errstate(all="ignore"):
        return evaluate(graph, given)


@pytest.mark.parametrize("turned", [False, True])
def test_queries_that_see_no_key_have_zeros(turned: bool, golden: Golden) -> None:
    bias = Value("bias", (2, 1, 5, 5), "float32")
    graph = guarded(bias, Constants(), turned=turned)
    made = check_pass(nan_guards, graph, golden)
    hidden = np.where(np.random.default_rng(1).random(bias.shape) < 0.5, -np.inf, 0.0)
    hidden[1, 0, 2:] = -np.inf
    for each in (made, optimize(graph)):
        (found,), (expected,) = values(each, bias, hidden), values(graph, bias, hidden)
        assert (expected == 0).sum() >= 36
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert "Attention" in [part.kind for node in optimize(graph).nodes for part in node.parts or (node,)]


@pytest.mark.parametrize("shape", [(), (5,), (1, 5), (3, 1, 5), (2, 3, 5, 5), (2, 1, 5, 1)])
def test_a_bias_is_broadcast(shape: tuple[int, ...]) -> None:
    bias = Value("bias", shape, "float32")
    for turned in (False, True):
        graph = guarded(bias, Constants(), turned=turned)
        array = np.where(np.random.default_rng(2).random(shape) < 0.5, -np.inf, 1.0)
        (found,), (expected,) = values(nan_guards(graph), bias, array), values(graph, bias, array)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_very_low_bias_hides_no_key() -> None:
    """The weights are numbers there: those of a query whose keys are all as low are their mean."""
    bias = Value("bias", (5, 5), "float32")
    graph = guarded(bias, Constants())
    array = np.full(bias.shape, np.finfo(np.float32).min)
    (found,), (expected,) = values(nan_guards(graph), bias, array), values(graph, bias, array)
    assert expected.all()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in nan_guards(graph).nodes]


def test_no_guard_is_left_where_each_query_sees_a_key() -> None:
    for array in (None, CAUSAL):
        constants = Constants()
        bias = None if array is None else constants.add("bias", array)
        graph = guarded(bias, constants)
        assert "Where" not in kinds(graph)
        (found,), (expected,) = values(nan_guards(graph), None), values(graph, None)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_constant_bias_that_hides_all_keys_of_a_query_keeps_the_guard() -> None:
    constants = Constants()
    graph = guarded(constants.add("bias", np.where(np.arange(5)[:, None] == 2, -np.inf, CAUSAL)), constants)
    assert kinds(graph)[-1] == "Where"
    (found,), (expected,) = values(nan_guards(graph), None), values(graph, None)
    assert not expected[:, :, 2].any()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_other_numbers_in_place_of_nan_stay() -> None:
    check_stays(nan_guards, guarded(Value("bias", (5, 5), "float32"), Constants(), zero=1.0))


@pytest.mark.parametrize("name", ["weights", "guarded"])
def test_weights_that_are_returned_stay(name: str) -> None:
    graph = guarded(Value("bias", (5, 5), "float32"), Constants())
    (value,) = [value for node in graph.nodes for value in node.outputs if value.name == name]
    check_stays(nan_guards, graph_of(graph.nodes, graph.constants, *graph.outputs, value))


def test_guards_of_other_softmaxes_stay() -> None:
    x = Value("x", (4, 5), "float32")
    nodes: list[Node] = [softmax_node("weights", x)]
    (weights,) = nodes[0].outputs
    nodes.append(pointwise_node("nan", "IsNaN", te.isnan, [weights]))
    constants = Constants()
    given = [*nodes[-1].outputs, constants.add("zero", 0.0), weights]
    nodes.append(pointwise_node("guarded", "Where", te.if_then_else, given))
    nodes.append(matmul_node("o", *nodes[-1].outputs, Value("v", (5, 2), "float32")))
    check_stays(nan_guards, graph_of(nodes, constants))
