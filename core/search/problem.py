"""The problem of a search: a task to measure, a recorded space to simulate, or a function to call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from pegbox.checks import check_mapping, check_seconds
from pegbox.errors import ArgumentError, MeasureError, TuningError
from pegbox.hooks.options import bind_options
from pegbox.measure.pipeline.group import GroupMeasurer
from pegbox.measure.pipeline.local import LocalMeasurer
from pegbox.measure.pipeline.measurer import Measurer, check_measurer
from pegbox.measure.runners.runner import runner_factory
from pegbox.measure.trial.equivalence import check_values
from pegbox.records.recorded_space import RecordedSpace
from pegbox.records.simulation import SimulatedMeasurer, SimulatedRunner, recorded_space_for
from pegbox.search.loop.callbacks import Callback, CallbackLike
from pegbox.search.loop.noise import NoiseWatch
from pegbox.search.loop.options import PriorTrials, SearchOptions
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.loop.recorder import Recorder
from pegbox.search.loop.tuning import run
from pegbox.search.models.prediction import preferred_config
from pegbox.search.objective import Objective, ObjectiveMeasurer
from pegbox.search.protocols import SearchTask, Tuner
from pegbox.search.subject import Subject
from pegbox.shown import value_text
from pegbox.space import Config, ConfigSpace
from pegbox.task.advice import advice
from pegbox.task.function import NamedFunction
from pegbox.task.group import TaskGroup, tasks_of
from pegbox.task.task import Task

MeasurerFactory: TypeAlias = Callable[..., AbstractContextManager[Measurer]]
"""A function that opens a measurer for a task, e.g. `LocalMeasurer`; leaving the context stops its workers."""


@dataclass(frozen=True)
class Problem:
    """A task or group to search: tuners are made over its space, and their proposals must belong to `full_space`.

    `open(**options)` makes the measurer of one run; a simulation ignores the options. `measured` is the object that the
    user gave.
    """

    task: SearchTask | TaskGroup
    open: MeasurerFactory
    measured: Task | TaskGroup | RecordedSpace | Objective

    @property
    def simulated(self) -> bool:
        """True if results come from records."""
        return isinstance(self.task, RecordedSpace)

    @property
    def full_space(self) -> ConfigSpace | TaskGroup:
        """The space of the configurations; for a recorded task, the whole space; a group has several."""
        if isinstance(self.task, TaskGroup):
            return self.task
        return self.task.full_space if isinstance(self.task, RecordedSpace) else self.task.space

    @property
    def watches(self) -> list[Callback]:
        """The callbacks that watch this machine, if it times tasks."""
        return [NoiseWatch(self.task.target.num_cores)] if isinstance(self.task, Task | TaskGroup) else []

    @property
    def subject(self) -> Subject:
        """The computation or function to search, as results name it."""
        own = self.measured.task if isinstance(self.measured, RecordedSpace) else self.measured
        return Subject(
            self.measured.name,
            own if isinstance(own, Task | TaskGroup) else None,  # only these have programs to show
            flop=self.task.flop,
            bytes_moved=float(getattr(self.task, "bytes_moved", 0.0)),
            unit=self.task.unit if isinstance(self.task, Objective) else "s",
        )

    @property
    def preferred(self) -> list[Config]:
        """The configurations that its tasks' templates prefer without measurements; a search begins with them."""
        if not isinstance(self.task, Task | TaskGroup):
            return []
        return [config for task in tasks_of(self.task) if (config := preferred_config(task)) is not None]

    def search(
        self, tuner: Tuner, measurer: Measurer, options: SearchOptions, *, prior: PriorTrials = PriorTrials()
    ) -> TuneResult:
        """Search with a tuner and an open measurer; see `pegbox.search.run`."""
        searched = None if isinstance(self.task, TaskGroup) else self.task.space
        space = self.full_space
        return run(tuner, measurer, options, subject=self.subject, space=space, searched=searched, prior=prior)

    def check_measured(self, *, records: object, resume: object, measure_options: object) -> None:
        """Raise `ArgumentError` if a simulation is given a measurement's options, so that it cannot pass for one."""
        if self.simulated and (records is not None or resume is not False):
            raise ArgumentError(
                f"records={value_text(records)}: a simulated search measures nothing, so there is "
                "nothing to record or resume; leave records and resume out"
            )
        if self.simulated and measure_options:
            raise ArgumentError(
                f"measure_options={measure_options!r}: a simulated search measures nothing; leave it out"
            )


def problem_of(task: Any, runner: object, measurer: MeasurerFactory | None) -> Problem:
    """Make the problem of `task` and `runner`, simulated if either answers from records (`recorded_space_for`).

    Args:
        measurer: a function that opens a measurer for a task that is not simulated, or None.

    Raises:
        ArgumentError: this is not a task, or nothing can measure it, or a recorded space or an objective comes with a
            runner, or `runner` is not a runner.
        UnknownName: no runner has this name.
        RecordError: the runner's records belong to another task.
    """
    check_task(task)
    if isinstance(task, TaskGroup):
        return _group_problem(task, runner, measurer)
    if isinstance(task, Objective):
        if runner != "local":
            raise ArgumentError(f"runner={runner!r}: {task!r} is called in this process; leave the runner out")
        return Problem(task, lambda **_: nullcontext(ObjectiveMeasurer(task)), task)
    recorded = recorded_space_for(task, runner)
    if recorded is not None:
        return Problem(recorded, lambda **_: nullcontext(SimulatedMeasurer(recorded)), task)
    if measurer is None:
        raise ArgumentError(f"{task.name}: it has no records, and no measurer was given")
    runner_factory(runner, {})  # a wrong one is an error before a file of records is made
    return Problem(task, partial(measurer, task), task)


def _group_problem(group: TaskGroup, runner: object, measurer: MeasurerFactory | None) -> Problem:
    """Make the problem of a group, whose tasks are measured.

    Raises:
        ArgumentError: it would be simulated, there is no measurer, or its tasks do not compute the same thing.
    """
    if isinstance(runner, SimulatedRunner) or measurer is None:
        raise ArgumentError(f"{group!r}: implementations are searched together by measuring; simulate one task of them")
    runner_factory(runner, {})
    check_values(group)

    def opened(**options: Any) -> GroupMeasurer:
        return GroupMeasurer(group, lambda task: measurer(task, **options))

    return Problem(group, opened, group)


def measuring_host(measurer: Measurer) -> str:
    """Return the kind of the machines of a cluster that measures; empty if this machine does.

    Raises `TuningError` if the cluster cannot be used.
    """
    try:
        return check_measurer(measurer).host
    except MeasureError as error:
        raise TuningError(str(error)) from error


def check_recording_host(callbacks: Iterable[CallbackLike], measurer: Measurer) -> None:
    """Check, if trials are recorded, that records of tasks come from the kind of machine that measures now.

    Raises `RecordError` if they do not, and `TuningError` if the cluster cannot be used.
    """
    for each in callbacks:
        if isinstance(each, Recorder) and isinstance(each.task, Task | TaskGroup):
            each.check_host(measuring_host(measurer))


def is_task(task: object) -> bool:
    """Decide if the object is a task, a group, a recorded space or an objective. A configuration has a space, too."""
    if isinstance(task, TaskGroup):
        return True
    return isinstance(getattr(task, "space", None), ConfigSpace) and hasattr(task, "flop")


def check_task(task: object) -> None:
    """Raise `ArgumentError` for anything but a task: a name, a space, a configuration, a list of tasks."""
    if is_task(task):
        return
    shown = task.name if isinstance(task, NamedFunction) else task
    raise ArgumentError(f"{value_text(shown)} is not a task; {_remedy(task)}")


def _remedy(task: object) -> str:
    compared = "pegbox.Objective(function, space)"
    own = "to search a function that gives the cost of a configuration, call pegbox.minimize(function, space)"
    if isinstance(task, ConfigSpace):
        return f"{own}; to compare on it, use {compared}; pegbox.create_tuner makes a tuner to call by hand"
    name = task if isinstance(task, str) else "matmul"
    made = advice(task) or f"make one with pegbox.create_task({name!r}, args=...)"
    is_own = callable(task) and not isinstance(task, NamedFunction)
    return f"{made}; {own}; to compare on it, use {compared}" if is_own else made


def local_measurer(
    measure_options: Mapping[str, Any] | None,
    *,
    timeout: float | str,
    reserved: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
    **given: Any,
) -> MeasurerFactory:
    """Bind `LocalMeasurer` to the options `given`, and to a user's `measure_options`, which win over `defaults`.

    Raises `ArgumentError` for a user's options that are given already, `reserved`, or unknown.
    """
    given["timeout"] = check_seconds("timeout", timeout)
    taken = {*given, *reserved}
    wanted = "arguments of pegbox.measure.LocalMeasurer by name, as in {'repeats': 5}"
    options = check_mapping("measure_options", {} if measure_options is None else measure_options, wanted)
    for name in options:
        if name in taken:
            raise ArgumentError(
                f"measure_options: {name}={options[name]!r} is an argument of the call itself; pass it outside "
                "measure_options, or leave it out"
            )
    bound = bind_options("measure_options", LocalMeasurer, options, but=taken)
    return partial(LocalMeasurer, **{**(defaults or {}), **bound}, **given)
