"""`tune_model`: the search for the fastest kernels of models, whose tasks share trials by their part of the time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_flag, with_checked_keywords
from pegbox.codegen.targets.target import Target
from pegbox.errors import ArgumentError, SpaceError
from pegbox.graph.graph import Array, Graph, Value
from pegbox.model.display import model_progress
from pegbox.model.final_rounds import FinalRounds
from pegbox.model.index_inputs import index_inputs
from pegbox.model.latency import Latency
from pegbox.model.memory import bytes_between_calls
from pegbox.model.model import Model, ModelLike, as_models, machine_of
from pegbox.model.model_task import ModelTask, model_tasks
from pegbox.model.node_task import NodeTask
from pegbox.model.result import ModelResult
from pegbox.model.selection import Knowledge
from pegbox.model.variant_choice import VariantChoice
from pegbox.operators.kernel_library import StoreLike, held_store
from pegbox.records.history import History, own_records
from pegbox.records.journal import Journal
from pegbox.search.allocation import AllocationLike, make_allocation
from pegbox.search.loop.callbacks import CallbackLike
from pegbox.search.loop.proposals import first_fault
from pegbox.search.models.prediction import predicted_configs
from pegbox.search.protocols import TunerFactory
from pegbox.search.task_scheduler import OnRound, TaskScheduler
from pegbox.space import Config
from pegbox.task.task import Task

if TYPE_CHECKING:
    from pegbox.measure.runners.runner import RunnerLike


@with_checked_keywords
def tune_model(
    models: ModelLike | Sequence[ModelLike],
    *,
    trials: int | None = None,
    budget: float | str | None = None,
    records: str | os.PathLike[str] | Journal | None = None,
    target: str | Target | None = None,
    num_threads: int | None = None,
    tuner: str | TunerFactory = "bayes",
    allocation: AllocationLike = "gradient",
    seed: int = 0,
    runner: RunnerLike = "local",
    timeout: float | str = 10.0,
    callbacks: Iterable[CallbackLike] = (),
    progress: bool = True,
    measure_options: Mapping[str, Any] | None = None,
    store: StoreLike = "user",
) -> ModelResult:
    """Search for the fastest kernels of a model, or of several, in rounds: the most promising task is next.

    Kernels are timed under the conditions of a model: before each timing, as many bytes pass through the caches as
    between two calls in the model, inputs that other kernels compute are written, and arrays begin at cache lines.

    At the end, the fastest kernels of each task are timed in the whole model, in turns with the task's first one, and
    the model in turns with the next best of its variants. This takes seconds beyond the budget, and is skipped after
    Ctrl-C, and if other machines measured.

    Each task begins with the configuration that `compile_model` would use. If a node has several implementations, such
    as a template and a sketch, each has its own search, and the fastest of them counts.

    Args:
        models: a model or its file, or a list of these; the search minimizes the sum of their times.
        trials: the number of trials of all tasks together, including those in the records; None if only the budget
            limits it.
        budget: the time of this call: seconds, or text such as "10m"; the running round is finished.
        records: a file to which every trial is appended at once. The same call continues from the records in it.
        target, num_threads: as for `compile_model`.
        allocation: "gradient", "round_robin", another name that a plugin registers, or a factory.
        progress: show a live table on a terminal, or else one line after each round (on standard error).
        tuner, seed, runner, timeout, callbacks, measure_options, store: as for `pegbox.tune`.

    Returns:
        A `ModelResult`. `print(result)` shows the distribution of time before and after; `.module` is the model with
        the best kernels, `.to_html("model.html")` draws the curve of the total. Ctrl-C ends the search early.

    Raises:
        ArgumentError: there is no limit, or an option is outside its domain.
        GraphError: as `load_model`.
        UnknownName, PluginError, RecordError, TuningError: as `pegbox.tune`.
    """
    if trials is None and budget is None:
        raise ArgumentError("tune_model has no limit; give budget='10m', trials=..., or both")
    listed, progress = as_models(models), check_flag("progress", progress)
    variants = [list(model.variants.values()) for model in listed]
    # The tasks of the first variants are searched first.
    graphs = [graph for each in zip_longest(*variants) for graph in each if graph is not None]
    machine = machine_of(target, num_threads)
    tasks = model_tasks(graphs, machine)
    journal = records if records is None or isinstance(records, Journal) else Journal(records)
    choices = [_choice_of(model, machine, journal) for model in listed]
    kept = held_store(store)
    knowledge = Knowledge.of(None, kept)
    latency = replace(Latency.of(variants, tasks), decided=_decided(choices, knowledge))
    leaders = [(tasks[number], place) for (number, place), *_ in latency.searches]
    implementations = [(task.implementations[place], task.constants) for task, place in leaders]
    task_options = list(_task_options(implementations, graphs))
    searched = [made.task for made, _ in implementations]
    scheduler = TaskScheduler(searched, tuner=tuner, seed=seed, records=records, resume=records is not None)
    for each, can_wait in zip(scheduler.progress, latency.of_other_variants, strict=True):
        each.can_wait = can_wait
    with _shown_rounds(tasks, latency, progress=progress) as on_round:
        reason = scheduler.search(
            make_allocation(allocation, latency),
            trials=trials,
            budget=budget,
            first=lambda number: _first(scheduler.tasks[number], knowledge),
            task_options=lambda number: task_options[number],
            callbacks=callbacks,
            on_round=on_round,
            runner=runner,
            timeout=timeout,
            measure_options=measure_options,
            store=kept,
        )

    if reason != "interrupted" and any(each.trials for each in scheduler.sessions.values()):
        FinalRounds(tasks, latency, scheduler, choices, journal, kept).run()
        latency = replace(latency, decided=_decided(choices, knowledge))
    held = tuple(map(tuple, scheduler.records))
    found = History([record for each in held for record in each], source="this search")
    whole = tuple(each.seconds for each in choices)
    return ModelResult(tuple(listed), reason, tuple(tasks), held, latency, Knowledge.of(found, kept), whole)


@contextlib.contextmanager
def _shown_rounds(tasks: Sequence[ModelTask], latency: Latency, *, progress: bool) -> Iterator[OnRound]:
    """Yield the function that shows a round of the search; without `progress`, one that does nothing."""
    if not progress:
        yield lambda *_: None
        return
    with contextlib.closing(model_progress(tasks, latency)) as shown:
        yield shown.on_round


def _task_options(
    implementations: Sequence[tuple[NodeTask, Mapping[Value, Array]]], graphs: Sequence[Graph]
) -> Iterator[dict[str, Any]]:
    """Yield measure options under which each implementation runs as in a model.

    Args:
        implementations: the node tasks, and the constants of their graphs.
        graphs: the graphs of the tuned models.
    """
    flushed = max(map(bytes_between_calls, graphs))
    for made, constants in implementations:
        options: dict[str, Any] = {
            "flush_cache": flushed, "fresh_inputs": made.fresh_inputs(constants), "aligned": True,
        }  # fmt: skip
        if indices := index_inputs(made, constants):
            options["inputs"] = indices
        yield options


def _decided(choices: Sequence[VariantChoice], knowledge: Knowledge) -> tuple[int | None, ...]:
    """Return the variant of each model that was the fastest as a whole, by its records or else by other knowledge."""
    found = []
    for each in choices:
        stored = knowledge.best_config(each.as_task) if each.number is None else None
        found.append(each.number if stored is None else stored.index)
    return tuple(found)


def _choice_of(model: Model, target: Target, journal: Journal | None) -> VariantChoice:
    """Make the choice of a model's variant, with those of the records in a file."""
    choice = VariantChoice(model.name, model.variants, target)
    choice.records.extend([] if journal is None else own_records(journal, choice.as_task))
    return choice


def _first(task: Task, knowledge: Knowledge) -> list[Config]:
    """Find the first configuration of a task's search: the best known one, or a predicted one."""
    config = knowledge.best_config(task)
    try:
        config = config or next(predicted_configs(task), None)
    except SpaceError:  # the search will report it
        return []
    if config is None or first_fault([config], task.space):
        return []
    return [config]
