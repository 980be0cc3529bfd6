"""Fused nodes: several nodes as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pegbox.compute.tensor import Tensor
from pegbox.graph.graph import Node, Value


def fused_node(parts: Sequence[Node]) -> Node:
    """Make one node that computes the outputs of the last of several nodes from their outside inputs.

    It has the name and the attributes of the first part, and the kinds of all.
    """
    nodes = tuple(part for node in parts for part in (node.parts or (node,)))
    made = {value for node in nodes for value in node.outputs}
    inputs = tuple(dict.fromkeys(value for node in nodes for value in node.inputs if value not in made))
    places: dict[Value, int] = {}
    for value in (*inputs, *(value for node in nodes for value in node.outputs)):
        places.setdefault(value, len(places))
    kind = "+".join(node.kind for node in nodes)
    outputs, first = nodes[-1].outputs, nodes[0]
    steps = tuple((node.compute, tuple(places[value] for value in node.inputs)) for node in nodes)
    compute = _Composition(steps, tuple(places[value] for value in outputs))
    return Node(first.name, kind, inputs, outputs, compute, first.attributes, nodes)


@dataclass(frozen=True)
class _Composition:
    """A sequence of functions of tensors.

    Attributes:
        steps: each function, with the places of its arguments among the given tensors and the results of earlier
            functions.
        outputs: the places of the tensors to return.
    """

    steps: tuple[tuple[Callable[..., Sequence[Tensor]], tuple[int, ...]], ...]
    outputs: tuple[int, ...]

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        known = list(tensors)
        for compute, places in self.steps:
            known += compute(*(known[place] for place in places))
        return [known[place] for place in self.outputs]
