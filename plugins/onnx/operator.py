"""`OperatorNode`, a node of an ONNX model with everything but its tensors, and the table of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.errors import GraphError

Array = NDArray[Any]
Meaning = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class OperatorNode:
    """An ONNX node without its tensors.

    Attributes:
        name, kind, opset: the node's name, its operator, and the version of the operators.
        attributes: its attributes by name.
        constants: the arrays of the inputs whose values decide shapes.
        outputs: the number of outputs.
    """

    name: str
    kind: str
    opset: int
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[int, Array] = field(default_factory=dict)
    outputs: int = 1

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.attributes.get(name, default)

    def numbers(self, place: int, name: str = "", default: Any = None) -> Any:
        """Return the integers of a constant input, which was an attribute in older versions."""
        if place in self.constants:
            return np.atleast_1d(self.constants[place]).tolist()
        return self.get(name, default)

    def scalar(self, place: int, name: str = "", default: Any = None) -> Any:
        """Return the number of a constant input, which was an attribute in older versions."""
        found = self.numbers(place, name)
        return default if found is None else found if not isinstance(found, list) else found[0]

    def refuse(self, reason: str, remedy: str = "change the node, or cut the model there") -> OperatorRefused:
        """Make the error for a node that cannot be computed."""
        return OperatorRefused(f"{self.kind} {self.name!r}", reason, remedy)

    def require_shape(self, name: str, found: Sequence[int], wanted: Sequence[int]) -> None:
        """Raise OperatorRefused if an input's shape does not fit the node's other inputs and attributes."""
        if tuple(found) != tuple(wanted):
            reason = (
                f"its {name} has the shape {list(found)}, but its other inputs and attributes ask for {list(wanted)}"
            )
            raise self.refuse(reason, "correct the node, or export the model again")


class OperatorRefused(GraphError):
    """A node cannot be computed, with the reason and the remedy."""

    def __init__(self, node: str, reason: str, remedy: str = "") -> None:
        super().__init__(f"{node}: {reason}" + (f"; {remedy}" if remedy else ""))
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True)
class Operator:
    """The meaning of an operator.

    Attributes:
        meaning: a function of a node and of its tensors, None for those that are missing. It returns one or several
            tensors, or arrays if the values of an output are known.
        constants: the places of inputs whose values must be known when a model is read.
        known: the places of inputs that are also among the node's constants if their values are known; a meaning that
            does not read their tensors then need not get them.
        empty: True if the meaning takes inputs without elements from the node's constants.
    """

    meaning: Meaning
    constants: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    empty: bool = False


OPERATORS: dict[str, Operator] = {}


def operator(
    *kinds: str, constants: Sequence[int] = (), known: Sequence[int] = (), empty: bool = False
) -> Callable[[Meaning], Meaning]:
    """Register the function of a node and of its tensors that computes an operator."""

    def register(meaning: Meaning) -> Meaning:
        for kind in kinds:
            OPERATORS[kind] = Operator(meaning, tuple(constants), tuple(known), empty)
        return meaning

    return register
