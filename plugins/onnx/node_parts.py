"""`NodeParts`: the nodes that replace an operator."""

from __future__ import annotations

from typing import Any

import onnx
from numpy.typing import NDArray

from pegbox.plugins.onnx.graph_builder import GraphBuilder


class NodeParts:
    """The nodes that replace one, named after its output."""

    def __init__(self, name: str, graph: GraphBuilder) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._name, self._graph, self._count = name, graph, 0

    def _next(self) -> str:
        self._count += 1
        return f"{self._name}.{self._count}"

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return its output."""
        output = self._next()
        self.nodes.append(onnx.helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def array(self, array: NDArray[Any]) -> str:
        """Add a constant."""
        name = self._next()
        self._graph.add_constant(name, array)
        return name
