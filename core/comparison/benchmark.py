"""The benchmark problems of a comparison: where runs on a task get their costs, by measuring or from records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pegbox.codegen.targets.host import describe_host
from pegbox.comparison.runs import TaskInfo
from pegbox.errors import SpaceError
from pegbox.measure.result import Result
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search.models.report import ModelReport
from pegbox.search.objective import Objective
from pegbox.search.problem import MeasurerFactory, Problem, problem_of
from pegbox.search.protocols import SearchTask, SelfReporting, Tuner
from pegbox.space import Config

_START_STREAM = 0x57A27
"""A constant that keeps the draw of the common start apart from tuners with a generator of the same seed."""


@dataclass(frozen=True)
class Benchmark:
    """A problem that tuners are compared on, with its description in the report."""

    problem: Problem
    info: TaskInfo

    @property
    def side_by_side(self) -> bool:
        """True if runs may be made at the same time: nothing is timed in them, or by them."""
        task = self.problem.task
        return self.problem.simulated or (isinstance(task, Objective) and task.pure)

    def draw_start(self, seed: int, count: int) -> list[Config]:
        """Draw the random configurations that every tuner starts from with this seed.

        Raises `SpaceError` if no configuration is valid.
        """
        try:
            rows = self.problem.space.sample(count, np.random.default_rng([_START_STREAM, seed]))
        except SpaceError as error:
            raise SpaceError(f"{self.info.name}: {error}") from error
        return [self.problem.space.config(tuple(row)) for row in rows.tolist()]


def open_benchmark(name: str, task: SearchTask, *, measurer: MeasurerFactory | None, runner: object) -> Benchmark:
    """Simulate if `task` is a recorded space or `runner` answers from records, else measure by `measurer`.

    Raises `RecordError` for records of something else, `ArgumentError` for a task that nothing can measure.
    """
    problem = problem_of(task, runner, measurer)
    recorded, subject = problem.task if isinstance(problem.task, RecordedSpace) else None, problem.subject
    info = TaskInfo(
        name=name,
        target=str(getattr(problem.task, "target", "")),
        flop=subject.flop,
        configurations=problem.space.size if recorded is None else len(recorded),
        recorded_best=None if recorded is None else recorded.best_cost,
        source="" if recorded is None else Path(recorded.source).name,
        host=describe_host() if recorded is None else recorded.host,
        bytes_moved=subject.bytes_moved,
        unit=subject.unit,
    )
    return Benchmark(problem, info)


class CommonStartTuner:
    """A tuner that proposes `start` first and reports the results to `tuner`, as of any trial; then asks that one."""

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
        return getattr(self._tuner, name)  # batch_size, where the tuner has one
