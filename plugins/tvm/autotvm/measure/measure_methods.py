"""`tvm.autotvm.measure.measure_methods`: builder and runner on this machine, and those of scripts."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pegbox.checks import check_choice, check_mapping
from pegbox.errors import ArgumentError, MeasureError, PegboxError
from pegbox.measure.measurer import Measurer
from pegbox.measure.result import Failed, FailureKind, Result
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.autotvm.measure.measure import Builder, MeasureInput, MeasureResult, Runner
from pegbox.plugins.tvm.autotvm.task.config import ConfigEntity
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.search.problem import MeasurerFactory, local_measurer

if TYPE_CHECKING:
    from pegbox.plugins.tvm.autotvm.task.task import Task
    from pegbox.space import Config

__getattr__ = names(__name__)


class BuildResult:
    """What `LocalBuilder.build` gives: the shared library is linked when its name is first asked for."""

    error = None
    time_cost = 0.0

    def __init__(self, task: Task, config: ConfigEntity, folder: str) -> None:
        self._task, self._config, self._folder = task, config, folder
        self.arg_info = tuple((spec.shape, spec.dtype) for spec in task.inner.arguments())

    @cached_property
    def filename(self) -> str:
        """The shared library. Raises `InvalidConfig`, `ScheduleError` or `CompileError` for what cannot be built."""
        from pegbox.api import export

        config = self._task.config_of(self._config)
        path = Path(self._folder) / f"{self._task.inner.symbol}_{config.index}.so"
        export(self._task.inner, config, path, header=False)
        return str(path)


class LocalBuilder(Builder):
    """Builds in worker processes of this machine.

    Args:
        timeout: seconds that one compilation may take.
        n_parallel: number of processes; by default as pegbox finds best.
    """

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: Mapping[str, Any] | None = None,
        build_func: Any = "default",
        do_fork: bool = False,
        runtime: Any = None,
    ) -> None:
        super().__init__(timeout, n_parallel, build_kwargs)
        if build_func != "default":
            means_nothing("LocalBuilder(build_func=)", "candidates are compiled to object code and run as such")
        if build_kwargs or runtime is not None:
            means_nothing("LocalBuilder(build_kwargs=, runtime=)", "a candidate is built for its target alone")
        self.options: dict[str, Any] = {"build_timeout": float(timeout)}
        if n_parallel is not None:
            self.options["builders"] = n_parallel

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[BuildResult]:
        """For runners of scripts."""
        self._folder = tempfile.TemporaryDirectory(prefix="pegbox-autotvm-")
        return [BuildResult(inp.task, inp.config, self._folder.name) for inp in measure_inputs]


class LocalRunner(Runner):
    """Times candidates on this machine, each in a process of its own.

    Args:
        timeout: seconds that one trial may take.
        repeat: how often it is timed; near the best more often.
        min_repeat_ms: how long one timing lasts, over as many calls as that takes; 0 leaves it to pegbox.
        number: left to `min_repeat_ms`.
        enable_cpu_cache_flush: empty the caches before each timing, which is then a single call.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int | None = None,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        cooldown_interval: float | None = None,
        enable_cpu_cache_flush: bool = False,
        module_loader: Any = None,
    ) -> None:
        super().__init__(timeout, 1)
        self.number, self.repeat, self.min_repeat_ms = number, repeat, min_repeat_ms
        self.cooldown_interval, self.enable_cpu_cache_flush = cooldown_interval, enable_cpu_cache_flush
        self.ref_input: Any = None
        if number is not None:
            means_nothing("LocalRunner(number=)", "a timing has as many calls as last min_repeat_ms together")
        if cooldown_interval is not None:
            means_nothing("LocalRunner(cooldown_interval=)", "what is timed alone on its core need not rest")
        if module_loader is not None:
            means_nothing("LocalRunner(module_loader=)", "object code is loaded by the runner itself")
        self.options: dict[str, Any] = {"repeats": repeat, "flush_cache": bool(enable_cpu_cache_flush)}
        if min_repeat_ms:
            self.options["min_repeat_ms"] = float(min_repeat_ms)

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        """Measure candidates; what was built elsewhere is built again here."""
        if not measure_inputs:
            return []
        task = measure_inputs[0].task
        measure = local_measurer(self.options, timeout=self.timeout)
        configs = [inp.task.config_of(inp.config) for inp in measure_inputs]
        with measure(task.inner) as measurer:
            found = dict(measurer.measure(configs))
        return [MeasureResult.of(found[config]) for config in configs]


class RPCRunner(Runner):
    """Refused: there are no trackers here."""

    def __init__(self, key: str, host: str = "", port: int = 0, *args: Any, **kwargs: Any) -> None:
        raise MeasureError(
            f"RPCRunner({key!r}, ...): pegbox has no RPC tracker. Measure on this machine with LocalRunner(...), "
            "or run the script on the other one; a runner plugin can measure elsewhere (docs/write-a-runner.md)"
        )


def default_module_loader(pre_load_function: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """For `LocalRunner(module_loader=)`, which has no use for it.

    Raises:
        MeasureError: what it gives is called.
    """

    def load(*_: Any) -> Any:
        raise MeasureError("default_module_loader: runners load candidates themselves; give no module_loader=")

    return load


def request_remote(device_key: str, host: str | None = None, port: int | None = None, *_: Any, **__: Any) -> NoReturn:
    """Refused: there are no trackers here.

    Raises:
        MeasureError: always.
    """
    raise MeasureError(
        f"request_remote({device_key!r}): pegbox has no RPC tracker; mod.export_library('kernel.so') makes a file that "
        "can be copied to the other machine and loaded there"
    )


def measure_option(builder: Any, runner: Any) -> dict[str, Any]:
    """How candidates are measured: "local" or an object for each."""
    if isinstance(builder, str):
        check_choice("builder", builder, ["local"])
        builder = LocalBuilder()
    if isinstance(runner, str):
        check_choice("runner", runner, ["local"])
        runner = LocalRunner()
    return {"builder": builder, "runner": runner}


def measurer_of(task: Task, option: Any) -> MeasurerFactory:
    """What opens a measurer, as pegbox's search takes it, for a `measure_option`."""
    wanted = "what autotvm.measure_option(builder=..., runner=...) gives"
    given = check_mapping("measure_option", option, wanted)
    if not {"builder", "runner"} <= given.keys():
        raise ArgumentError(f"measure_option={option!r}: give {wanted}")
    builder, runner = given["builder"], given["runner"]
    if isinstance(builder, LocalBuilder) and type(runner) is LocalRunner:
        if runner.ref_input is not None:
            means_nothing("LocalRunner.ref_input", "inputs are random; results are checked against NumPy")
        return local_measurer({**builder.options, **runner.options}, timeout=runner.timeout)

    def opened(_: Any, **__: Any) -> AbstractContextManager[ScriptMeasurer]:
        return nullcontext(ScriptMeasurer(task, builder, runner))

    return opened


class ScriptMeasurer(Measurer):
    """Measures with the builder and the runner of a script."""

    def __init__(self, task: Task, builder: Any, runner: Any) -> None:
        self._task, self._builder, self._runner = task, builder, runner
        runner.set_task(task)
        builder.set_task(task, runner.get_build_kwargs())

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        """One result for each configuration."""
        yield from zip(configs, self.remeasure(configs), strict=True)

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        """Results in the order of `configs`."""
        inputs = [MeasureInput(self._task.target, self._task, ConfigEntity.of(config)) for config in configs]
        try:
            built = self._builder.build(inputs)
        except PegboxError as error:
            return [Failed(FailureKind.COMPILE_ERROR, str(error), timestamp=time.time()) for _ in configs]
        return [MeasureResult(*result).to_result() for result in self._runner.run(inputs, built)]


def create_measure_batch(task: Task, option: Any) -> Callable[[Sequence[MeasureInput]], list[MeasureResult]]:
    """A function from inputs to results."""
    open_measurer = measurer_of(task, option)

    def measure_batch(inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        configs = [task.config_of(inp.config) for inp in inputs]
        with open_measurer(task.inner) as measurer:
            found = dict(measurer.measure(configs))
        return [MeasureResult.of(found[config]) for config in configs]

    return measure_batch
