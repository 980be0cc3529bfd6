"""Where the runs on a task take place: on this machine, or on what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pegbox.comparison.runs import TaskInfo
from pegbox.errors import ArgumentError
from pegbox.records.record import describe_host
from pegbox.records.recorded import RecordedSpace
from pegbox.records.simulated import SimulatedMeasurer, simulated
from pegbox.search.protocols import Measurer, SearchTask

if TYPE_CHECKING:
    from pegbox.space import ConfigSpace

MeasurerFactory: TypeAlias = Callable[[Any], AbstractContextManager[Measurer]]
"""Opens a measurer for a task, e.g. `LocalMeasurer`; leaving the context stops its workers. Where the measurer has a
`clock`, a function that gives seconds, a run is timed by it: a simulation's is virtual."""


@dataclass(frozen=True)
class Testbed:
    """A task, ready to run on: tuners are made over `space`, what they propose is checked against `whole`.

    `open` makes the measurer of one run. `info` is what the report says of the task.
    """

    task: SearchTask
    space: ConfigSpace
    whole: ConfigSpace
    open: Callable[[], AbstractContextManager[Measurer]]
    info: TaskInfo


def open_testbed(name: str, task: SearchTask, *, measurer: MeasurerFactory | None, runner: object) -> Testbed:
    """Simulated where `task` is a recorded space or `runner` answers from records, else measured by `measurer`.

    Raises `RecordError` for records of something else, `ArgumentError` for a task that nothing can measure.
    """
    recorded = simulated(task, runner)
    if recorded is not None:
        return _recorded(name, task, recorded)
    if measurer is None:
        raise ArgumentError(f"{name}: nothing is recorded of it, and no measurer was given")
    info = TaskInfo(
        name=name,
        target=str(getattr(task, "target", "")),
        flop=task.flop,
        configurations=task.space.size,
        host=describe_host(),
        bytes_moved=getattr(task, "bytes_moved", 0.0),
    )
    return Testbed(task, task.space, task.space, partial(measurer, task), info)


def _recorded(name: str, task: SearchTask, recorded: RecordedSpace) -> Testbed:
    info = TaskInfo(
        name=name,
        target=recorded.target,
        flop=recorded.flop,
        configurations=len(recorded),
        recorded_best=recorded.best_cost,
        source=Path(recorded.source).name,
        host=recorded.host,
        bytes_moved=recorded.bytes_moved,
    )
    return Testbed(task, recorded.space, recorded.whole, partial(SimulatedMeasurer, recorded), info)
