"""The configurations and the compiled programs that a model's nodes run with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pegbox.codegen.compiled import CompiledProgram
from pegbox.codegen.runtime.machine import compile_program
from pegbox.codegen.targets.target import Target
from pegbox.errors import REFUSED
from pegbox.graph.graph import Graph
from pegbox.graph.kind import computed_nodes
from pegbox.model.node_task import NodeTask, implementations_of
from pegbox.search.models.prediction import PREDICTED, TRIED, predicted_configs
from pegbox.space import Config
from pegbox.store import TuningStore
from pegbox.task.task import Task


@dataclass(frozen=True, eq=False)
class Selection:
    """The kernel of a node.

    Attributes:
        node_task: the implementation.
        config, origin: its configuration, "tuned" or "predicted, not tuned".
        program: its machine code.
    """

    node_task: NodeTask
    config: Config
    origin: str
    program: CompiledProgram


def select(graph: Graph, target: Target, *, store: TuningStore | None = None) -> list[Selection]:
    """Choose the kernels of a graph's nodes; nodes that compute the same have the same."""
    known: dict[str, tuple[Config, str, CompiledProgram]] = {}
    made = []
    for node in computed_nodes(graph):
        node_task = _best(implementations_of(node, graph.constants, target))
        key = str(node_task.task.workload)
        if key not in known:
            known[key] = _compiled(node_task.task, store)
        made.append(Selection(node_task, *known[key]))
    return made


def _best(found: Sequence[NodeTask]) -> NodeTask:
    return found[0]


def _compiled(task: Task, store: TuningStore | None) -> tuple[Config, str, CompiledProgram]:
    config = None if store is None else store.best_config(task)
    if config is not None:
        return config, "tuned", compile_program(task.lower(config))
    refused: Exception | None = None
    for number, config in enumerate(predicted_configs(task)):
        try:
            return config, PREDICTED, compile_program(task.lower(config))
        except REFUSED as error:
            refused = refused or error
            if number >= TRIED:
                break
    assert refused is not None
    raise refused
