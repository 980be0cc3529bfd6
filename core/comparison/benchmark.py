"""The benchmark problems of a comparison, whose runs get their costs by measuring or from records.

Problems of one computation have comparable spaces. Templates may compute in different steps (such as with packed
operands), so that their graphs are not comparable. Two tasks compute the same thing if their arguments have the same
shapes, types and directions in the same order, and NumPy's reference gives equal results for the same random inputs.
Costs are compared for one target on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pegbox.codegen.targets.host import describe_host
from pegbox.comparison.landscape import objective_landscape, recorded_landscape
from pegbox.comparison.runs import TaskInfo
from pegbox.errors import SpaceError
from pegbox.measure.result import Result
from pegbox.measure.trial.equivalence import other_values
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search.models.experience import template_task
from pegbox.search.models.report import ModelReport
from pegbox.search.objective import Objective
from pegbox.search.problem import MeasurerFactory, Problem, problem_of
from pegbox.search.protocols import SearchTask, SelfReporting, Tuner
from pegbox.space import Config
from pegbox.suites import Problem as SuiteProblem
from pegbox.suites import recorded_digest
from pegbox.task.group import TaskGroup
from pegbox.task.task import Task

_START_STREAM = 0x57A27
"""A constant that makes the draw of the common start differ from those of tuners with the same seed."""


@dataclass(frozen=True)
class Benchmark:
    """A problem for comparing tuners, with its description in the report."""

    problem: Problem
    info: TaskInfo

    @property
    def side_by_side(self) -> bool:
        """True if runs may be simultaneous, because nothing is timed in them, or by them."""
        task = self.problem.task
        return self.problem.simulated or (isinstance(task, Objective) and task.pure)

    def draw_start(self, seed: int, count: int) -> list[Config]:
        """Draw the random configurations from which every tuner starts with this seed; a group gets some for each task.

        Raises `SpaceError` if no configuration is valid.
        """
        task = self.problem.task
        spaces = [each.space for each in task.tasks.values()] if isinstance(task, TaskGroup) else [task.space]
        found: list[Config] = []
        for place, space in enumerate(spaces):
            wanted = len(range(place, count, len(spaces)))
            try:
                rows = space.sample(max(1, wanted), np.random.default_rng([_START_STREAM, seed]))[:wanted]
            except SpaceError as error:
                raise SpaceError(f"{self.info.name}: {error}") from error
            found += [space.config(tuple(row)) for row in rows.tolist()]
        return found


def open_benchmark(
    name: str,
    task: SearchTask | TaskGroup,
    *,
    trials: int = 200,
    measurer: MeasurerFactory | None,
    runner: object,
    problem_of_suite: SuiteProblem | None = None,
) -> Benchmark:
    """Simulate if `task` is a recorded space or `runner` answers from records, else measure by `measurer`.

    Args:
        trials: the number of trials of each run, for random search's expectation.
        problem_of_suite: the problem of the task.

    Raises `RecordError` for records of another task, `ArgumentError` for a task that nothing can measure.
    """
    problem = problem_of(task, runner, measurer)
    digest, landscape = "", None
    if isinstance(problem.task, RecordedSpace):
        landscape = recorded_landscape(problem.task, trials)
        digest = recorded_digest(problem.task) if problem_of_suite is None else problem_of_suite.digest
    elif isinstance(problem.task, Objective) and problem_of_suite is not None:
        landscape, digest = objective_landscape(problem.task, trials, problem_of_suite.optimum), problem_of_suite.digest
    recorded, subject = problem.task if isinstance(problem.task, RecordedSpace) else None, problem.subject
    info = TaskInfo(
        name=name,
        target=str(getattr(problem.task, "target", "")),
        flop=subject.flop,
        configurations=_configurations(problem.task) if recorded is None else len(recorded),
        recorded_best=None if recorded is None else recorded.best_cost,
        source="" if recorded is None else Path(recorded.source).name,
        host=describe_host() if recorded is None else recorded.host,
        bytes_moved=subject.bytes_moved,
        unit=subject.unit,
        landscape=landscape,
        digest=digest,
    )
    return Benchmark(problem, info)


def _configurations(task: SearchTask | TaskGroup) -> int:
    return task.size if isinstance(task, TaskGroup) else task.space.size


class CommonStartTuner:
    """A tuner that first proposes `start`, reporting the results to `tuner` like those of any trial, then asks it."""

    def __init__(self, tuner: Tuner, start: Sequence[Config]) -> None:
        self._tuner = tuner
        self._start = list(start)

    def ask(self, n: int) -> Sequence[Config]:
        if not self._start:
            return self._tuner.ask(n)
        given, self._start = self._start[:n], self._start[n:]
        return given

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self._tuner.tell(configs, results)

    def model_report(self) -> ModelReport | None:
        return self._tuner.model_report() if isinstance(self._tuner, SelfReporting) else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tuner, name)  # batch_size, if the tuner has one


def with_computations(benchmarks: Sequence[Benchmark]) -> list[Benchmark]:
    """Add to each `info` the tasks that compute the same thing, and the reasons why others are not compared.

    `info.computation` names the first task that computes the same thing, if there are several. `info.apart` describes
    the difference from an earlier task with as much arithmetic, which could look equal.
    """
    tasks = [template_task(benchmark.problem.task) for benchmark in benchmarks]
    groups: dict[int, list[int]] = {}
    apart: dict[int, str] = {}
    for n, task in enumerate(tasks):
        for first in groups:
            why = _other_costs(benchmarks[first], benchmarks[n]) or _other_values(tasks[first], task)
            if not why:
                groups[first].append(n)
                apart.pop(n, None)
                break
            one, other = benchmarks[first].info, benchmarks[n].info
            if one.flop == other.flop > 0 and task is not None and tasks[first] is not None:
                apart[n] = f"The spaces of {one.name} and {other.name} are not compared: {why}."
        else:
            groups[n] = [n]
    names = {n: benchmarks[first].info.name for first, some in groups.items() if len(some) > 1 for n in some}
    return [
        replace(one, info=replace(one.info, computation=names.get(n, ""), apart=apart.get(n, "")))
        for n, one in enumerate(benchmarks)
    ]


def _other_values(one: Task | None, other: Task | None) -> str:
    """Explain why the two do not compute the same thing; empty if they do."""
    if one is None or other is None:
        return "the template that knows the computation of one of them is missing here"
    return other_values(one, other)


def _other_costs(one: Benchmark, other: Benchmark) -> str:
    """Explain why costs of the two cannot be compared; empty if they have one target and machine."""
    if one.info.target != other.info.target:
        return f"their targets are {one.info.target!r} and {other.info.target!r}"
    if one.info.host != other.info.host:
        return f"their costs come from the machines {one.info.host!r} and {other.info.host!r}"
    return ""
