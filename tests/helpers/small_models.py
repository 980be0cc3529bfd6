"""Small graphs, and modules of them whose kernels are compiled for the first configuration of a sketch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pegbox import te
from pegbox.codegen import Target
from pegbox.codegen.runtime import machine
from pegbox.graph import Graph, Node, Value
from pegbox.graph.kind import computed_nodes
from pegbox.graph.operations import make_node
from pegbox.model.module import Module
from pegbox.model.node_task import generated_task
from pegbox.model.selection import Selection
from pegbox.search.models.prediction import PREDICTED

ONE_CORE = Target("llvm -num-cores 1")
Array = np.ndarray[Any, Any]


def value(name: str, *shape: int, dtype: str = "float32") -> Value:
    return Value(name, shape, dtype)


def scaled(name: str, x: Value, factor: float) -> Node:
    """X times a number."""
    return make_node(name, "Mul", [x], lambda a: [te.compute(a.shape, lambda *i: a[i] * factor, name="m")])


def added(name: str, a: Value, b: Value) -> Node:
    """A + B of one shape."""
    return make_node(name, "Add", [a, b], lambda a, b: [te.compute(a.shape, lambda *i: a[i] + b[i], name="s")])


def graph_of(
    inputs: Sequence[Value],
    nodes: Sequence[Node],
    outputs: Sequence[Value],
    constants: Mapping[Value, Array] | None = None,
    *,
    name: str = "small",
) -> Graph:
    return Graph(name, tuple(inputs), tuple(outputs), tuple(nodes), constants or {})


def selected(graph: Graph, target: Target = ONE_CORE, *, config: int = 0) -> list[Selection]:
    """Compile a configuration of each node's sketch."""
    made = []
    for node in computed_nodes(graph):
        task = generated_task(node, target)
        chosen = task.task.space.get(config)
        made.append(Selection(task, chosen, PREDICTED, machine.compile_program(task.task.lower(chosen))))
    return made


def module_of(graph: Graph, target: Target = ONE_CORE) -> Module:
    return Module(graph, selected(graph, target))


def arrays_for(graph: Graph, seed: int = 0) -> list[Array]:
    """Whole numbers as inputs, so that sums are exact."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-9, 9, value.shape).astype(value.dtype) for value in graph.inputs]
