"""The pass that moves reshapes away from between nodes that can be joined."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from pegbox.expr.nodes import Expr
from pegbox.graph.graph import Graph, Node, Value
from pegbox.graph.kind import is_pointwise, pointwise_values
from pegbox.graph.operations import matmul_node, pointwise_node, reshape_node
from pegbox.graph.rewriting import Rewriting


def reshape_motion(graph: Graph) -> Graph:
    """Move reshapes before products, and after pointwise nodes whose other inputs are numbers.

    ::

        m = MatMul(x, w)                             y.reshaped = Reshape(x, shape=(2, 3, 8))
        b = Add(m, bias)                       ->    m = MatMul(y.reshaped, w)
        y = Reshape(b, shape=(2, 3, 16))             y = Add(m, bias)

        t = Transpose(x, perm=(1, 0, 2))             t = Transpose(x, perm=(1, 0, 2))
        r = Reshape(t, shape=(1, 4, 8, 2))     ->    y.before = Mul(t, half)
        y = Mul(r, half)                             y = Reshape(y.before, shape=(1, 4, 8, 2))

    A product keeps its last axis: the reshape only splits and joins its rows.
    """
    replaced: dict[Node, Sequence[Node]] = {}
    for node in graph.nodes:
        if node.kind == "Reshape":
            replaced.update(_in_front(node, graph))
    made = Rewriting(graph)
    makers: dict[Value, Node] = {}
    for node in graph.nodes:
        for each in replaced.get(node, (node,)):
            swapped = _behind(each, graph, makers)
            made.add(*swapped)
            makers.update((value, part) for part in swapped for value in part.outputs)
    return made.graph()


def _in_front(node: Node, graph: Graph) -> dict[Node, Sequence[Node]]:
    """Return the replacement of a reshape and of the nodes before it up to a product; empty without a product."""
    (y,) = node.outputs
    between, value = list[Node](), node.inputs[0]
    while (maker := graph.producers.get(value)) is not None and graph.sole_consumer(value) is not None:
        if maker.kind == "MatMul":
            return _moved(node, between, maker) if _keeps_columns(maker, y) else {}
        data = [each for each in maker.inputs if not _is_row(each)]
        if len(data) != 1 or any(each not in graph.constants for each in maker.inputs if each is not data[0]):
            return {}
        if len(maker.outputs) > 1 or data[0].shape != value.shape or not is_pointwise(maker):
            return {}
        between.append(maker)
        (value,) = data
    return {}


def _keeps_columns(product: Node, y: Value) -> bool:
    a, b = product.inputs
    is_wide = y.dtype not in ("float16", "bfloat16")  # 16-bit floats may be added in a wider type
    return is_wide and len(b.shape) == 2 and min(len(a.shape), len(y.shape)) > 1 and y.shape[-1] == b.shape[-1]


def _is_row(value: Value) -> bool:
    """Decide if a value is broadcast along all axes but the last one."""
    return prod(value.shape) == (value.shape[-1] if value.shape else 1) and len(value.shape) < 2


def _moved(node: Node, between: Sequence[Node], product: Node) -> dict[Node, Sequence[Node]]:
    (y,) = node.outputs
    a, b = product.inputs
    chain = [product, *reversed(between)]
    values = [Value(each.outputs[0].name, y.shape, each.outputs[0].dtype) for each in chain[:-1]] + [y]
    rows = reshape_node(f"{node.name}.rows", a, (*y.shape[:-1], a.shape[-1]))
    found: dict[Node, Sequence[Node]] = {
        product: [rows, matmul_node(product.name, rows.outputs[0], b, output=values[0])], node: []
    }  # fmt: skip
    for each, before, x, made in zip(chain[1:], chain, values, values[1:], strict=False):
        inputs = [x if value is before.outputs[0] else value for value in each.inputs]
        found[each] = [_again(each, each.name, inputs, made)]
    return found


def _again(node: Node, name: str, inputs: Sequence[Value], output: Value) -> Node:
    """Make a pointwise node again over values with other shapes."""
    function = partial(_element, node)
    return pointwise_node(name, node.kind, function, inputs, attributes=node.attributes, output=output)


def _element(node: Node, *elements: Expr) -> Expr:
    return pointwise_values(node, elements)[0]


def _behind(node: Node, graph: Graph, makers: dict[Value, Node]) -> list[Node]:
    """Swap a pointwise node with the reshape before it, if its other inputs are numbers."""
    data = [value for value in node.inputs if prod(value.shape) > 1]
    reshape = makers.get(data[0]) if len(data) == 1 else None
    if reshape is None or reshape.kind != "Reshape" or graph.sole_consumer(data[0]) is None or len(node.outputs) > 1:
        return [node]
    (x,), (y,) = reshape.inputs, node.outputs
    numbers = all(len(value.shape) <= len(x.shape) for value in node.inputs if value is not data[0])
    if not numbers or x not in makers or y.shape != data[0].shape or not is_pointwise(node):
        return [node]
    before = Value(f"{y.name}.before", x.shape, y.dtype)
    inputs = [x if value is data[0] else value for value in node.inputs]
    return [
        _again(node, f"{node.name}.before", inputs, before), reshape_node(node.name, before, y.shape, output=y)
    ]  # fmt: skip
