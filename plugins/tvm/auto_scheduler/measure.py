"""Inputs and results of measuring, and their listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pegbox.measure import Failed, Result
from pegbox.plugins.tvm.auto_scheduler.compute_dag import State
from pegbox.plugins.tvm.runners import LocalBuilder as LocalBuilder
from pegbox.plugins.tvm.runners import LocalRunner as LocalRunner
from pegbox.plugins.tvm.runners import MeasureErrorNo as MeasureErrorNo
from pegbox.plugins.tvm.runners import result_of
from pegbox.records import autotvm_number

if TYPE_CHECKING:
    from pegbox.plugins.tvm.auto_scheduler.base_task import BaseTask


class MeasureInput(NamedTuple):
    """A state of a task."""

    task: BaseTask
    state: State


class MeasureResult(NamedTuple):
    """The result of a trial: `costs` in seconds, one for each repeat, or an error, one of `MeasureErrorNo`."""

    costs: tuple[float, ...]
    error_no: int
    error_msg: str
    all_cost: float
    timestamp: float

    @classmethod
    def of(cls, result: Result) -> MeasureResult:
        """Take over a result of pegbox."""
        costs, message = ((1e20,), result.message) if isinstance(result, Failed) else (result.costs, "")
        return cls(costs, autotvm_number(result), message, result.total_seconds, result.timestamp)

    @property
    def result(self) -> Result:
        """The same as a result of pegbox."""
        return result_of(self.error_no, self.costs, self.all_cost, self.timestamp, self.error_msg)


class PythonBasedMeasureCallback:
    """The base of callbacks of a script, which hear of each batch of measurements."""

    def callback(self, policy: Any, inputs: list[MeasureInput], results: list[MeasureResult]) -> None:
        """Receive the measurements."""
        raise NotImplementedError(f"{type(self).__name__} defines no callback(policy, inputs, results)")
