"""Tuning of operators: searches that begin with the configuration in use, and provide the best to later calls."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pegbox.checks import check_choice, check_int, check_list, with_checked_keywords
from pegbox.errors import ArgumentError
from pegbox.expr import dtypes
from pegbox.measure.trial.equivalence import check_values
from pegbox.operators.arrays import Array
from pegbox.operators.call_key import Inputs
from pegbox.operators.choice import compiled_stored, tuned
from pegbox.operators.function import CallTask
from pegbox.operators.implementation import Implementation
from pegbox.operators.kept import kept_config
from pegbox.operators.kernel_library import KernelLibrary, StoreLike, held_store
from pegbox.records.in_effect import in_effect
from pegbox.records.journal import Journal
from pegbox.search.allocation import GradientAllocation
from pegbox.search.loop.callbacks import CallbackLike
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.loop.proposals import first_fault
from pegbox.search.loop.trial import Trial
from pegbox.search.models.prediction import predicted_configs
from pegbox.search.protocols import TunerFactory
from pegbox.search.task_scheduler import TaskScheduler
from pegbox.search.tune import tune
from pegbox.space import Config
from pegbox.task.group import TaskGroup, Tasks, tasks_of
from pegbox.task.speed_text import format_seconds
from pegbox.task.task import Task

if TYPE_CHECKING:
    from pegbox.measure.runners.runner import RunnerLike

Shapes: TypeAlias = Sequence[Sequence[int]] | Sequence[int]
"""The shapes of a call's inputs, or the shape of its only input."""


def tune_call(
    library: KernelLibrary,
    inputs: Inputs,
    packed: tuple[int, ...],
    plain: Sequence[Array],
    options: Mapping[str, Any],
) -> TuneResult:
    """Search for the best kernel of a call, with the options of `pegbox.tune`, and let later calls use it.

    Args:
        plain: the inputs, whose values matter if they are indices.

    Raises the errors of `library.task` and `pegbox.tune`.
    """
    called = library.task(inputs, packed)
    task = called.task
    if isinstance(task, TaskGroup) and task.packed:  # its tasks take inputs in different layouts
        plain_group = library.task(inputs, ()).task
        assert isinstance(plain_group, TaskGroup)
        check_values(plain_group)
    if task.has_indirect_reads:  # random indices could be out of bounds
        names = [spec.name for spec in task.arguments() if not spec.is_output]
        measured = {"inputs": dict(zip(names, plain, strict=True)), **options.get("measure_options", {})}
        options = {**options, "measure_options": measured}
    options = {"store": library.store, "first": _in_use(library, inputs, packed, task), **options}
    result = tune(task, **options)
    if result.best is not None:
        found = _best(library, result.best.config, options, called)
        library.use(inputs, packed, found)
    return result


def tune_shapes(
    library: KernelLibrary, shapes: Sequence[Shapes], dtype: str, options: Mapping[str, Any]
) -> list[Trial | None]:
    """Search for the best kernels of several calls with the options of `tune_tasks`, and let later calls use them.

    Raises the errors of `library.task` and `tune_tasks`, and `ArgumentError` for values that are not shapes.
    """
    wanted = "the inputs' shapes of each call, such as [((64, 512), (512, 512))]"
    check_choice("dtype", dtype, list(dtypes.BITS))
    calls = [
        tuple((_shape(shape, wanted), dtype) for shape in _listed(call, wanted))
        for call in check_list("shapes", shapes, wanted)
    ]
    if not calls:
        raise ArgumentError(f"{library.label}.tune(shapes=[]): give {wanted}")
    if library.implementations:
        raise ArgumentError(
            f"{library.label}.tune(shapes=...): with several implementations, tune the shapes one by one: tune(arrays)"
        )
    called = [library.task(inputs, ()) for inputs in calls]
    tasks = [task for each in called for task, _ in each.members]
    first = [_in_use(library, inputs, (), task) for inputs, task in zip(calls, tasks, strict=True)]
    options = {"store": library.store, "first": first, **options}
    best = tune_tasks(tasks, **options)
    begun = options["first"] or [()] * len(calls)
    for inputs, each, start, trial in zip(calls, called, begun, best, strict=True):
        if trial is not None:
            found = _best(library, trial.config, {**options, "first": start}, each)
            library.use(inputs, (), found)
    return best


def _in_use(library: KernelLibrary, inputs: Inputs, packed: tuple[int, ...], task: Tasks) -> list[Config]:
    """Find the configuration that a call would use now; none if none can be predicted."""
    history, known = in_effect.get(), library.known.get((inputs, packed))
    config = None if history is None else history.best_config(task)
    if config is None and known is not None:
        config = known.config
        if config is None and isinstance(task, Task):
            config = kept_config(library.call_key(inputs, packed), task)
    if config is None:
        config = library.stored(task, library.store) or next(predicted_configs(tasks_of(task)[0]), None)
    if config is None or first_fault(
        [config], task if isinstance(task, TaskGroup) else task.space
    ):  # a record may hold a configuration that the space excludes
        return []
    return [config]


def _best(library: KernelLibrary, best: Config, options: Mapping[str, Any], called: CallTask) -> Implementation:
    """Compile the best of a search.

    That is the best in the store if the search kept its own there, unless the search began with that one and so
    compared the two itself.
    """
    stored = library.stored(called.task, options["store"])
    if stored is not None and stored not in (best, *options["first"]):
        task, packers = called.of(stored)
        kernel = compiled_stored(task, stored)
        if kernel is not None:
            return Implementation(kernel, "tuned", task, stored, packers)
    task, packers = called.of(best)
    return tuned(task, best, packers)


@with_checked_keywords
def tune_tasks(
    tasks: Sequence[Task],
    *,
    trials: int | None = None,
    budget: float | str | None = None,
    tuner: str | TunerFactory = "bayes",
    seed: int = 0,
    records: str | os.PathLike[str] | Journal | None = None,
    runner: RunnerLike = "local",
    timeout: float | str = 10.0,
    callbacks: Iterable[CallbackLike] = (),
    progress: bool = True,
    measure_options: Mapping[str, Any] | None = None,
    store: StoreLike = "user",
    first: Sequence[Sequence[Config]] = (),
) -> list[Trial | None]:
    """Search the spaces of several tasks in rounds; the task that promises to save the most time is next.

    Args:
        trials: the number of trials of all tasks together, at least one for each; None if only the budget limits it.
        budget: the time of all together; the running round is finished.
        progress: print a line for each round (on standard error).
        first: the configurations of each task to measure before those of the tuner.
        tuner, seed, records, runner, timeout, callbacks, measure_options, store: as for `pegbox.tune`.

    Returns:
        The best trial of each task, None if nothing ran. A task without a valid configuration has none, with a
        `RuntimeWarning`. Ctrl-C ends the search early.

    Raises:
        ArgumentError, UnknownName, PluginError, RecordError, TuningError: as `pegbox.tune`.
    """
    if trials is None and budget is None:
        raise ArgumentError("tune(shapes=[...]) has no limit; give trials=..., budget='10m' or both")
    if trials is not None:
        check_int("trials", trials, minimum=len(tasks))
    scheduler = TaskScheduler(tasks, tuner=tuner, seed=seed, records=records)
    scheduler.search(
        GradientAllocation(),
        trials=trials,
        budget=budget,
        first=lambda number: first[number] if first else (),
        callbacks=callbacks,
        on_round=_print_round if progress else lambda *_: None,
        runner=runner,
        timeout=timeout,
        measure_options=measure_options,
        store=held_store(store),
    )
    begun = map(scheduler.sessions.get, range(len(tasks)))
    return [None if session is None else session.best for session in begun]


def _print_round(scheduler: TaskScheduler, number: int, result: TuneResult) -> None:
    task, session = scheduler.tasks[number], scheduler.sessions[number]
    arguments = ", ".join(f"{name}={value}" for name, value in task.workload[1].items())
    best = "nothing ran" if session.best is None else format_seconds(session.best.cost)
    print(f"{task.name}({arguments}): {len(session.trials)} trials, best {best}", file=sys.stderr)


def _listed(call: object, wanted: str) -> list[Any]:
    """List the shapes of a call's inputs; a single one may be given alone."""
    listed = check_list("shapes", call, wanted)
    return [listed] if listed and all(hasattr(extent, "__index__") for extent in listed) else listed


def _shape(given: object, wanted: str) -> tuple[int, ...]:
    return tuple(check_int("an extent in shapes", each) for each in check_list("shapes", given, wanted))
