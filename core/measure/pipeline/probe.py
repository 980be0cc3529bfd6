"""`BaselineProbe`: the measurement of NumPy's time and the machine's limits for a task."""

from __future__ import annotations

import dataclasses
import statistics
from typing import TYPE_CHECKING

from pegbox.compute.flop import slow_operations
from pegbox.measure.baselines.baseline import NEAR, Baseline
from pegbox.measure.baselines.numpy_time import call_overhead
from pegbox.measure.baselines.roofline import Roofline, kept_roofline
from pegbox.task.speed_text import bytes_read, bytes_written

if TYPE_CHECKING:
    from pegbox.measure.runners.runner import Runner
    from pegbox.task.task import Task

_UNTIMED = "NumPy failed, took more than 3 s, or computed something else"


class BaselineProbe:
    """A probe that measures the baseline of a task.

    NumPy's timings of all calls count, and the machine's limits are kept.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._numpy_costs: list[float] = []
        self._roofline: Roofline | None = None

    def measure(self, runner: Runner, cost: float, *, cores: int) -> Baseline:
        """Measure the baseline of a cost in seconds. The limits are measured again if the cost comes near them.

        `cores` is the number of timing cores.
        """
        task, dtypes = self._task, {spec.dtype for spec in self._task.arguments()}
        dtype = dtypes.pop() if len(dtypes) == 1 else ""
        read, written = bytes_read(task.tensors), bytes_written(task.tensors)

        def limits(*, anew: bool) -> Roofline | None:
            def measure(nbytes: int) -> Roofline | None:
                return runner.roofline(dtype, nbytes, task.target)

            return kept_roofline(dtype, read + written, task.target, cores, measure, anew=anew, host=runner.host)

        if task.numpy is not None:
            costs = runner.time_numpy(task.numpy, threads=task.target.num_cores)
            self._numpy_costs += [costs] if isinstance(costs, float) else costs or ()
        self._roofline = self._roofline or limits(anew=False)
        baseline = Baseline(
            cores=cores if self._roofline is None else self._roofline.cores,
            flop=task.flop,
            read=read,
            written=written,
            slow=slow_operations(task.outputs),
            numpy=statistics.median(self._numpy_costs) if self._numpy_costs else None,
            roofline=self._roofline,
            numpy_costs=tuple(self._numpy_costs),
            numpy_call=call_overhead() if self._numpy_costs else 0.0,
            numpy_missing="" if self._numpy_costs else task.numpy_missing or _UNTIMED,
        )
        if (baseline.measured_share(cost) or 0.0) > NEAR:
            self._roofline = limits(anew=True)
            baseline = dataclasses.replace(baseline, roofline=self._roofline)
        return baseline
