"""Where the runs on a task take place: on this machine, or on what was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pegbox.comparison.runs import TaskInfo
from pegbox.records.record import describe_host
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search.problem import MeasurerFactory, Problem, problem_of
from pegbox.search.protocols import SearchTask


@dataclass(frozen=True)
class Testbed:
    """A problem that the runs are on, and what the report says of it."""

    problem: Problem
    info: TaskInfo


def open_testbed(name: str, task: SearchTask, *, measurer: MeasurerFactory | None, runner: object) -> Testbed:
    """Simulated where `task` is a recorded space or `runner` answers from records, else measured by `measurer`.

    Raises `RecordError` for records of something else, `ArgumentError` for a task that nothing can measure.
    """
    problem = problem_of(task, runner, measurer)
    recorded = problem.task if isinstance(problem.task, RecordedSpace) else None
    info = TaskInfo(
        name=name,
        target=str(getattr(problem.task, "target", "")),
        flop=problem.flop,
        configurations=problem.space.size if recorded is None else len(recorded),
        recorded_best=None if recorded is None else recorded.best_cost,
        source="" if recorded is None else Path(recorded.source).name,
        host=describe_host() if recorded is None else recorded.host,
        bytes_moved=problem.bytes_moved,
    )
    return Testbed(problem, info)
