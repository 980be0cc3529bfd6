"""`Graph`: nodes in an order in which they can run, the values between them, and constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from pegbox.compute.ops import placeholder
from pegbox.compute.tensor import Tensor
from pegbox.errors import GraphError

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Value:
    """An array of a graph: an input, a constant, or an output of a node. Two values are equal only if identical."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}"

    def placeholder(self) -> Tensor:
        """Make the tensor that stands for the value in a computation that reads it."""
        return placeholder(self.shape, self.dtype, self.name)


@dataclass(frozen=True, eq=False)
class Node:
    """An operator applied to values.

    Attributes:
        name: its name in the model.
        kind: the operator's name, as in "Conv".
        inputs, outputs: the values that it reads and makes.
        compute: a function of one tensor per input, which gives one tensor per output: the operator's meaning.
        attributes: what `compute` depends on beside the tensors, in a form for people.
        parts: the nodes that a fused node was made of, in their order; empty for others.
    """

    name: str
    kind: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    compute: Callable[..., Sequence[Tensor]]
    attributes: Mapping[str, object] = field(default_factory=dict)
    parts: tuple[Node, ...] = ()

    def __str__(self) -> str:
        inputs = ", ".join(value.name for value in self.inputs)
        given = "".join(f", {key}={value}" for key, value in self.attributes.items())
        return f"{', '.join(map(str, self.outputs))} = {self.kind}({inputs}{given})"


@dataclass(frozen=True)
class Graph:
    """A program of nodes.

    Attributes:
        name: the model's name.
        inputs, outputs: the values that a call is given and returns.
        nodes: each one behind those that make its inputs.
        constants: the arrays of the values that are neither inputs nor made by nodes.

    Raises:
        GraphError: a node reads a value that nothing makes before it, or two make the same one.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[Value, Array]

    def __post_init__(self) -> None:
        known = {*self.inputs, *self.constants}
        for node in self.nodes:
            for value in node.inputs:
                if value not in known:
                    raise GraphError(f"{node.name}: {node.kind} reads {value.name!r}, which nothing before it makes")
            for value in node.outputs:
                if value in known:
                    raise GraphError(f"{node.name}: {node.kind} makes {value.name!r}, which exists before it")
                known.add(value)
        for value in self.outputs:
            if value not in known:
                raise GraphError(f"nothing makes the output {value.name!r} of {self.name}")

    def __str__(self) -> str:
        lines = [f"graph {self.name}({', '.join(map(str, self.inputs))}):"]
        lines += [f"    {node}" for node in self.nodes]
        return "\n".join([*lines, f"    return {', '.join(value.name for value in self.outputs)}"])
