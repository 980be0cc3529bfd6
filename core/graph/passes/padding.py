"""The pass that moves borders of zeros into convolutions."""

from __future__ import annotations

from typing import Any

from pegbox.compute.tensor import ComputeOp
from pegbox.expr.affine import Linear, difference
from pegbox.expr.build import conjuncts, const
from pegbox.expr.dtypes import INDEX
from pegbox.expr.nodes import Compare, Const, Expr, Load, Select
from pegbox.graph.graph import Graph, Node
from pegbox.graph.kind import operations_of
from pegbox.graph.operations import conv_node
from pegbox.graph.rewriting import Rewriting

Borders = tuple[tuple[int, int], ...]
"""The numbers of elements before and after each axis."""


def padding(graph: Graph) -> Graph:
    """Let convolutions put borders of zeros around images instead of the nodes before them.

    ::

        p = Pad(x)                            c = Conv(x, w, pads=(1, 1, 1, 1), ...)
        c = Conv(p, w, pads=(0, 0, 0, 0))  ->  return c
        return c
    """
    made = Rewriting(graph)
    for node in graph.nodes:
        pad = graph.producers.get(node.inputs[0]) if node.kind == "Conv" and "layout" in node.attributes else None
        borders = None if pad is None else borders_of(pad)
        if pad is None or borders is None or any(map(any, borders[:2])) or node.attributes["layout"] != "NCHW":
            made.add(node)
        else:
            made.add(_with_borders(node, pad, borders[2:]))
    return made.graph()


def _with_borders(node: Node, pad: Node, borders: Borders) -> Node:
    numbers: dict[str, Any] = dict(node.attributes)
    more = [before for before, _ in borders] + [after for _, after in borders]
    numbers["pads"] = [a + b for a, b in zip(numbers["pads"], more, strict=True)]
    return conv_node(node.name, pad.inputs[0], node.inputs[1], **numbers, output=node.outputs[0])


def borders_of(node: Node) -> Borders | None:
    """Return the widths of the border of zeros that a node puts around its only input; None for other nodes."""
    ops = operations_of(node)
    if len(ops) != 1 or len(node.inputs) != 1 or len(node.outputs) != 1 or type(ops[0]) is not ComputeOp:
        return None
    match ops[0].body:
        case (Select(condition, Load(_, indices), Const(value)),) if value == 0 and len(indices) == len(ops[0].axis):
            return _borders(ops[0], condition, indices, node.inputs[0].shape)
    return None


def _borders(op: ComputeOp, condition: Expr, indices: tuple[Expr, ...], shape: tuple[int, ...]) -> Borders | None:
    """Return the widths if each index is an axis minus a width, and the condition tests that all are in bounds."""
    found = []
    tests = list(conjuncts(condition))
    inside = {each for test in tests for each in _bounds(test, indices, shape)}
    if len(inside) < len(tests):
        return None
    for place, (index, axis, extent) in enumerate(zip(indices, op.axis, shape, strict=True)):
        offset = difference(axis, index)
        before, after = offset.const, axis.extent - extent - offset.const
        if not offset.is_const or before < 0 or after < 0:
            return None
        if any(width and (place, name) not in inside for width, name in ((before, "ge"), (after, "lt"))):
            return None
        found.append((before, after))
    return tuple(found)


def _bounds(test: Expr, indices: tuple[Expr, ...], shape: tuple[int, ...]) -> list[tuple[int, str]]:
    """Return the index that a test compares with the beginning ("ge") or the end ("lt") of its axis."""
    if not isinstance(test, Compare) or test.op not in ("ge", "lt"):
        return []
    given = difference(test.a, test.b)
    limits = [0 if test.op == "ge" else extent for extent in shape]
    return [
        (place, test.op)
        for place, (index, limit) in enumerate(zip(indices, limits, strict=True))
        if given.minus(difference(index, const(limit, INDEX))) == Linear({}, 0)
    ]
