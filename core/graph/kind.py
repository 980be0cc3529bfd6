"""The kind of a node's computation: the dependence of its outputs' elements on its inputs' elements.

The answers come from the subscripts of the computation, so that they hold for nodes from any reader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TypeVar

from pegbox.compute.axis import IterVar
from pegbox.compute.graph import post_order
from pegbox.compute.movement import flat_index
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.tensor import ComputeOp, ExternOp, Operation, PlaceholderOp
from pegbox.expr.bounds import Ranges
from pegbox.expr.nodes import Buffer, Const, Expr, Load, Var
from pegbox.expr.simplify import simplified_linear
from pegbox.expr.visit import children, loads, rewrite
from pegbox.graph.graph import Graph, Node

_Answer = TypeVar("_Answer")


def _once(question: Callable[[Node], _Answer]) -> Callable[[Node], _Answer]:
    """Decorate a question about a node's computation to answer it once for all nodes that share it."""

    @wraps(question)
    def answer(node: Node) -> _Answer:
        known = node.computation.answers
        if question.__name__ not in known:
            known[question.__name__] = question(node)
        found: _Answer = known[question.__name__]
        return found

    return answer


@_once
def operations_of(node: Node) -> list[ComputeOp]:
    """List the operations of a node's computation, producers first."""
    order = post_order([tensor.op for tensor in node.computation.outputs])
    return [op for op in order if isinstance(op, ComputeOp)]


@_once
def has_reduction(node: Node) -> bool:
    """Decide if a reduction computes an element of an output."""
    return any(op.reduce is not None for op in operations_of(node))


@_once
def is_injective(node: Node) -> bool:
    """Decide if each element of an output is an expression of elements of the inputs, without a reduction."""
    return all(map(_is_plain, operations_of(node)))


@_once
def is_pointwise(node: Node) -> bool:
    """Decide if each element of an output is computed from the elements of the inputs at the same place.

    Inputs of smaller shapes may be broadcast. All outputs have one shape, and no value depends on the place itself.
    """
    shapes = {value.shape for value in node.outputs}
    return len(shapes) == 1 and all(_is_plain(op) and _reads_in_place(op) for op in operations_of(node))


def _is_plain(op: Operation) -> bool:
    return isinstance(op, ComputeOp) and op.reduce is None and not isinstance(op, ScanOp | ExternOp)


def _reads_in_place(op: ComputeOp) -> bool:
    stack = list(op.body)
    while stack:
        expr = stack.pop()
        if isinstance(expr, Load):
            if not _is_in_place(expr, op.axis):
                return False
        elif isinstance(expr, Var):
            return False
        else:
            stack.extend(children(expr))
    return True


def _is_in_place(load: Load, axes: Sequence[IterVar]) -> bool:
    rank = len(load.indices)
    if rank > len(axes):
        return False
    aligned = zip(load.indices, load.buffer.shape, axes[len(axes) - rank :], strict=True)
    return all(
        (index is axis and extent == axis.extent) or (extent == 1 and _is_zero(index))
        for index, extent, axis in aligned
    )


def _is_zero(index: Expr) -> bool:
    return isinstance(index, Const) and index.value == 0


def pointwise_values(node: Node, elements: Sequence[Expr]) -> tuple[Expr, ...]:
    """Compute the elements of a pointwise node's outputs from those of its inputs, each as one expression."""
    known: dict[Buffer, Expr] = {
        tensor.buffer: element for tensor, element in zip(node.computation.inputs, elements, strict=True)
    }

    def leaf(expr: Expr) -> Expr | None:
        return known[expr.buffer] if isinstance(expr, Load) else None

    for op in operations_of(node):
        for tensor, expr in zip(op.outputs, op.body, strict=True):
            known[tensor.buffer] = rewrite(expr, leaf)
    return tuple(known[tensor.buffer] for tensor in node.computation.outputs)


@_once
def view_offsets(node: Node) -> tuple[int, ...] | None:
    """Return the offset of each output in the only input, if all are contiguous parts of it; else None."""
    if len(node.inputs) != 1:
        return None
    found = [_view_offset(node, place) for place in range(len(node.outputs))]
    return None if any(offset is None for offset in found) else tuple(offset for offset in found if offset is not None)


def computed_nodes(graph: Graph) -> list[Node]:
    """List the nodes that kernels compute: all except views, whose outputs share the memory of their inputs."""
    return [node for node in graph.nodes if view_offsets(node) is None]


def _view_offset(node: Node, place: int) -> int | None:
    if node.computation.outputs[place] is node.computation.inputs[0]:
        return 0
    copied = copied_element(node, place)
    if copied is None or node.outputs[place].dtype != node.inputs[0].dtype:
        return None
    axes, indices = copied
    source, made = node.inputs[0].shape, node.outputs[place].shape
    if all(map(_same, indices, axes)) and source == made:
        return 0
    ranges: Ranges = {axis: (0, axis.extent - 1) for axis in axes}
    gap = simplified_linear(flat_index(source, indices) - flat_index(made, axes), ranges)
    return gap.const if gap.is_const else None


def _same(index: Expr, axis: IterVar) -> bool:
    return index is axis


@_once
def is_view(node: Node) -> bool:
    """Decide if the only output has all elements of the only input in the same order."""
    same_size = len(node.outputs) == 1 and len(node.inputs) == 1 and (
        math.prod(node.inputs[0].shape) == math.prod(node.outputs[0].shape)
    )  # fmt: skip
    return same_size and view_offsets(node) == (0,)


@_once
def permutation_of(node: Node) -> tuple[int, ...] | None:
    """Return the `perm` of a node that only permutes the axes of its only input; None for other nodes."""
    copied = copied_element(node) if len(node.inputs) == len(node.outputs) == 1 else None
    if copied is None:
        return None
    axes, indices = copied
    places = {axis: place for place, axis in enumerate(axes)}
    order = [places.get(index, -1) if isinstance(index, IterVar) else -1 for index in indices]
    if sorted(order) != list(range(len(axes))):
        return None
    same_extents = all(node.inputs[0].shape[axis] == axes[place].extent for axis, place in enumerate(order))
    return tuple(order.index(axis) for axis in range(len(axes))) if same_extents else None


def copied_element(node: Node, place: int = 0) -> tuple[tuple[IterVar, ...], tuple[Expr, ...]] | None:
    """Return the axes of an output and the indices of the input's element that it copies.

    None for a computed output, and for one with elements as indices.
    """
    tensor = node.computation.outputs[place]
    op = tensor.op
    if isinstance(op, PlaceholderOp) or not isinstance(op, ComputeOp) or not _is_plain(op):
        return None
    body = op.body[tensor.value_index]
    inputs = [each.buffer for each in node.computation.inputs]
    if not isinstance(body, Load) or body.buffer not in inputs or any(load is not body for load in loads(body)):
        return None
    return op.axis, body.indices
