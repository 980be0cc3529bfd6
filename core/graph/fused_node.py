"""Fused nodes: several nodes as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pegbox.compute.tensor import Tensor
from pegbox.graph.graph import Node, Value


def fused_node(parts: Sequence[Node]) -> Node:
    """Make the node that computes the outputs of the last of some nodes, from what the nodes do not make themselves.

    It has the name and the attributes of the first part, and the kinds of all.
    """
    nodes = tuple(part for node in parts for part in (node.parts or (node,)))
    made = {value for node in nodes for value in node.outputs}
    inputs = tuple(dict.fromkeys(value for node in nodes for value in node.inputs if value not in made))
    kind = "+".join(node.kind for node in nodes)
    outputs, first = nodes[-1].outputs, nodes[0]
    compute = _Composition(tuple((node.compute, node.inputs, node.outputs) for node in nodes), inputs, outputs)
    return Node(first.name, kind, inputs, outputs, compute, first.attributes, nodes)


@dataclass(frozen=True)
class _Composition:
    """Functions of tensors, one after the other.

    Attributes:
        steps: each function, with the values that it takes and gives.
    """

    steps: tuple[tuple[Callable[..., Sequence[Tensor]], tuple[Value, ...], tuple[Value, ...]], ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        known = dict(zip(self.inputs, tensors, strict=True))
        for compute, inputs, outputs in self.steps:
            known.update(zip(outputs, compute(*(known[value] for value in inputs)), strict=True))
        return [known[value] for value in self.outputs]
