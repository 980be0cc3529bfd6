"""`Graph`: nodes in an order in which they can run, the values between them, and constants."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

from numpy.typing import NDArray

from pegbox.compute.ops import placeholder
from pegbox.compute.tensor import Tensor
from pegbox.errors import ArgumentError, GraphError, PegboxError

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
        """Make the tensor that represents the value in computations that read it."""
        return placeholder(self.shape, self.dtype, self.name)


@dataclass(frozen=True, eq=False)
class Computation:
    """The tensors of a node: the placeholders of its inputs, and the outputs computed from them.

    Nodes with equal meanings share one, with the names of the first node's values.

    Attributes:
        inputs, outputs: the tensors.
        answers: a cache of answers to questions about the tensors.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    answers: dict[str, Any] = field(default_factory=dict, repr=False)


_COMPUTATIONS: WeakValueDictionary[Hashable, Computation] = WeakValueDictionary()
"""The computations of all nodes, by their meanings and the types of their inputs."""


def computed(where: str, inputs: Sequence[Value], compute: Callable[..., Sequence[Tensor]]) -> Computation:
    """Apply a node's meaning to placeholders of its inputs, or return the result for an equal meaning.

    Raises:
        GraphError: the inputs do not fit; the message begins with `where`.
    """
    key = meaning_key(inputs, compute)
    if (known := _COMPUTATIONS.get(key)) is not None:
        return known
    tensors = tuple(value.placeholder() for value in inputs)
    try:
        made = Computation(tensors, tuple(compute(*tensors)))
    except PegboxError as error:
        raise GraphError(f"{where}: {error}") from error
    _COMPUTATIONS[key] = made
    return made


def meaning_key(inputs: Sequence[Value], compute: Callable[..., Sequence[Tensor]]) -> Hashable:
    """Return a key shared by nodes with equal meanings and types of inputs."""
    try:
        hash(compute)
    except TypeError:  # a function whose arguments cannot be compared equals only itself
        compute = _Alone(compute)  # type: ignore[assignment]
    return compute, tuple((value.shape, value.dtype) for value in inputs)


@dataclass(frozen=True, eq=False)
class _Alone:
    function: object


@dataclass(frozen=True, eq=False)
class Node:
    """An operator applied to values.

    Attributes:
        name: its name in the model.
        kind: the operator's name, as in "Conv".
        inputs, outputs: the values that it reads and makes.
        compute: the operator's meaning: a function of one tensor per input that returns one tensor per output.
        attributes: the other values on which `compute` depends, in a form for people.
        parts: the original nodes of a fused node, in order; empty for others.
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

    @cached_property
    def computation(self) -> Computation:
        """The meaning as tensors, made once, to examine but not to schedule.

        Raises:
            GraphError: the node's values have other shapes or types than its meaning.
        """
        found = computed(f"{self.kind} {self.name!r}", self.inputs, self.compute)
        made = [(tensor.shape, tensor.dtype) for tensor in found.outputs]
        if made != [(value.shape, value.dtype) for value in self.outputs]:
            actual = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in made)
            stated = ", ".join(map(str, self.outputs))
            raise GraphError(f"{self.kind} {self.name!r}: computes {actual}; its outputs are {stated}")
        return found

    def over(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Node:
        """Return the same operator on other values with the same shapes and types."""
        if all(map(_is, inputs, self.inputs)) and all(map(_is, outputs, self.outputs)):
            return self
        made = replace(self, inputs=tuple(inputs), outputs=tuple(outputs))
        if "computation" in self.__dict__:
            made.__dict__["computation"] = self.computation
        return made


def _is(a: object, b: object) -> bool:
    return a is b


@dataclass(frozen=True)
class Graph:
    """A program of nodes.

    Attributes:
        name: the model's name.
        inputs, outputs: the values that a call takes and returns.
        nodes: the nodes, each after those that make its inputs.
        constants: the arrays of the values that are neither inputs nor made by nodes.
        accuracy: the largest error that kernels may have, as for a task; None for the default.

    Raises:
        GraphError: a node reads a value that nothing makes before it, or two make the same one.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[Value, Array]
    accuracy: float | None = None

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

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse to be pickled.

        Raises:
            ArgumentError: always, with advice on what to pickle instead.
        """
        raise ArgumentError(
            f"the model {self.name} cannot be pickled: its operators are functions of this process; read its file in "
            "the other process with pegbox.load_model(path), or pickle pegbox.compile_model(model)"
        )

    def __copy__(self) -> Graph:
        return self

    def __deepcopy__(self, memo: object) -> Graph:
        return self

    @cached_property
    def producers(self) -> Mapping[Value, Node]:
        """The node that makes each value, except inputs and constants."""
        return {value: node for node in self.nodes for value in node.outputs}

    @cached_property
    def consumers(self) -> Mapping[Value, tuple[Node, ...]]:
        """The nodes that read each value, each node once; values without readers are missing."""
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                found.setdefault(value, []).append(node)
        return {value: tuple(nodes) for value, nodes in found.items()}

    def sole_consumer(self, value: Value) -> Node | None:
        """Return the only node that reads a value; None if there are several, or the graph returns the value."""
        nodes = self.consumers.get(value, ())
        return nodes[0] if len(nodes) == 1 and value not in self._returned else None

    @cached_property
    def _returned(self) -> frozenset[Value]:
        return frozenset(self.outputs)
