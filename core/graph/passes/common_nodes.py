"""The pass that replaces nodes and constants by equal ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from pegbox.compute.graph import post_order
from pegbox.compute.printer import te_lines, tensor_names
from pegbox.compute.tensor import ExternOp
from pegbox.graph.graph import Array, Graph, Node, Value
from pegbox.graph.kind import operations_of
from pegbox.graph.rewriting import Rewriting

_SAMPLES = 64


def common_nodes(graph: Graph) -> Graph:
    """Compute equal things once: nodes of one kind and computation on the same values, and constants with equal arrays.

    ::

        a = Exp(x)          a = Exp(x)
        b = Exp(x)    ->    y = Add(a)
        y = Add(a, b)       return y
        return y
    """
    made = Rewriting(graph)
    _share_constants(made)
    known: dict[Hashable, list[Node]] = {}
    for node in graph.nodes:
        node = made.current(node)
        alike = known.setdefault(_key(node), [])
        equal = next((other for other in alike if _computes_the_same(node, other)), None)
        if equal is None:
            alike.append(node)
            made.add(node)
            continue
        for value, by in zip(node.outputs, equal.outputs, strict=True):
            made.replace(value, by)
    return made.graph()


def _share_constants(made: Rewriting) -> None:
    known: dict[Hashable, list[Value]] = {}
    for value, array in made.source.constants.items():
        alike = known.setdefault((value.dtype, value.shape, _sample(array)), [])
        equal = next((other for other in alike if _same_bits(array, made.constants[other])), None)
        if equal is None or value in made.source.outputs:  # outputs are never replaced
            alike.append(value)
        else:
            made.replace(value, equal)


def _sample(array: Array) -> bytes:
    """Return the bits of a few elements, in which most arrays differ, without reading whole weights from files."""
    flat = array.reshape(-1)
    return flat[:: max(flat.size // _SAMPLES, 1)].tobytes()


def _same_bits(a: Array, b: Array) -> bool:
    return np.array_equal(a.reshape(-1).view("uint8"), b.reshape(-1).view("uint8"))


def _key(node: Node) -> Hashable:
    outputs = tuple((value.shape, value.dtype) for value in node.outputs)
    return node.kind, node.inputs, outputs, repr(dict(node.attributes))


def _computes_the_same(a: Node, b: Node) -> bool:
    return a.compute is b.compute or (_is_known([a, b]) and _text(a) == _text(b))


def _is_known(nodes: Iterable[Node]) -> bool:
    """Decide if the text of computations describes them completely."""
    return not any(isinstance(op, ExternOp) for node in nodes for op in operations_of(node))


def _text(node: Node) -> list[str]:
    """Print a node's computation and the names of its outputs, with inputs named by place."""
    order = post_order([tensor.op for tensor in (*node.computation.inputs, *node.computation.outputs)])
    names = tensor_names(order)
    names |= {tensor.buffer: f"input_{place}" for place, tensor in enumerate(node.computation.inputs)}
    lines = te_lines([op for op in order if op.inputs], names)
    return [*lines, *(names[tensor.buffer] for tensor in node.computation.outputs)]
