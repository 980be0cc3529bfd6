"""`GraphBuilder`: a graph to which nodes are added in order, with constant folding on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from pegbox.errors import GraphError
from pegbox.graph import Graph, Node, Value, run_node
from pegbox.plugins.onnx.operators.casts import DTYPES

Array = NDArray[Any]

_ELEMENTS = {dtype: number for number, dtype in DTYPES.items()}


class GraphBuilder:
    """A graph without outputs.

    Attributes:
        values: those with a name in the model, by that name.
    """

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self._inputs: list[Value] = []
        self._constants: dict[Value, Array] = {}
        self._nodes: list[Node] = []
        self._makers: dict[Value, int] = {}
        self._foldable: set[Value] = set()

    def add_value(self, name: str, shape: Sequence[int], dtype: str) -> Value:
        """Add a value; one without elements is known. A value with an empty name cannot be read."""
        value = Value(name, tuple(shape), dtype)
        if name:
            self.values[name] = value
        if 0 in value.shape:
            self._constants[value] = np.empty(value.shape, onnx.helper.tensor_dtype_to_np_dtype(_ELEMENTS[dtype]))
        return value

    def add_input(self, name: str, shape: Sequence[int], dtype: str) -> None:
        """Add an input."""
        self._inputs.append(self.add_value(name, shape, dtype))

    def add_constant(self, name: str, array: Array) -> None:
        """Add an array. Raises GraphError if the type of its elements is not supported."""
        dtype = str(array.dtype)
        if dtype not in _ELEMENTS:
            raise GraphError(f"elements of {dtype} are not supported")
        self._constants[self.add_value(name, array.shape, dtype)] = array

    def add_node(self, node: Node) -> None:
        """Add a node, whose outputs are values added before."""
        self._makers.update(dict.fromkeys(node.outputs, len(self._nodes)))
        self._nodes.append(node)
        if all(value in self._constants or value in self._foldable for value in node.inputs):
            self._foldable.update(node.outputs)

    def array_of(self, value: Value) -> Array | None:
        """Return the array of a value that depends only on constants; None for others."""
        if value not in self._constants and value in self._foldable:
            for node in self._makers_of([value]):
                arrays = run_node(node, [self._constants[each] for each in node.inputs])
                self._constants.update(zip(node.outputs, arrays, strict=True))
        return self._constants.get(value)

    def inputs_of(self, value: Value) -> tuple[str, ...]:
        """Return the names of the inputs that a value depends on."""
        read = {each for node in self._makers_of([value]) for each in node.inputs} | {value}
        return tuple(each.name for each in self._inputs if each in read)

    def graph(self, name: str, outputs: Sequence[Value]) -> Graph:
        """Make the graph with these outputs, without the nodes that they don't need."""
        nodes = tuple(self._makers_of(outputs))
        used = {value for node in nodes for value in node.inputs} | set(outputs)
        constants = {value: self._constants[value] for value in self._constants if value in used}
        return Graph(name, tuple(self._inputs), tuple(outputs), nodes, constants)

    def _makers_of(self, values: Iterable[Value]) -> Iterator[Node]:
        """List the nodes that make values from inputs and constants, in order."""
        wanted, places = list(values), set()
        while wanted:
            value = wanted.pop()
            place = self._makers.get(value)
            if value not in self._constants and place is not None and place not in places:
                places.add(place)
                wanted += self._nodes[place].inputs
        return (self._nodes[place] for place in sorted(places))
