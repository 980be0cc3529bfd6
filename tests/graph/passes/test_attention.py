"""Products around a softmax, as one attention."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import pytest

from pegbox import te
from pegbox.graph import (
    Graph,
    Node,
    Value,
    evaluate,
    make_node,
    matmul_node,
    pointwise_node,
    reshape_node,
    transpose_node,
)
from pegbox.graph.passes import optimize
from pegbox.graph.passes.attention import attention
from tests.helpers.graphs import softmax_node
from tests.helpers.optimized import Constants, check_pass, check_stays, check_values, graph_of

Golden = Callable[[object], None]
MASK = np.where(np.arange(5) <= np.arange(5)[:, None], 0, -np.inf)


@dataclass
class Attended:
    """A graph of attention in parts."""

    nodes: list[Node] = field(default_factory=list)
    constants: Constants = field(default_factory=Constants)

    def add(self, node: Node) -> Value:
        self.nodes.append(node)
        return node.outputs[0]

    def operands(self, *arrays: Value, perm: Sequence[int] = (0, 2, 1, 3)) -> list[Value]:
        """Bring [batch, rows, heads, elements] into the order of a product."""
        turned = tuple(perm[axis] for axis in (0, 1, 3, 2))
        return [
            self.add(transpose_node(f"{name}_turned", array, order))
            for name, array, order in zip("qkv", arrays, (perm, turned, perm), strict=True)
        ]

    def attend(self, q: Value, k: Value, v: Value, *between: Any, axis: int = -1) -> Graph:
        """Multiply, apply functions of a name and a value that make nodes, and multiply again."""
        scores = self.add(matmul_node("scores", q, k))
        for number, each in enumerate(between):
            scores = self.add(each(f"between{number}", scores))
        weights = self.add(softmax_node("weights", scores, axis))
        self.add(matmul_node("o", weights, v))
        return graph_of(self.nodes, self.constants)

    def by(self, op: Any, array: object, name: str = "c") -> Callable[[str, Value], Node]:
        constant = self.constants.add(name, array)
        return lambda name, x: pointwise_node(name, op.__name__, op, [x, constant])


def arrays(rows: int = 5, keys: int = 5, heads: int = 2, batch: int = 2) -> list[Value]:
    return [Value(name, (batch, n, heads, 4), "float32") for name, n in zip("xyz", (rows, keys, keys), strict=True)]


def test_queries_keys_and_values_of_three_arrays(golden: Golden) -> None:
    made = Attended()
    graph = made.attend(*made.operands(*arrays()), made.by(operator.mul, 0.5))
    check_pass(attention, graph, golden)
    assert [node.kind for node in optimize(graph).nodes if node.kind != "Reshape"] == ["Attention", "Transpose"]


def test_queries_keys_and_values_of_one_array_with_a_causal_mask(golden: Golden) -> None:
    made, x = Attended(), Value("x", (1, 5, 24), "float32")
    apart = made.add(reshape_node("apart", x, (1, 5, 3, 2, 4)))
    turned = made.add(transpose_node("turned", apart, (2, 0, 3, 1, 4)))
    parts = [made.add(_part(f"part{number}", turned, number)) for number in range(3)]
    scaled = made.add(made.by(operator.mul, 0.5)("scaled", parts[0]))
    k = made.add(transpose_node("k", parts[1], (0, 1, 3, 2)))
    graph = made.attend(scaled, k, parts[2], made.by(operator.add, MASK, "mask"))
    assert "causal=True" in str(check_pass(attention, graph, golden))
    assert [node.kind for node in optimize(graph).nodes if node.kind != "Reshape"] == ["Attention", "Transpose"]


def _part(name: str, x: Value, number: int) -> Node:
    return make_node(name, "Slice", [x], lambda t: [te.compute(t.shape[1:], lambda *at: t(number, *at), name="part")])


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in attention(graph).nodes]


@pytest.mark.parametrize("perm", [(0, 2, 1, 3), (2, 0, 1, 3), (1, 2, 0, 3), (0, 1, 2, 3), (2, 1, 0, 3)])
def test_arrays_have_their_axes_in_any_order(perm: Sequence[int]) -> None:
    made = Attended()
    shapes = [tuple((2, 3, n, 4)[perm.index(axis)] for axis in range(4)) for n in (5, 6, 6)]
    given = [Value(name, shape, "float32") for name, shape in zip("xyz", shapes, strict=True)]
    graph = made.attend(*made.operands(*given, perm=perm))
    (node,) = [node for node in attention(graph).nodes if node.kind == "Attention"]
    assert node.attributes["layout"] == "".join("BHN"[perm.index(axis)] for axis in range(3)) + "D"
    check_values(graph, attention(graph))


def test_summands_of_scores_are_a_bias() -> None:
    hidden = np.where(MASK < 0, -9, 0)
    for mask in (np.ones((5, 5)), np.arange(5), hidden, hidden.T, np.ones((2, 1, 1, 5)), np.ones((1, 2, 5, 5))):
        made = Attended()
        graph = made.attend(*made.operands(*arrays()), made.by(operator.add, mask, "mask"))
        (node,) = [node for node in attention(graph).nodes if node.kind == "Attention"]
        assert not node.attributes["causal"]
        assert len(node.inputs) == 4
        check_values(graph, attention(graph))


def test_an_input_may_be_the_bias() -> None:
    made, bias = Attended(), Value("bias", (1, 2, 5, 5), "float32")
    graph = made.attend(*made.operands(*arrays()), lambda name, x: pointwise_node(name, "Add", operator.add, [bias, x]))
    assert "Attention" in kinds(graph)
    check_values(graph, attention(graph))


def test_stacks_of_one_axis_are_heads() -> None:
    made = Attended()
    q, k, v = (
        Value(name, shape, "float32") for name, shape in zip("qkv", ((3, 5, 4), (3, 6, 4), (3, 6, 2)), strict=True)
    )
    turned = made.add(transpose_node("turned", k, (0, 2, 1)))
    graph = made.attend(q, turned, v, made.by(operator.truediv, 2.0))
    assert "Attention" in kinds(graph)
    check_values(graph, attention(graph))


def repeated(made: Attended, x: Value, group: int, *, by_turns: bool = False) -> Value:
    """Repeat each head [batch, heads, rows, elements] for a group, one after the other or by turns."""
    batch, heads, *rest = x.shape
    shape = (batch, group, heads, *rest) if by_turns else (batch, heads, group, *rest)

    def expand(t: te.Tensor) -> list[te.Tensor]:
        def element(b: Any, first: Any, second: Any, n: Any, c: Any) -> Any:
            return t(b, second if by_turns else first, n, c)

        return [te.compute(shape, element, name="expanded")]

    apart = made.add(make_node(f"{x.name}.expanded", "Expand", [x], expand))
    return made.add(reshape_node(f"{x.name}.repeated", apart, (batch, heads * group, *rest)))


def grouped(kv_heads: int, group: int, *, keys_by_rows: bool = True, by_turns: bool = False) -> Graph:
    made, heads = Attended(), kv_heads * group
    q = made.add(transpose_node("q", Value("x", (2, 5, heads, 4), "float32"), (0, 2, 1, 3)))
    y = Value("y", (2, 6, kv_heads, 4) if keys_by_rows else (2, kv_heads, 6, 4), "float32")
    k = made.add(transpose_node("k", y, (0, 2, 1, 3))) if keys_by_rows else y
    v = made.add(transpose_node("v", Value("z", (2, 6, kv_heads, 4), "float32"), (0, 2, 1, 3)))
    turned = transpose_node("k_turned", repeated(made, k, group, by_turns=by_turns), (0, 1, 3, 2))
    return made.attend(q, made.add(turned), repeated(made, v, group, by_turns=by_turns), made.by(operator.mul, 0.5))


def test_heads_that_are_repeated_for_groups_are_read_once(golden: Golden) -> None:
    made = check_pass(attention, grouped(2, 3), golden)
    (node,) = [node for node in made.nodes if node.kind == "Attention"]
    assert [value.shape for value in node.inputs] == [(2, 5, 6, 4), (2, 6, 2, 4), (2, 6, 2, 4)]


@pytest.mark.parametrize(("kv_heads", "group"), [(1, 4), (3, 2), (4, 1)])
def test_groups_of_any_size_have_one_attention(kv_heads: int, group: int) -> None:
    graph = grouped(kv_heads, group)
    (node,) = [node for node in attention(graph).nodes if node.kind == "Attention"]
    assert node.inputs[1].shape == (2, 6, kv_heads, 4)
    check_values(graph, attention(graph))
    assert "Expand" not in [part.kind for each in optimize(graph).nodes for part in each.parts or (each,)]


def test_shared_heads_of_different_layouts_are_turned_instead_of_repeated() -> None:
    graph = grouped(2, 3, keys_by_rows=False)
    made = attention(graph)
    (node,) = [node for node in made.nodes if node.kind == "Attention"]
    assert {prod(value.shape) for value in node.inputs[1:]} == {2 * 6 * 2 * 4}
    check_values(graph, made)


def test_heads_that_are_repeated_by_turns_are_no_groups() -> None:
    graph = grouped(2, 3, by_turns=True)
    (node,) = [node for node in attention(graph).nodes if node.kind == "Attention"]
    assert prod(node.inputs[1].shape) == 2 * 6 * 6 * 4
    check_values(graph, attention(graph))


def test_keys_that_come_transposed_stay() -> None:
    made = Attended()
    q, k, v = (
        Value(name, shape, "float32") for name, shape in zip("qkv", ((2, 5, 4), (2, 4, 6), (2, 6, 3)), strict=True)
    )
    check_stays(attention, made.attend(q, k, v))


def test_another_axis_stays() -> None:
    made = Attended()
    check_stays(attention, made.attend(*made.operands(*arrays()), axis=1))


def test_weights_on_the_right_of_a_product_stay() -> None:
    made = Attended()
    *nodes, last = made.attend(*made.operands(*arrays())).nodes
    x = Value("x2", (2, 2, 5, 5), "float32")
    check_stays(attention, graph_of([*nodes, matmul_node("o", x, last.inputs[0])], {}))


@pytest.mark.parametrize("name", ["scores", "weights"])
def test_scores_and_weights_that_are_read_elsewhere_stay(name: str) -> None:
    made = Attended()
    graph = made.attend(*made.operands(*arrays()))
    (kept,) = [node.outputs[0] for node in graph.nodes if node.name == name]
    check_stays(attention, replace(graph, outputs=(*graph.outputs, kept)))


@pytest.mark.parametrize(
    ("op", "array"),
    [
        (operator.mul, np.arange(5)), (operator.mul, 1e30), (operator.truediv, 0.0),
        (operator.add, 1.0), (operator.sub, np.ones(5)), (operator.add, np.ones((5, 1))),
    ],
)  # fmt: skip
def test_other_functions_of_scores_stay(op: Any, array: Any) -> None:
    made = Attended()
    check_stays(attention, made.attend(*made.operands(*arrays()), made.by(op, array)))


def test_a_sum_that_is_scaled_stays() -> None:
    made = Attended()
    between = made.by(operator.add, np.ones(5), "mask"), made.by(operator.mul, 0.5)
    check_stays(attention, made.attend(*made.operands(*arrays()), *between))


def test_a_second_summand_that_is_not_constant_stays() -> None:
    made, more = Attended(), Value("more", (5, 5), "float32")
    between = made.by(operator.add, np.ones(5), "mask"), _added(more)
    check_stays(attention, made.attend(*made.operands(*arrays()), *between))


def _added(bias: Value) -> Callable[[str, Value], Node]:
    return lambda name, x: pointwise_node(name, "Add", operator.add, [x, bias])


def chosen(mask: Value, low: float = -np.inf, *, hidden: bool = False) -> Callable[[str, Value], Node]:
    """Choose the scores where the mask holds (where it does not, if `hidden`), and a low number elsewhere."""

    def element(seen: Any, x: Any) -> Any:
        number = te.const(low, "float32")
        return te.if_then_else(seen, number, x) if hidden else te.if_then_else(seen, x, number)

    return lambda name, x: pointwise_node(name, "Where", element, [mask, x])


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("low", [-np.inf, float(np.finfo(np.float32).min)])
def test_a_choice_of_scores_by_a_constant_is_causal(low: float, hidden: bool) -> None:
    made = Attended()
    mask = made.constants.add("seen", (MASK < 0) == hidden, "bool")
    graph = made.attend(*made.operands(*arrays()), made.by(operator.mul, 0.5), chosen(mask, low, hidden=hidden))
    (node,) = [node for node in attention(graph).nodes if node.kind == "Attention"]
    assert node.attributes["causal"]
    check_values(graph, attention(graph))


@pytest.mark.parametrize("shape", [(2, 1, 1, 5), (5, 5), (1, 2, 5, 5)])
def test_a_choice_of_scores_by_an_input_is_a_bias(shape: tuple[int, ...]) -> None:
    made, mask = Attended(), Value("seen", shape, "bool")
    graph = made.attend(*made.operands(*arrays()), chosen(mask, -3.4e38))
    (node,) = [node for node in attention(graph).nodes if node.kind == "Attention"]
    assert node.inputs[-1].shape == (1,) * (4 - len(shape)) + shape
    rng = np.random.default_rng(0)
    given = {v: rng.normal(size=v.shape).astype(v.dtype) for v in graph.inputs}
    given[mask] = rng.random(shape) < 0.6
    for each in (attention(graph), optimize(graph)):
        np.testing.assert_allclose(evaluate(each, given)[0], evaluate(graph, given)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("low", [-1e9, 0.0])
def test_a_choice_of_a_number_that_is_not_very_low_stays(low: float) -> None:
    made = Attended()
    check_stays(attention, made.attend(*made.operands(*arrays()), chosen(Value("seen", (5, 5), "bool"), low)))


def test_a_choice_by_the_scores_themselves_stays() -> None:
    made = Attended()
    cut = lambda name, x: pointwise_node(  # noqa: E731
        name, "Where", lambda e: te.if_then_else(e < 1, e, te.const(-np.inf, "float32")), [x]
    )
    check_stays(attention, made.attend(*made.operands(*arrays()), cut))


def test_constant_summands_of_windows_are_one_bias() -> None:
    """Shifted windows of Swin: a bias of each head, then a mask of each window in another shape."""
    made = Attended()
    rng = np.random.default_rng(0)
    bias, mask = rng.normal(size=(2, 5, 5)), np.where(rng.random((1, 2, 1, 5, 5)) < 0.3, -100, 0)
    between = [
        made.by(operator.add, bias, "bias"),
        lambda name, x: reshape_node(name, x, (1, 2, 2, 5, 5)),
        made.by(operator.add, mask, "mask"),
        lambda name, x: reshape_node(name, x, (2, 2, 5, 5)),
    ]
    graph = made.attend(*made.operands(*arrays()), *between)
    (node,) = [node for node in attention(graph).nodes if node.kind == "Attention"]
    assert node.inputs[-1].shape == (2, 2, 5, 5)
    check_values(graph, attention(graph))


def test_summands_of_another_shape_that_are_not_constant_stay() -> None:
    made = Attended()
    between = [
        lambda name, x: reshape_node(name, x, (1, 2, 2, 5, 5)),
        _added(Value("more", (1, 2, 1, 5, 5), "float32")),
        lambda name, x: reshape_node(name, x, (2, 2, 5, 5)),
    ]
    check_stays(attention, made.attend(*made.operands(*arrays()), *between))


def test_narrow_floats_stay() -> None:
    made = Attended()
    given = [Value(name, (1, 2, 2), "float16") for name in "qkv"]
    turned = made.add(transpose_node("turned", given[1], (0, 2, 1)))
    check_stays(attention, made.attend(given[0], turned, given[2]))


def test_scaled_values_are_computed_first() -> None:
    made = Attended()
    x, y, z = arrays()
    scaled = made.add(made.by(operator.mul, 0.5)("scaled", z))
    graph = made.attend(*made.operands(x, y, scaled))
    assert "Attention" in kinds(graph)
    check_values(graph, attention(graph))
