"""`Module`: a compiled model, a function of arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pegbox.codegen.runtime.kernel import load
from pegbox.expr import dtypes
from pegbox.graph.graph import Array, Graph, Value
from pegbox.model.model_task import VIEW
from pegbox.model.selection import Selection


class Module:
    """A compiled model.

    Attributes:
        graph: what it computes.
        selections: the kernels of its nodes.
    """

    def __init__(self, graph: Graph, selections: Sequence[Selection]) -> None:
        self.graph = graph
        self.selections = tuple(selections)
        self._constants: dict[Value, Array] = dict(graph.constants)
        self._calls = [self._call_of(each) for each in selections]

    def __call__(self, *arrays: Array) -> list[Array]:
        """Compute the outputs from the inputs, in the order of the graph."""
        known = {**self._constants, **dict(zip(self.graph.inputs, arrays, strict=True))}
        calls = iter(zip(self.selections, self._calls, strict=True))
        for node in self.graph.nodes:
            if node.kind == VIEW:
                known[node.outputs[0]] = known[node.inputs[0]].reshape(node.outputs[0].shape)
                continue
            selection, (kernel, packed) = next(calls)
            for value in selection.node_task.node.outputs:
                known[value] = np.empty(value.shape, dtypes.numpy_dtype(value.dtype))
            kernel(*[known[arg.value] if each is None else each
                     for arg, each in zip(selection.node_task.arguments, packed, strict=True)])  # fmt: skip
        return [known[value] for value in self.graph.outputs]

    def _call_of(self, selection: Selection):  # type: ignore[no-untyped-def]
        packed = [
            None if each.pack is None else each.pack(self._constants[each.value])
            for each in selection.node_task.arguments
        ]
        return load(selection.program), packed
