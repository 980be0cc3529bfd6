"""`ModelResult`: the search of a model's kernels, before and after."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pegbox.checks import check_path
from pegbox.errors import ArgumentError
from pegbox.graph.graph import Graph
from pegbox.measure.result import Ok
from pegbox.model.latency import Latency
from pegbox.model.model_task import ModelTask
from pegbox.model.module import Module
from pegbox.model.selection import Knowledge, select_kernels
from pegbox.output import check_output, write_file
from pegbox.records.history import best, fastest_record, latest, trials_of
from pegbox.records.record import Record
from pegbox.report.figure import check_plot
from pegbox.report.page import PAGE
from pegbox.report.text_table import text_table
from pegbox.search.allocation import UNKNOWN
from pegbox.search.loop.outcome import StopReason
from pegbox.task.speed_text import format_seconds

if TYPE_CHECKING:
    from pegbox.model.model import Model

_PAUSE = 60.0
"""The seconds without a trial after which a search counts as paused."""


@dataclass(frozen=True)
class TaskResult:
    """The search of one task.

    Attributes:
        name: the task's name.
        calls: the number of calls by all models, in the compiled variants.
        before, after: the seconds of a call with the search's first configuration, and with the best; infinity if none
            ran.
        trials: the trials of all implementations.
        implementation: the name of the best's template, or of the generator of its space.
    """

    name: str
    calls: int
    before: float
    after: float
    trials: int
    implementation: str


@dataclass(frozen=True, eq=False)
class ModelResult:
    """The result of `pegbox.tune_model`: `print` shows the distribution of time before and after, `to_html` draws it.

    Attributes:
        models: the models.
        stopped_because: the reason for the end of the search.
    """

    models: tuple[Model, ...]
    stopped_because: StopReason
    _tasks: tuple[ModelTask, ...]
    _records: tuple[tuple[Record, ...], ...]
    _latency: Latency
    _knowledge: Knowledge
    _whole: tuple[Mapping[str, float], ...]

    @property
    def module(self) -> Module:
        """The model with the best kernels, compiled on first use.

        Raises:
            ArgumentError: there are several models: `modules` has theirs.
            CompileError: none of the configurations of a node can be compiled.
        """
        if len(self.models) > 1:
            names = ", ".join(model.name for model in self.models)
            raise ArgumentError(f"result.module: there are {len(self.models)} models ({names}); use result.modules")
        return self.modules[0]

    @cached_property
    def modules(self) -> tuple[Module, ...]:
        """The models with the best kernels, in their order.

        Raises:
            CompileError: none of the configurations of a node can be compiled.
        """
        return tuple(Module(graph, select_kernels(graph, self._tasks, self._knowledge)) for graph in self.graphs)

    @cached_property
    def graphs(self) -> tuple[Graph, ...]:
        """The compiled graph of each model."""
        return tuple(model.variants[name] for model, name in zip(self.models, self.variants, strict=True))

    @cached_property
    def variants(self) -> tuple[str, ...]:
        """The name of each model's compiled variant."""
        chosen = self._latency.chosen([each.after for each in self.tasks])
        return tuple(list(model.variants)[number] for model, number in zip(self.models, chosen, strict=True))

    @cached_property
    def tasks(self) -> tuple[TaskResult, ...]:
        """The results of the tasks, in their order."""
        held = self._latency.by_task(self._records)
        results = [_task_result(task, records) for task, records in zip(self._tasks, held, strict=True)]
        calls = self._latency.calls([each.after for each in results])
        return tuple(replace(each, calls=count) for each, count in zip(results, calls, strict=True))

    @property
    def before(self) -> float:
        """The seconds of all calls with the search's first configurations; infinity if one did not run."""
        first = [self._latency.totals(each, [task.before for task in self.tasks])[0] for each in self._latency.variants]
        return sum(first)

    @property
    def after(self) -> float:
        """The seconds of all calls with the best configurations; infinity if a task has none that ran."""
        return self._latency.of_tasks([each.after for each in self.tasks])

    @cached_property
    def curve(self) -> list[tuple[float, float]]:
        """The seconds of the search without pauses, and those of all calls at the time, from the moment when all are
        known.

        Costs are those of the trials, so that the luckiest counts.
        """
        costs = [math.inf] * len(self._records)
        trials = sorted(
            (record.result.timestamp, number, record.cost)
            for number, held in enumerate(self._records)
            for record in trials_of(held)
        )
        points: list[tuple[float, float]] = []
        elapsed, last = 0.0, trials[0][0] if trials else 0.0
        for timestamp, number, cost in trials:
            elapsed, last = elapsed + (timestamp - last if timestamp - last < _PAUSE else 0.0), timestamp
            costs[number] = min(costs[number], cost)
            total = self._latency.of_tasks(self._latency.best(costs))
            if total < math.inf and (not points or total < points[-1][1]):
                points.append((elapsed, total))
        if points:
            points.append((max(elapsed, points[-1][0]), points[-1][1]))
        return points

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML file: the distribution of time before and after, and the curve of the total.

        The file loads nothing from elsewhere. Without matplotlib, it has advice on installing it in place of the curve.
        Raises `ArgumentError` if the file cannot be written.
        """
        from pegbox.model.charts import page

        check_output(check_path("path", path), PAGE)
        write_file(path, page(self))

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write a picture of the total time over the search (.png, .svg, .pdf) with matplotlib.

        Raises `ArgumentError` without matplotlib, for an unknown suffix, or if there is nothing to draw.
        """
        from pegbox.model.charts import save_plot

        check_plot(path)
        if not self.curve:
            raise ArgumentError(f"plot to {os.fspath(path)!r}: there is nothing to draw: not all tasks have run")
        save_plot(self, path)

    def __repr__(self) -> str:
        return f"<ModelResult: {self.summary}>"

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.summary}", *text_table([_HEADER, *self.rows()]), *self.decisions])

    @property
    def decisions(self) -> list[str]:
        """The seconds of all calls of each variant, one line for each model with several.

        Those of whole modules follow, if these ran in turns.
        """
        lines = []
        seconds = [each.after for each in self.tasks]
        for model, name, variants, whole in zip(
            self.models, self.variants, self._latency.variants, self._whole, strict=True
        ):
            totals = self._latency.totals(variants, seconds)
            times = _listed(dict(zip(model.variants, totals, strict=True)))
            times += f"; as a whole {_listed(whole)}" if whole else ""
            lines += [f"{model.name} is compiled as {name}: {times}"] if len(totals) > 1 else []
        return lines

    @property
    def name(self) -> str:
        """The names of the models."""
        return " and ".join(model.name for model in self.models)

    @property
    def trials(self) -> int:
        """The number of trials of all tasks together; those of a kernel that several tasks share count once."""
        return sum(len(trials_of(held)) for held in self._records)

    @property
    def summary(self) -> str:
        """The trials, and the seconds of all calls before and after."""
        return f"{_change(self.before, self.after)} after {self.trials} trials, stopped: {self.stopped_because}"

    def rows(self) -> list[list[str]]:
        """Write the cells of the table, the tasks with most time first; the last row is the total."""
        listed = sorted(
            (task for task in self.tasks if task.calls), key=lambda task: -task.calls * min(task.before, UNKNOWN)
        )
        rows = [
            [
                task.name,
                str(task.calls),
                _seconds(task.before, task.trials),
                share(task.calls * task.before, self.before),
                _seconds(task.after, task.trials),
                share(task.calls * task.after, self.after),
                str(task.trials),
                task.implementation,
            ]
            for task in listed
        ]
        count = sum(task.calls for task in listed)
        whole = [str(count), _seconds(self.before), "", _seconds(self.after), "", str(self.trials), ""]
        return [*rows, ["all calls", *whole]]


_HEADER = ["task", "calls", "before", "share", "after", "share", "trials", "kernel"]


def _task_result(task: ModelTask, held: Sequence[Sequence[Record]]) -> TaskResult:
    winner = fastest_of(held)
    trials = sum(len(trials_of(records)) for records in held)
    made = "" if winner is None else winner.name.rpartition("@")[2]
    after = math.inf if winner is None else winner.cost
    return TaskResult(task.name, task.calls, first_cost(held), after, trials, made)


def fastest_of(held: Sequence[Sequence[Record]]) -> Record | None:
    """Find the fastest record of a task, given those of each implementation; None if none ran."""
    return fastest_record(found for records in held if (found := best(records)) is not None)


def first_cost(held: Sequence[Sequence[Record]]) -> float:
    """Find the latest seconds of the first configuration of the first implementation that ran."""
    for records in held:
        first = next((record for record in latest(records) if isinstance(record.result, Ok)), None)
        if first is not None:
            return first.cost
    return math.inf


def share(seconds: float, total: float) -> str:
    """Write a time's share of the total; empty if unknown."""
    return f"{seconds / total:.1%}" if 0 < total < math.inf and seconds < math.inf else ""


def _seconds(cost: float, trials: int = 0) -> str:
    return format_seconds(cost) if cost < math.inf else "nothing ran" if trials else "not known"


def _listed(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {_seconds(cost)}" for name, cost in seconds.items())


def _change(before: float, after: float) -> str:
    if after == math.inf:
        return "not all tasks have a kernel that ran"
    if before == math.inf:
        return format_seconds(after)
    return f"{format_seconds(before)} -> {format_seconds(after)} ({before / after:.2f}x)"
