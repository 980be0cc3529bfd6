"""The values of a graph, computed node by node by the reference evaluator of computations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pegbox.compute import reference
from pegbox.graph.graph import Array, Graph, Node, Value


def evaluate(graph: Graph, inputs: Mapping[Value, Array]) -> list[Array]:
    """Compute the outputs of a graph from the arrays of its inputs."""
    known = {**graph.constants, **inputs}
    for node in graph.nodes:
        known.update(zip(node.outputs, run_node(node, [known[value] for value in node.inputs]), strict=True))
    return [known[value] for value in graph.outputs]


def run_node(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Compute the outputs of a node from the arrays of its inputs."""
    tensors = [value.placeholder() for value in node.inputs]
    return reference.evaluate(list(node.compute(*tensors)), dict(zip(tensors, arrays, strict=True)))
