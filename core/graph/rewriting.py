"""`Rewriting`: the construction of a graph from another one, node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pegbox.compute.tensor import Tensor
from pegbox.graph.graph import Array, Graph, Node, Value
from pegbox.graph.meaning import bound
from pegbox.graph.operations import reshape_node

OF_TWO = ("Conv", "MatMul")
"""The kinds of nodes that keep two inputs, even if these are the same value."""


class Rewriting:
    """A graph under construction. A pass walks over the nodes of the old graph, adds nodes and replaces values.

    Attributes:
        source: the old graph.
        constants: the arrays of the constants.
    """

    def __init__(self, source: Graph) -> None:
        self.source = source
        self.constants: dict[Value, Array] = dict(source.constants)
        self._nodes: list[Node] = []
        self._replaced: dict[Value, Value] = {}

    def current(self, node: Node) -> Node:
        """Return a node of the old graph with the values that replaced its inputs."""
        return with_distinct_inputs(
            node.over([self._replaced.get(value, value) for value in node.inputs], node.outputs)
        )

    def add(self, *nodes: Node) -> None:
        """Append nodes."""
        self._nodes += nodes

    def constant(self, name: str, array: Array) -> Value:
        """Add a constant."""
        array = np.asarray(array, order="C")
        value = Value(name, array.shape, str(array.dtype))
        self.constants[value] = array
        return value

    def replace(self, value: Value, by: Value) -> None:
        """Let the following nodes read another value, of the same shape and type, in place of one."""
        self._replaced[value] = self._replaced.get(by, by)

    def graph(self) -> Graph:
        """Make the graph. Its outputs are the old graph's values, even if others replaced them."""
        made = {value for node in self._nodes for value in node.outputs}
        returned = set(self.source.outputs)
        renamed: dict[Value, Value] = {}
        for output in dict.fromkeys(self.source.outputs):
            by = self._replaced.get(output)
            if by is None or output in self.constants:
                continue
            if by in made and by not in renamed and by not in returned:
                renamed[by] = output
            else:
                self.add(reshape_node(output.name, renamed.get(by, by), output.shape, output=output))
        nodes = [_renamed(node, renamed) for node in self._nodes] if renamed else self._nodes
        graph = self.source
        return Graph(graph.name, graph.inputs, graph.outputs, tuple(nodes), self.constants)


def _renamed(node: Node, names: dict[Value, Value]) -> Node:
    def new(values: Sequence[Value]) -> list[Value]:
        return [names.get(value, value) for value in values]

    return node.over(new(node.inputs), new(node.outputs))


def with_distinct_inputs(node: Node) -> Node:
    """Return a node that reads each value once, unlike `Mul(x, x)`; products keep two operands."""
    distinct = list(dict.fromkeys(node.inputs))
    if len(distinct) == len(node.inputs) or node.kind in OF_TWO:
        return node
    places = tuple(map(distinct.index, node.inputs))
    return replace(node, inputs=tuple(distinct), compute=bound(_repeated, node.compute, places))


def _repeated(compute: Callable[..., Sequence[Tensor]], places: Sequence[int], *tensors: Tensor) -> Sequence[Tensor]:
    return compute(*(tensors[place] for place in places))


def with_outputs(node: Node, places: Sequence[int]) -> Node:
    """Return a node that makes only some of the outputs."""
    outputs = tuple(node.outputs[place] for place in places)
    return replace(node, outputs=outputs, compute=bound(_chosen, node.compute, tuple(places)))


def _chosen(compute: Callable[..., Sequence[Tensor]], places: tuple[int, ...], *tensors: Tensor) -> list[Tensor]:
    made = compute(*tensors)
    return [made[place] for place in places]
