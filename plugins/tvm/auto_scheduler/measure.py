"""Measuring: what is measured, what came of it, and the options of builders and runners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from pegbox.errors import ArgumentError
from pegbox.measure.pipeline.local import LocalMeasurer
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.auto_scheduler.loop_state import State
from pegbox.plugins.tvm.auto_scheduler.state_object import StateObject
from pegbox.plugins.tvm.autotvm.measure.measure import MeasureErrorNo as MeasureErrorNo
from pegbox.plugins.tvm.notice import means_nothing

if TYPE_CHECKING:
    from pegbox.plugins.tvm.auto_scheduler.base_task import BaseTask
    from pegbox.plugins.tvm.auto_scheduler.search_policy import SearchPolicy

__getattr__ = names(__name__)


_NUMBERS = {
    FailureKind.INVALID: MeasureErrorNo.INSTANTIATION_ERROR,
    FailureKind.COMPILE_ERROR: MeasureErrorNo.COMPILE_HOST,
    FailureKind.RUN_ERROR: MeasureErrorNo.RUNTIME_DEVICE,
    FailureKind.CRASH: MeasureErrorNo.UNKNOWN_ERROR,
    FailureKind.WRONG_RESULT: MeasureErrorNo.WRONG_ANSWER,
    FailureKind.TIMEOUT: MeasureErrorNo.RUN_TIMEOUT,
}
_KINDS = {number: kind for kind, number in _NUMBERS.items()}


class Seconds(float):
    """A cost; `value` is the number, as scripts read it."""

    @property
    def value(self) -> float:
        return float(self)


class MeasureInput:
    """A state of a task, to be measured."""

    def __init__(self, task: BaseTask, state: State | StateObject) -> None:
        self.task = task
        self.state: StateObject = state.state_object if isinstance(state, State) else state

    def serialize(self) -> tuple[BaseTask, StateObject]:
        """Its parts, which can be pickled."""
        return self.task, self.state

    @staticmethod
    def deserialize(data: tuple[BaseTask, StateObject]) -> MeasureInput:
        """The input of such parts."""
        return MeasureInput(*data)


class MeasureResult:
    """What came of it: `costs` in seconds, one for each repeat, or an error."""

    def __init__(
        self, costs: Sequence[float], error_no: int, error_msg: str | None, all_cost: float, timestamp: float
    ) -> None:
        self.costs = [Seconds(cost) for cost in costs]
        self.error_no = int(error_no)
        self.error_msg = error_msg or ""
        self.all_cost = float(all_cost)
        self.timestamp = float(timestamp)

    @classmethod
    def of(cls, result: Result) -> MeasureResult:
        """What pegbox measured."""
        if isinstance(result, Ok):
            return cls(result.costs, MeasureErrorNo.NO_ERROR, "", result.total_seconds, result.timestamp)
        number = _NUMBERS.get(result.kind, MeasureErrorNo.UNKNOWN_ERROR)
        return cls([1e20], number, result.message, result.total_seconds, result.timestamp)

    @property
    def result(self) -> Result:
        """The same as pegbox records it."""
        if self.error_no == MeasureErrorNo.NO_ERROR:
            return Ok(tuple(map(float, self.costs)), self.all_cost, self.timestamp)
        kind = _KINDS.get(self.error_no, FailureKind.CRASH)
        return Failed(kind, self.error_msg, self.all_cost, self.timestamp)

    def __repr__(self) -> str:
        parts = f"error_no:{self.error_no}, error_msg:{self.error_msg}, all_cost:{self.all_cost}"
        return f"MeasureResult(cost:{[float(c) for c in self.costs]}, {parts}, Tstamp:{self.timestamp})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MeasureResult) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass
class BuildResult:
    """What came of a build."""

    filename: str
    args: list[Any]
    error_no: int
    error_msg: str
    time_cost: float


def recover_measure_input(inp: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """The input itself: what is read from a file is whole."""
    return inp


class MeasureCallback:
    """Something to do after each batch of measurements."""

    def callback(self, policy: Any, inputs: list[MeasureInput], results: list[MeasureResult]) -> None:
        """Called with what was measured."""
        raise NotImplementedError(f"{type(self).__name__} defines no callback(policy, inputs, results)")


class PythonBasedMeasureCallback(MeasureCallback):
    """Derive from it, and write `callback`."""


class ProgramBuilder:
    """The base of builders."""

    options: dict[str, Any]


class ProgramRunner:
    """The base of runners."""

    options: dict[str, Any]
    timeout: float


class LocalBuilder(ProgramBuilder):
    """Builds in processes on this machine.

    Args:
        timeout: seconds that a build may take; pegbox's default where it is not given.
        n_parallel: processes; by default as many as there are cores that time nothing.
        build_func: there is one way to build here.
    """

    def __init__(
        self, timeout: float | None = None, n_parallel: int | None = None, build_func: Any = "default"
    ) -> None:
        if build_func != "default":
            means_nothing("LocalBuilder(build_func=...)", "pegbox builds by LLVM in its own way")
        self.options = _given(build_timeout=timeout, builders=n_parallel)

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        """Lower and compile each; what a kernel is, the runner makes itself."""
        from pegbox.codegen import compile_program
        from pegbox.measure.pipeline.candidate import Candidate

        made = []
        for each in measure_inputs:
            task, config = each.task.of_state(each.state)
            found = Candidate(task, config).lower()
            if isinstance(found, Failed):
                made.append(BuildResult("", [], _NUMBERS[found.kind], found.message, found.total_seconds))
                continue
            compile_program(found)
            made.append(BuildResult(task.symbol, list(task.tensors), MeasureErrorNo.NO_ERROR, "", 0.0))
        return made


class LocalRunner(ProgramRunner):
    """Runs candidates one at a time in a process of its own; what is not given is pegbox's own.

    Args:
        timeout: seconds that a trial may run.
        repeat: timings of each.
        min_repeat_ms: how long one timing lasts at least; how many calls it takes (`number`) follows from that.
        enable_cpu_cache_flush: empty the caches before each timing.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int | None = None,
        repeat: int | None = None,
        min_repeat_ms: float | None = None,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        if number is not None:
            means_nothing("LocalRunner(number=...)", "as many calls are timed as min_repeat_ms=... takes")
        if cooldown_interval:
            means_nothing("LocalRunner(cooldown_interval=...)", "candidates are timed without pauses")
        self.timeout = timeout
        given = _given(repeats=repeat, min_repeat_ms=min_repeat_ms or None)
        self.options = {**given, **({"flush_cache": True} if enable_cpu_cache_flush else {})}

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult] = (), verbose: int = 1
    ) -> list[MeasureResult]:
        """Measure each."""
        return ProgramMeasurer(LocalBuilder(), self, [], verbose).measure(None, None, measure_inputs)


class RPCRunner(ProgramRunner):
    """Refused: there are no remote devices of TVM's protocol."""

    def __init__(self, *args: Any, **options: Any) -> None:
        _no_rpc("RPCRunner")


class LocalRPCMeasureContext:
    """Refused: nothing stands between a search and its runner here."""

    def __init__(self, *args: Any, **options: Any) -> None:
        _no_rpc("LocalRPCMeasureContext")


def _no_rpc(name: str) -> NoReturn:
    raise ArgumentError(
        f"{name}: pegbox runs candidates in a process of their own without a server; write "
        "runner=auto_scheduler.LocalRunner(...) with the same options (timeout, repeat, min_repeat_ms)"
    )


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def builder_of(builder: object) -> ProgramBuilder:
    """A builder, or "local". Raises `ArgumentError` for anything else."""
    found = LocalBuilder() if builder == "local" else builder
    if not isinstance(found, ProgramBuilder):
        raise ArgumentError(f"builder={builder!r}: give 'local', or auto_scheduler.LocalBuilder(...)")
    return found


def runner_of(runner: object) -> ProgramRunner:
    """A runner, or "local". Raises `ArgumentError` for anything else."""
    found = LocalRunner() if runner == "local" else runner
    if not isinstance(found, ProgramRunner):
        raise ArgumentError(f"runner={runner!r}: give 'local', or auto_scheduler.LocalRunner(...)")
    return found


@dataclass
class ProgramMeasurer:
    """A builder and a runner with the callbacks of a search."""

    builder: ProgramBuilder
    runner: ProgramRunner
    callbacks: Sequence[MeasureCallback] = ()
    verbose: int = 1
    max_continuous_error: int = -1
    ct: int = field(default=0, init=False)

    def options(self, task: BaseTask) -> dict[str, Any]:
        """The same as options of `LocalMeasurer`."""
        inputs = {"inputs": given} if (given := task.given_inputs) else {}
        return {**self.builder.options, **self.runner.options, **inputs}

    def measure(
        self, task: BaseTask | None, policy: SearchPolicy | None, inputs: Sequence[MeasureInput]
    ) -> list[MeasureResult]:
        """Measure states, each of its own task, and tell the callbacks."""
        results: list[MeasureResult] = []
        for each in inputs:
            found, config = each.task.of_state(each.state)
            with LocalMeasurer(found, timeout=self.runner.timeout, **self.options(each.task)) as measurer:
                results += [MeasureResult.of(result) for _, result in measurer.measure([config])]
        for callback in self.callbacks:
            callback.callback(policy, list(inputs), results)
        self.ct += len(results)
        return results


def register_task_input_check_func(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Decorator that leaves its function as it is: inputs with arrays of their own are named in the task."""
    means_nothing("register_task_input_check_func", "inputs that are not random are given by name: task_inputs={...}")
    if callable(func_name):
        return func_name
    return (lambda function: function) if f is None else f
