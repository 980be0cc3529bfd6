"""`tvm.autotvm.measure`: the options of measuring, its inputs and results."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from pegbox.errors import ArgumentError
from pegbox.measure import Failed, Result
from pegbox.plugins.tvm.runners import LocalBuilder as LocalBuilder
from pegbox.plugins.tvm.runners import LocalRunner as LocalRunner
from pegbox.plugins.tvm.runners import MeasureErrorNo as MeasureErrorNo
from pegbox.plugins.tvm.runners import measuring, result_of
from pegbox.records import autotvm_number

if TYPE_CHECKING:
    from pegbox import Config
    from pegbox.plugins.tvm.autotvm.task.task import Task
    from pegbox.plugins.tvm.target import Target


class MeasureInput(NamedTuple):
    """A configuration of a task."""

    target: Target
    task: Task
    config: Config


class MeasureResult(NamedTuple):
    """The result of a trial: `costs` in seconds, one for each repeat, or the error; `error_no` as `MeasureErrorNo`."""

    costs: tuple[Any, ...]
    error_no: int
    all_cost: float
    timestamp: float

    @classmethod
    def of(cls, result: Result) -> MeasureResult:
        """Take over a result of pegbox."""
        costs = (RuntimeError(result.message),) if isinstance(result, Failed) else result.costs
        return cls(costs, autotvm_number(result), result.total_seconds, result.timestamp)

    def to_result(self) -> Result:
        """Return the same as a result of pegbox. Raises `ArgumentError` for costs that are not times, or an unknown
        error number.
        """
        message = " ".join(map(str, self.costs)) if self.error_no else ""
        return result_of(self.error_no, self.costs, self.all_cost, self.timestamp, message)

    @property
    def cost(self) -> float:
        """The median of the costs, in seconds; infinite for a failure, and for costs that are not times."""
        try:
            return self.to_result().cost
        except ArgumentError:
            return math.inf


def measure_option(builder: object, runner: object) -> dict[str, Any]:
    """Say how candidates are measured: "local" or an object for each. Raises `ArgumentError` for anything else."""
    return measuring(builder, runner)
