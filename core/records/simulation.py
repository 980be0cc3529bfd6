"""Searching without measuring: answers come from a recorded space, and a virtual clock counts their original time.

The recorded seconds of compiling and running a trial are charged to the clock; the time of everything else, mainly the
tuner's own work, passes as usual. Budgets, elapsed times and rates of a simulated search are those of a real one that
compiles and runs one candidate after the other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_path
from pegbox.errors import ArgumentError
from pegbox.measure.pipeline.measurer import Measurer
from pegbox.measure.result import Failed, FailureKind, Result
from pegbox.records.library import check_of_task, recorded_space
from pegbox.records.recorded_space import RecordedSpace, seconds_of
from pegbox.shown import value_text

if TYPE_CHECKING:
    from pegbox.space import Config
    from pegbox.task.task import Task


class VirtualClock:
    """A clock that adds the seconds charged to it to those that pass."""

    def __init__(self, real: Callable[[], float] = time.monotonic) -> None:
        self._real = real
        self.charged = 0.0
        """The seconds charged from the records."""

    def charge(self, seconds: float) -> None:
        self.charged += seconds

    def __call__(self) -> float:
        return self._real() + self.charged


class SimulatedMeasurer(Measurer):
    """A measurer that answers with recorded results. `search.run` uses its `clock`: make one measurer for each run."""

    clock: VirtualClock

    def __init__(self, recorded: RecordedSpace) -> None:
        self.recorded = recorded
        self.clock = VirtualClock()

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        for config in configs:
            result = self._result(config)
            self.clock.charge(sum(seconds_of(result)))
            yield config, result

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        """Return the same results again; a remeasurement compiles nothing."""
        results = [self._result(config) for config in configs]
        self.clock.charge(sum(seconds_of(result)[1] for result in results))
        return results

    def _result(self, config: Config) -> Result:
        found = self.recorded.results.get(config)
        if found is not None:
            return found
        return Failed(
            FailureKind.NOT_RECORDED,
            f"config {config.index} is not among the {len(self.recorded):,} recorded of {self.recorded.name}: its "
            "cost is unknown; propose configurations of the tuner's space",
        )


class SimulatedRunner:
    """A runner for `tune` and `compare` that answers from records instead of compiling and running.

    Args:
        source: a file of records, the name of a space that ships with pegbox, or a `RecordedSpace`.
        host, target: the machine and the target to choose, if the file holds records of several.
    """

    def __init__(
        self, source: str | os.PathLike[str] | RecordedSpace, *, host: str | None = None, target: str | None = None
    ) -> None:
        if isinstance(source, RecordedSpace) and (host is not None or target is not None):
            raise ArgumentError(
                f"host={value_text(host)}, target={value_text(target)}: {value_text(source)} already fixes them; "
                "leave them out"
            )
        self.source = source if isinstance(source, RecordedSpace) else check_path("source", source)
        self._chosen = {"host": host, "target": target}
        self._opened: dict[int, tuple[Task, RecordedSpace]] = {}

    def recorded(self, task: Task) -> RecordedSpace:
        """Return the recorded space of the task. Raises `RecordError` if there is none, or it is from another space."""
        if isinstance(self.source, RecordedSpace):
            check_of_task(self.source, task)
            return self.source
        # Keeping the task alive keeps its id from being reused.
        known, found = self._opened.get(id(task), (None, None))
        if known is not task or found is None:
            found = recorded_space(self.source, task=task, **self._chosen)
            self._opened[id(task)] = (task, found)
        return found

    def __repr__(self) -> str:
        return f"SimulatedRunner({str(self.source)!r})"


def recorded_space_for(task: Any, runner: Any) -> RecordedSpace | None:
    """Find the recorded space that replaces `task` in a simulated search; None for a live one.

    A search is simulated if a `RecordedSpace` is given as the task, or a `SimulatedRunner` as the runner. Then:

    - tuners are made over `recorded.space`, and `run(space=recorded.full_space, ...)` checks what they propose;
    - `SimulatedMeasurer(recorded)` measures; `run` takes the clock from it.

    Raises:
        ArgumentError: a recorded space is given together with a runner.
        RecordError: see `SimulatedRunner.recorded`.
    """
    if isinstance(task, RecordedSpace):
        if isinstance(runner, str) and runner == "local":
            return task
        raise ArgumentError(
            f"runner={value_text(runner)}: {value_text(task)} takes its costs from records; leave the runner out"
        )
    return runner.recorded(task) if isinstance(runner, SimulatedRunner) else None
