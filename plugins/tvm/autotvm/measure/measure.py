"""`tvm.autotvm.measure.measure`: inputs and results of measuring, and the base classes of builders and runners."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pegbox.measure.result import Failed, Result
from pegbox.plugins.tvm.absence import names
from pegbox.records.autotvm import number_of, result_of

if TYPE_CHECKING:
    from pegbox.codegen.targets.target import Target
    from pegbox.plugins.tvm.autotvm.task.config import ConfigEntity
    from pegbox.plugins.tvm.autotvm.task.task import Task

_METHODS = "pegbox.plugins.tvm.autotvm.measure.measure_methods"
__getattr__ = names(__name__, {"create_measure_batch": _METHODS, "measure_option": _METHODS})


class MeasureErrorNo:
    """Why a candidate has no cost."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


class MeasureInput(NamedTuple):
    """What is measured."""

    target: Target
    task: Task
    config: ConfigEntity


class MeasureResult(NamedTuple):
    """What came of it: `costs` in seconds, one a repeat, or of a failure a tuple with the error.

    `error_no` is one of `MeasureErrorNo`, `all_cost` the seconds that the whole trial took, `timestamp` seconds since
    the epoch.
    """

    costs: tuple[Any, ...]
    error_no: int
    all_cost: float
    timestamp: float

    @classmethod
    def of(cls, result: Result) -> MeasureResult:
        """That of a result of pegbox."""
        listed = (RuntimeError(result.message),) if isinstance(result, Failed) else result.costs
        return cls(listed, number_of(result), result.total_seconds, result.timestamp)

    def to_result(self) -> Result:
        """The result as pegbox has it. Raises `ValueError` for costs that are none."""
        listed: list[Any] = [] if self.error_no else [float(cost) for cost in self.costs]
        message = " ".join(map(str, self.costs)) if self.error_no else ""
        return result_of(int(self.error_no), listed, float(self.all_cost), float(self.timestamp), message)

    @property
    def cost(self) -> float:
        """Median of the costs, in seconds; infinite for a failure."""
        return float("inf") if self.error_no else statistics.median(self.costs)


class Builder:
    """Base of builders: `build(inputs)` gives what `Runner.run` takes beside the inputs."""

    def __init__(
        self, timeout: float = 10, n_parallel: int | None = None, build_kwargs: Mapping[str, Any] | None = None
    ) -> None:
        self.timeout = timeout
        self.n_parallel = n_parallel or 1
        self.build_kwargs = dict(build_kwargs or {})
        self.task: Task | None = None

    def set_task(self, task: Task, build_kwargs: Mapping[str, Any] | None = None) -> None:
        """A search of this task begins."""
        self.task = task

    def build(self, measure_inputs: Sequence[MeasureInput]) -> Sequence[Any]:
        """Build the candidates; a `MeasureResult` says that one failed."""
        raise NotImplementedError


class Runner:
    """Base of runners: `run(inputs, built)` gives a `MeasureResult` for each."""

    def __init__(self, timeout: float = 5, n_parallel: int | None = None) -> None:
        self.timeout = timeout
        self.n_parallel = n_parallel or 1
        self.task: Task | None = None

    def set_task(self, task: Task) -> None:
        """A search of this task begins."""
        self.task = task

    def get_build_kwargs(self) -> Mapping[str, Any]:
        """What the builder has to know."""
        return {}

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> Sequence[MeasureResult]:
        """Run and time what was built."""
        raise NotImplementedError
