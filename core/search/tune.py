"""`pegbox.tune` and `pegbox.minimize`: search the space of a task, or of a function, for the best configuration."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pegbox.checks import with_checked_keywords
from pegbox.errors import ArgumentError
from pegbox.records.journal import Journal
from pegbox.records.recorded_space import RecordedSpace
from pegbox.records.simulation import SimulatedRunner
from pegbox.search.factory import tuner_label
from pegbox.search.loop.callbacks import CallbackLike
from pegbox.search.loop.display import progress as progress_callback
from pegbox.search.loop.options import DEFAULT_FINALISTS, PriorTrials, SearchOptions
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.loop.recorder import Resume, open_recording
from pegbox.search.models.inputs import TransferSource, tuner_over
from pegbox.search.objective import CostFunction, Objective
from pegbox.search.problem import Problem, check_recording_host, local_measurer, measuring_host, problem_of
from pegbox.search.protocols import TunerFactory
from pegbox.space import Config, ConfigSpace
from pegbox.store.store import TuningStore, user_store
from pegbox.task.group import TaskGroup
from pegbox.task.task import Task

if TYPE_CHECKING:
    from pegbox.measure.runners.runner import RunnerLike


@with_checked_keywords
def tune(
    task: Task | TaskGroup | RecordedSpace,
    *,
    tuner: str | TunerFactory = "bayes",
    trials: int | None = 200,
    budget: float | str | None = None,
    early_stopping: int | None = None,
    records: str | os.PathLike[str] | Journal | None = None,
    resume: Resume = False,
    seed: int = 0,
    runner: RunnerLike | SimulatedRunner = "local",
    timeout: float | str = 10.0,
    batch_size: int | None = None,
    callbacks: Iterable[CallbackLike] = (),
    progress: bool = True,
    measure_options: Mapping[str, Any] | None = None,
    transfer: TransferSource | Sequence[TransferSource] | None = None,
    store: TuningStore | Literal["user"] | None = "user",
    first: Sequence[Config] = (),
) -> TuneResult:
    """Search the task's space for the fastest configuration, or the spaces of several implementations together.

    With a `RecordedSpace` as the task, or a `SimulatedRunner` as the runner, nothing is compiled or run: the search
    covers the recorded configurations, their results come from the records, and a virtual clock gives all times.

    Args:
        task: a task; its implementations (`task.with_implementations()`), which share the trials, most of which go to
            the most promising ones; or a recorded space.
        tuner: a name, with options if any ("xgb:plan_size=32"), "file.py:Class", or a factory.
        trials: the largest number of new measurements, at least 1; None if only the budget limits them.
        budget: the longest time: seconds, or text such as "60s", "5m", "1m30s".
        early_stopping: the number of trials without improvement after which to end.
        records: a file to which every trial is appended at once.
        resume: start from the task's records in the file; no configuration in them is measured again. `trials` then
            counts those, too, so that repeating the command finishes the run. It is an error if the template's code has
            been edited since; "edited" uses the costs of the old code nevertheless.
        seed: the seed of the tuner and of the random inputs.
        runner: the name of a runner plugin, with options if any ("patient:spread=0.1"), "file.py:Class", a factory, a
            `distributed.Client`, which measures on its cluster, or a `SimulatedRunner`.
        timeout: the longest run of a trial, given as `budget` is.
        batch_size: the number of configurations to ask the tuner for at a time; by default the tuner's own number, or
            the number of a cluster's machines if that is larger. With a number given, proposals do not depend on the
            machines.
        callbacks: `pegbox.search.Callback`s, or functions, which are called with each trial.
        progress: show a live line on a terminal, or else one line per batch (on standard error).
        measure_options: further keyword arguments of `LocalMeasurer`.
        transfer: records of other shapes of the template on the same target (files, names of recorded spaces that
            ship, or journals), for a tuner that learns from them.
        store: the store that keeps the best for later programs: by default the user's, another
            `pegbox.store.TuningStore`, or None for no store. See docs/store.md.
        first: configurations to measure before those of the tuner, such as the best known so far, and again at the end
            with the fastest, so that the winner is not slower than they are. The configuration that a template prefers
            (`cfg.prefer_first`) follows them.

    Returns:
        A `TuneResult`. `.best` is the winner, None if nothing ran, with `.best.config` (the configuration for
        `pegbox.build`), `.best.cost` (seconds), `.best.gflops` and `.best.baseline` (NumPy's time for the same
        computation, and the machine's limits); `.trials` has every trial in order, with its `.config`, `.cost` and
        `.result`; `.elapsed` and `.stopped_because` tell how the run ended. For a group, `.implementation` names the
        winner, and `.task` is its task. `print(result)` shows it, `.plot("search.png")` and `.to_html("search.html")`
        draw it. Ctrl-C ends the search early and raises nothing: the result holds everything measured, with
        `stopped_because="interrupted"`. A loop over tasks must check for that, and `break`; else it continues. A second
        Ctrl-C within 5 s of the first raises `KeyboardInterrupt`, and so ends the loop.

    Raises:
        ArgumentError: an option is outside its domain, `first` belongs to another space, `resume` lacks `records`, a
            simulation has `records`, or `transfer` is not taken by the tuner or holds nothing useful.
        UnknownName, PluginError: there is no such tuner or runner.
        SpaceError: no configuration of the space is valid.
        RecordError: the file is damaged, or its records of this workload are from another space or target, or of other
            code of the template.
        MeasureError: an input's values are indices outside a tensor; give valid ones, as `measure_options={"inputs":
            {"B": array}}`.
        TuningError: a tuner, the records or the measuring broke; all measurements are in its `result`.
    """
    measurer = local_measurer(measure_options, timeout=timeout, runner=runner, seed=seed, reserved=["best"])
    problem = problem_of(task, runner, measurer)
    if isinstance(task, Objective):
        raise ArgumentError(f"{task!r} is not a task; pegbox.minimize(objective) searches it")
    problem.check_measured(records=records, resume=resume, measure_options=measure_options)
    keeping = user_store() if isinstance(store, str) and store == "user" else store
    options = SearchOptions.of(
        trials,
        budget,
        early_stopping,
        batch_size,
        callbacks,
        progress=progress,
        store=keeping,
        first=first,
    )
    return search_problem(problem, tuner, options, records=records, resume=resume, seed=seed, transfer=transfer)


def search_problem(
    problem: Problem,
    tuner: str | TunerFactory,
    options: SearchOptions,
    *,
    records: str | os.PathLike[str] | Journal | None,
    resume: Resume,
    seed: int,
    transfer: TransferSource | Sequence[TransferSource] | None = None,
) -> TuneResult:
    """Search a problem; `records`, `resume`, `seed` and `transfer` are those of `tune`."""
    made = tuner_over(tuner, problem.task, seed=seed, transfer=transfer)
    name, measured = tuner_label(tuner), problem.measured
    recording = open_recording(records, measured, resume=resume, tuner=name, seed=seed)
    if options.progress and (finished := recording.finished(options.trials)):
        print(finished, file=sys.stderr)
    shown = [progress_callback()] if options.progress else []
    with problem.open(best=recording.best_cost) as opened:
        host = measuring_host(opened) if recording.callbacks else ""
        check_recording_host(recording.callbacks, opened)
        callbacks = [*recording.callbacks, *shown, *problem.watches, *options.callbacks]
        limits = replace(options, trials=recording.trials_left(options.trials), callbacks=callbacks, name=name)
        prior = PriorTrials(recording.history, recording.trials, recording.baseline(host))
        return problem.search(made, opened, limits.then(problem.preferred), prior=prior)


@with_checked_keywords
def minimize(
    function: CostFunction | Objective,
    space: ConfigSpace | None = None,
    *,
    tuner: str | TunerFactory = "bayes",
    trials: int | None = 100,
    budget: float | str | None = None,
    early_stopping: int | None = None,
    records: str | os.PathLike[str] | Journal | None = None,
    resume: Resume = False,
    seed: int = 0,
    batch_size: int | None = None,
    callbacks: Iterable[CallbackLike] = (),
    progress: bool = True,
    repeat: int | None = None,
    unit: str | None = None,
    name: str | None = None,
) -> TuneResult:
    """Search the space for the configuration with the smallest `function(config)`.

    The function is called in this process, with one configuration at a time (`config["block"].val`), and returns a
    number above 0. If it raises, or returns NaN, infinity or something else, the trial fails with the reason.

    Args:
        function: a function of a configuration, or an `Objective`, which has its space.
        space: a `ConfigSpace`.
        trials: the number of configurations to try; None if only the budget limits it.
        budget: the longest time: seconds, or text such as "60s", "5m", "1m30s"; a running call is not cut short.
        seed: the seed of the tuner.
        repeat, unit, name: as for `Objective`: the number of calls for each configuration (1), the costs' unit, a name
            for records.
        tuner, early_stopping, records, resume, batch_size, callbacks, progress: as for `tune`.

    Returns:
        The `TuneResult` that `tune` returns: `.best.config`, `.best.cost`, `.trials`. Its costs are the function's.
            Ctrl-C, also in the function, ends the search early, and everything found is in the result.

    Raises:
        ArgumentError: `function` does not take one argument, `space` is not a space, or an option is outside its
            domain.
        UnknownName, PluginError: there is no such tuner.
        SpaceError: no configuration of the space is valid.
        RecordError: the file is damaged, or its records of that name are from another space.
        TuningError: the tuner or the records broke; all measurements are in its `result`.
    """
    objective = _objective(function, space, {"repeat": repeat, "unit": unit, "name": name})
    options = SearchOptions.of(
        trials,
        budget,
        early_stopping,
        batch_size,
        callbacks,
        progress=progress,
        finalists=DEFAULT_FINALISTS if objective.repeat > 1 else 0,
    )
    problem = problem_of(objective, "local", None)
    return search_problem(problem, tuner, options, records=records, resume=resume, seed=seed)


def _objective(function: CostFunction | Objective, space: ConfigSpace | None, options: dict[str, object]) -> Objective:
    """Make the objective. Raises `ArgumentError` if an objective comes with arguments that it already has."""
    given = {name: value for name, value in options.items() if value is not None}
    if not isinstance(function, Objective):
        return Objective(function, space, **given)  # type: ignore[arg-type]  # it checks them
    for name, value in {"space": space, **given}.items():
        if value is not None:
            raise ArgumentError(f"{name}={value!r}: {function!r} already has one; leave it out")
    return function
