"""`Gauge`: measures what the costs of a task are compared with."""

from __future__ import annotations

import dataclasses
import statistics
from typing import TYPE_CHECKING

from pegbox.compute.flop import slow_operations
from pegbox.measure.baselines.baseline import call_overhead
from pegbox.measure.baselines.roofline import Roofline, kept_roofline
from pegbox.measure.baselines.yardstick import NEAR, Yardstick
from pegbox.task.work import bytes_read, bytes_written

if TYPE_CHECKING:
    from pegbox.measure.runners.runner import Runner
    from pegbox.task.task import Task


class Gauge:
    """Measures yardsticks of a task. NumPy's timings of all calls count, and the machine's limits are kept."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._numpy_costs: list[float] = []
        self._roofline: Roofline | None = None

    def measure(self, runner: Runner, cost: float, *, cores: int, host: str) -> Yardstick:
        """Measure the yardstick of a cost in seconds. The limits are measured again where the cost comes near them.

        Args:
            cores: how many of them candidates are timed on.
            host: the kind of the machines that measure, where that is not this one.
        """
        costs = self._time_numpy(runner)
        if self._roofline is None:
            self._roofline = self._limits(runner, cores, host)
        made = self._yardstick(costs, cores)
        if (made.measured_share(cost) or 0.0) > NEAR:
            self._roofline = self._limits(runner, cores, host, anew=True)
            made = dataclasses.replace(made, roofline=self._roofline)
        return made

    def _time_numpy(self, runner: Runner) -> tuple[float, ...]:
        """NumPy's timings, with those of earlier calls; none where it has no words for the computation."""
        if (program := self._task.numpy) is None:
            return ()
        found = runner.time_numpy(program, threads=self._task.target.num_cores)
        self._numpy_costs += [found] if isinstance(found, float) else found or ()
        return tuple(self._numpy_costs)

    def _limits(self, runner: Runner, cores: int, host: str, *, anew: bool = False) -> Roofline | None:
        """The machine's, for data of the task's type and size."""
        target, tensors, dtype = self._task.target, self._task.tensors, self._dtype()

        def measure(nbytes: int) -> Roofline | None:
            return runner.roofline(dtype, nbytes, target)

        nbytes = bytes_read(tensors) + bytes_written(tensors)
        return kept_roofline(dtype, nbytes, target, cores, measure, anew=anew, host=host)

    def _yardstick(self, costs: tuple[float, ...], cores: int) -> Yardstick:
        task = self._task
        return Yardstick(
            cores=cores if self._roofline is None else self._roofline.cores,
            flop=task.flop,
            read=bytes_read(task.tensors),
            written=bytes_written(task.tensors),
            slow=slow_operations(task.outputs),
            numpy=statistics.median(costs) if costs else None,
            roofline=self._roofline,
            numpy_costs=costs,
            numpy_call=call_overhead() if costs else 0.0,
        )

    def _dtype(self) -> str:
        """The type of all arguments; none where they differ."""
        found = {spec.dtype for spec in self._task.arguments()}
        return found.pop() if len(found) == 1 else ""
