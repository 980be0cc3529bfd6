"""Choices: the configuration that an operator uses for a task, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias

from pegbox.codegen.program import Program
from pegbox.errors import CompileError, InvalidConfig, ScheduleError
from pegbox.records.history import History
from pegbox.search.models.prediction import predicted_configs
from pegbox.space import Config
from pegbox.task.task import Task

Origin: TypeAlias = Literal["tuned", "predicted"]
_TRIED = 16
"""The predicted configurations that are tried, one after the other, until one can be compiled."""


@dataclass(frozen=True)
class Choice:
    """A configuration, its program, and its origin: "tuned" (measured here) or "predicted" (not tuned)."""

    config: Config
    program: Program
    origin: Origin


def choices(task: Task, history: History | None) -> Iterator[Choice]:
    """The configurations to use for a task, the best first: the best of the records, then those that are predicted.

    Candidates that cannot be lowered are left out.

    Raises:
        RecordError: the records of the task's workload do not belong to the task.
        PluginError: the cost model of experience cannot be loaded.
    """
    if history is not None and (best := history.best_config(task)) is not None:
        yield Choice(best, task.lower(best), "tuned")
    for config in islice(predicted_configs(task), _TRIED):
        try:
            yield Choice(config, task.lower(config), "predicted")
        except (InvalidConfig, ScheduleError, CompileError):
            continue
