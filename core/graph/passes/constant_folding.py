"""The pass that computes nodes with only constant inputs ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from pegbox.errors import GraphError, PegboxError
from pegbox.expr.dtypes import nbytes
from pegbox.graph.graph import Array, Graph, Node, Value
from pegbox.graph.kind import is_view, permutation_of
from pegbox.graph.reference import run_node
from pegbox.graph.rewriting import Rewriting

_MOST_BYTES = 1 << 24
"""The bytes up to which a result may be far larger than its inputs, since kernels expand small arrays at no cost."""


def constant_folding(graph: Graph) -> Graph:
    """Replace nodes that read only constants by their results, unless these are far larger than the constants.

    ::

        s = Sqrt(c)          y = Mul(x, s)     (s is a constant)
        y = Mul(x, s)   ->   return y
        return y

    Raises:
        GraphError: a node cannot be computed, such as one that reads an element outside an array.
    """
    made = Rewriting(graph)
    for node in graph.nodes:
        if all(value in made.constants for value in node.inputs) and _is_small(node):
            arrays = _folded(node, [made.constants[value] for value in node.inputs])
            made.constants.update(zip(node.outputs, arrays, strict=True))
        else:
            made.add(node)
    return made.graph()


def _is_small(node: Node) -> bool:
    return _bytes(node.outputs) <= max(4 * _bytes(node.inputs), _MOST_BYTES)


def _bytes(values: Sequence[Value]) -> int:
    return sum(nbytes(value.dtype) * prod(value.shape) for value in values)


def _folded(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Compute a node; leave mere moves of weights to NumPy, which shares or copies them at once."""
    if is_view(node):
        return [arrays[0].reshape(node.outputs[0].shape)]
    order = permutation_of(node)
    if order is not None:
        return [np.asarray(arrays[0].transpose(order), order="C")]
    try:
        return run_node(node, arrays)
    except PegboxError as error:
        raise GraphError(f"{node.kind} {node.name!r}: {error}") from error
