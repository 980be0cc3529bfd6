"""The parts of an attention's scores: a product, scaled, with a summand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pegbox.expr.nodes import Binary, Var
from pegbox.graph.affine import affine_of
from pegbox.graph.graph import Array, Graph, Node, Value
from pegbox.graph.kind import is_pointwise, pointwise_values


@dataclass(frozen=True)
class Scores:
    """The scores of an attention: a product, scaled, with a summand."""

    product: Node
    scale: float
    bias: Value | None


def is_product(node: Node) -> bool:
    return node.kind == "MatMul" and len(node.inputs) == 2


def scores_of(graph: Graph, value: Value) -> Scores | None:
    """Find the product behind scores; each node on the way must have a single reader."""
    node = graph.producers.get(value)
    if node is None or graph.sole_consumer(value) is None:
        return None
    if is_product(node):
        return Scores(node, 1.0, None)
    scaled = scaled_by(node, graph.constants)
    if scaled is not None:
        found = scores_of(graph, scaled[0])
        is_first = found is not None and found.bias is None
        return replace(found, scale=found.scale * scaled[1]) if found is not None and is_first else None
    for data, bias in _summands(node):
        found = scores_of(graph, data)
        if found is not None and found.bias is None:
            return replace(found, bias=bias)
    return None


def scaled_by(node: Node, constants: Mapping[Value, Array]) -> tuple[Value, float] | None:
    """Return the value that a node multiplies or divides by one constant, and the factor."""
    data = [value for value in node.inputs if value not in constants]
    if len(data) != 1 or len(node.inputs) != 2 or data[0].shape != node.outputs[0].shape:
        return None
    function = affine_of(node, constants)
    if function is not None:
        scale = function.scale
        fits = function.shift is None and function.is_moderate and scale is not None and scale.size == 1
        return (function.x, float(scale.item())) if fits and scale is not None else None
    if data[0] is not node.inputs[0] or not is_pointwise(node):
        return None
    divisor = constants[node.inputs[1]]
    x, y = (Var(name, value.dtype) for name, value in zip("xy", node.inputs, strict=True))
    (expr,) = pointwise_values(node, (x, y))
    is_quotient = isinstance(expr, Binary) and expr.op == "div" and expr.a is x and expr.b is y
    return (data[0], 1 / float(divisor.item())) if is_quotient and divisor.size == 1 and divisor.all() else None


def _summands(node: Node) -> Iterator[tuple[Value, Value]]:
    """Yield the operands of a sum, in both orders, the one of the sum's shape first."""
    if len(node.inputs) != 2 or len(node.outputs) != 1 or not is_pointwise(node):
        return
    variables = [Var(name, value.dtype) for name, value in zip("xy", node.inputs, strict=True)]
    (expr,) = pointwise_values(node, variables)
    if not isinstance(expr, Binary) or expr.op != "add" or {expr.a, expr.b} != set(variables):
        return
    a, b = node.inputs
    for data, bias in ((a, b), (b, a)):
        if data.shape == node.outputs[0].shape:
            yield data, bias
