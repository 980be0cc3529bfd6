"""`Model`: a graph before and after optimization; `load_model` and `compile_model`."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

from pegbox.checks import check_instance, check_int, check_list, check_mapping, check_path, with_checked_keywords
from pegbox.codegen.targets.target import Target, target_of
from pegbox.errors import ArgumentError
from pegbox.graph import Graph
from pegbox.graph.kind import computed_nodes
from pegbox.graph.passes import optimize
from pegbox.hooks import registry
from pegbox.model.latency import preferred
from pegbox.model.model_task import ModelTask, model_tasks, task_keys
from pegbox.model.module import Module
from pegbox.model.selection import Knowledge, select_fastest, total_cost
from pegbox.model.variant_choice import VariantChoice
from pegbox.operators.kernel_library import StoreLike, held_store
from pegbox.records.history import History
from pegbox.records.journal import Journal
from pegbox.task.accuracy import check_accuracy

IN_PARTS = "NHWC, fused, attention in parts"
"""The name of the variant that computes attention by several kernels."""

_OTHERS: Mapping[str, Mapping[str, Any]] = {
    "NCHW, fused": {"layout": "NCHW"}, "NHWC, not fused": {"fuse": False}, IN_PARTS: {"attend": False},
}  # fmt: skip
"""The other decisions on layouts and fusion, as options of the passes."""


class Model:
    """A model.

    Attributes:
        graph: the graph as read.
        accuracy: the largest error that kernels may have, relative to the largest magnitude of their outputs; None for
            the default of a task.
    """

    def __init__(self, graph: Graph, *, accuracy: float | None = None) -> None:
        self.graph = check_instance("graph", graph, Graph, "a pegbox.graph.Graph")
        self.accuracy = None if accuracy is None else check_accuracy(accuracy)

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self.graph.name

    @cached_property
    def optimized(self) -> Graph:
        """The graph to compile."""
        return self._optimized()

    @cached_property
    def variants(self) -> Mapping[str, Graph]:
        """The graphs by name among which measurements choose; the first is `optimized`.

        Graphs with the same tasks are left out.
        """
        found = {"NHWC, fused": self.optimized}
        keys = [task_keys(self.optimized)]
        for name, options in _OTHERS.items():
            graph = self._optimized(**options)
            if (key := task_keys(graph)) not in keys:
                found[name] = graph
                keys.append(key)
        return found

    def _optimized(self, **options: Any) -> Graph:
        return replace(optimize(self.graph, **options), accuracy=self.accuracy)

    def __repr__(self) -> str:
        return f"<Model {self.name}: {len(self.graph.nodes)} operators>"

    def __str__(self) -> str:
        """Describe the operators, and the tasks with their numbers of calls; a "+" joins fused operators."""
        graph = self.graph
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(n.kind for n in graph.nodes).most_common())
        tasks = model_tasks([self.optimized], target_of(None))
        kernels = list(computed_nodes(self.optimized))
        fused = sum(bool(node.parts) for node in kernels)
        lines = [
            f"{self.name}: {len(graph.nodes)} operators ({kinds})",
            *(f"  input   {value}" for value in graph.inputs),
            *(f"  output  {value}" for value in graph.outputs),
            f"{len(kernels)} kernels, {fused} of them of several operators; {len(tasks)} tasks:",
            "  calls  task",
            *(f"  {task.calls:5}  {task.name}" for task in tasks),
        ]
        return "\n".join(lines)


ModelLike: TypeAlias = Model | str | os.PathLike[str]
"""A model, or its file."""


def load_model(
    path: str | os.PathLike[str],
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    accuracy: float | None = None,
) -> Model:
    """Read a model from a file.

    Args:
        path: the file, whose suffix names its format: ".onnx", or another that a plugin reads.
        shapes: the shapes of inputs whose dimensions the file leaves open.
        accuracy: the largest error of a kernel, relative to the largest magnitude of its outputs, such as 1e-6. Kernels
            whose algorithms have larger errors are left out. By default, each task has its own.

    Raises:
        ArgumentError: the file does not exist, no reader accepts its suffix, shapes are wrong, or the accuracy is not
            above 0 and at most 1.
        PluginError: the reader of a plugin cannot be imported.
        GraphError: the file is damaged, or holds an operator that is not supported.
    """
    file = check_path("load_model: path", path)
    wanted = "the shape of each input by its name, such as {'x': (1, 3, 224, 224)}"
    given = None if shapes is None else check_mapping("shapes", shapes, wanted)
    known = registry.names("model_reader")
    if file.suffix not in known:
        raise ArgumentError(f"load_model({str(file)!r}): no reader for {file.suffix!r}; there are {', '.join(known)}")
    graph = registry.get("model_reader", file.suffix)(file, shapes=given)
    return Model(graph, accuracy=accuracy)


@with_checked_keywords
def compile_model(
    model: ModelLike,
    *,
    target: str | Target | None = None,
    num_threads: int | None = None,
    records: str | os.PathLike[str] | Journal | None = None,
    store: StoreLike = "user",
) -> Module:
    """Compile a model, each task with the best known configuration, or else with a predicted one.

    Args:
        model: a model, or its file.
        target: the processor; by default that of the surrounding `with pegbox.Target(...):` block, or this machine.
        num_threads: the number of threads of each kernel; by default the target's.
        records: the file that `tune_model` wrote, which takes precedence over the store.
        store: the user's store, another `pegbox.store.TuningStore`, or None. Kernels are kept in it: a second process
            compiles none.

    Raises:
        CompileError: none of the configurations of a node can be compiled.
        RecordError: there is no such file, it is damaged, or its records are from other spaces.
        GraphError, ArgumentError: as `load_model`.
    """
    kept = held_store(store)
    knowledge = Knowledge.of(history_of(records), kept)
    machine = machine_of(target, num_threads)
    graphs = promising_graphs(as_model(model), machine, knowledge)
    return Module(*select_fastest(graphs, model_tasks(graphs, machine), knowledge))


def promising_graphs(model: Model, target: Target, knowledge: Knowledge) -> list[Graph]:
    """List the variants of a model whose kernels must be timed.

    If one was the fastest as a whole, it is the only one, or else the one with the least sum of measured seconds if all
    tasks of the first variant were measured. Otherwise all are listed, since predictions do not compare an attention
    with its parts.
    """
    first = total_cost(model_tasks([model.optimized], target), knowledge)
    if first == math.inf:
        attends = any(part.kind == "Attention" for node in model.optimized.nodes for part in node.parts or (node,))
        in_parts = model.variants.get(IN_PARTS) if attends else None
        return [model.optimized] if in_parts is None else [model.optimized, in_parts]
    others = list(model.variants.values())[1:]
    totals = [first, *(total_cost(model_tasks([graph], target), knowledge) for graph in others)]
    choice = VariantChoice(model.name, model.variants, target)
    found = knowledge.best_config(choice.as_task)
    return [choice.graph(preferred(totals, decided=None if found is None else found.index))]


def extract_tasks(
    models: ModelLike | Sequence[ModelLike], *, target: str | Target | None = None, num_threads: int | None = None
) -> list[ModelTask]:
    """Find the tasks of a model, or of several, in the order of the first call; equal ones once.

    Args:
        models: a model or its file, or a list of these.
        target, num_threads: as for `compile_model`.

    Raises:
        GraphError, ArgumentError: as `load_model`.
    """
    graphs = [each.optimized for each in as_models(models)]
    return model_tasks(graphs, machine_of(target, num_threads))


def as_model(given: ModelLike) -> Model:
    """Return the model; read it if it is a file."""
    if isinstance(given, Model):
        return given
    if isinstance(given, str | os.PathLike):
        return load_model(given)
    return check_instance("model", given, Model, "what pegbox.load_model gives, or the file of a model")


def as_models(given: ModelLike | Sequence[ModelLike]) -> list[Model]:
    """Return a list of models; a single one needs no list."""
    if isinstance(given, Model | str | os.PathLike):
        return [as_model(given)]
    listed = check_list("models", given, "models, or files of models")
    if not listed:
        raise ArgumentError("models=[]: give at least one model")
    return [as_model(each) for each in listed]


def machine_of(target: str | Target | None, num_threads: int | None) -> Target:
    """Return the target, with another number of threads if one is given."""
    machine = target_of(target)
    if num_threads is None:
        return machine
    return machine.with_cores(check_int("num_threads", num_threads))


def history_of(records: str | os.PathLike[str] | Journal | None) -> History | None:
    """Read the records of a file; None without one.

    Raises:
        RecordError: there is no such file, or it is damaged.
    """
    if records is None:
        return None
    journal = records if isinstance(records, Journal) else Journal(records)
    return History(journal.read(), source=str(journal.path))
