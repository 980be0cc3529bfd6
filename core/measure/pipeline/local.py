"""`LocalMeasurer`: a measurer of a task, with builds and runs in worker processes."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_cost, check_flag, check_float, check_int
from pegbox.codegen.program import MOST_STRAIGHT
from pegbox.codegen.targets.target import Target
from pegbox.errors import ArgumentError
from pegbox.measure.baselines.baseline import Baseline
from pegbox.measure.machine.cores import CorePlan, warn_of_threads
from pegbox.measure.machine.memory import memory_share
from pegbox.measure.machine.run_delay import wait_until_quiet
from pegbox.measure.pipeline.builder import Builder
from pegbox.measure.pipeline.builds import Builds
from pegbox.measure.pipeline.measurer import Measurer
from pegbox.measure.pipeline.pipeline import Pipeline, closed
from pegbox.measure.pipeline.probe import BaselineProbe
from pegbox.measure.pipeline.runs import Runs
from pegbox.measure.result import Result
from pegbox.measure.runners.runner import RunnerLike
from pegbox.measure.runners.runner_call import CheckedFactory, CheckedRunner, end
from pegbox.measure.trial.bench import Bench, check_input_names, check_inputs
from pegbox.measure.trial.timing import TimingPolicy
from pegbox.shown import value_text
from pegbox.workers.affinity import confined

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from pegbox.space import Config
    from pegbox.task.task import Task

# More builders than this only wait, because candidates timed here are lowered and timed one after the other.
_MOST_BUILDERS, _MOST_BUILDERS_ELSEWHERE = 8, 32


class LocalMeasurer(Measurer):
    """A measurer of a task's configs; a context manager, because it owns processes.

    Args:
        task: the task. `task.lower` runs in this process, on the calling thread; if other machines measure, in the
            processes that compile.
        runner: the name of a runner plugin, with options if any ("patient:spread=0.1"), "file.py:Class",
            "module:attribute", a factory (`RunnerFactory`), or a `distributed.Client`, which measures on its cluster.
        seed: the seed of the random inputs.
        timeout: the limit of one trial in seconds.
        build_timeout: the limit of one compilation in seconds.
        repeats, min_repeat_ms, flush_cache, fresh_inputs, rounds: see `TimingPolicy`; or pass a whole policy as
            `timing`.
        builders: the number of builder processes; by default one for each core that does not time, and if these are
            few, one more on the timing core, which pauses while candidates are timed.
        max_memory: the bytes that the runner may allocate; by default three quarters of the machine's.
        rtol, atol: the tolerances of floats; by default from the data type and the work per element.
        best: the best cost known from elsewhere, in seconds, such as from the records of an earlier run.
        max_block: the largest number of instructions in straight-line code; a candidate with more is refused, not
            compiled.
        kept_builds: the number of the fastest whose object code is kept for remeasurement.
        runner_options: further options of the runner, which override those in `runner`.
        inputs: the caller's arrays for some of the inputs, by name, if random ones make no sense, as for indices.
        aligned: run candidates on arrays that begin at cache lines, like those of a model; else on NumPy's.

    Raises `ArgumentError` for options outside their domain or unknown, `UnknownName` for an unknown runner, and
    `MeasureError`, before anything is compiled, if an input's values are indices outside a tensor.
    """

    compiles = True

    def __init__(
        self,
        task: Task,
        *,
        runner: RunnerLike = "local",
        seed: int = 0,
        timeout: float = 10.0,
        build_timeout: float = 10.0,
        repeats: int = 3,
        min_repeat_ms: float = 5.0,
        flush_cache: bool | int = False,
        fresh_inputs: tuple[str, ...] = (),
        rounds: int = 10,
        timing: TimingPolicy | None = None,
        builders: int | None = None,
        max_memory: int | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        best: float = math.inf,
        max_block: int = MOST_STRAIGHT,
        kept_builds: int = 32,
        runner_options: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        aligned: bool = False,
    ) -> None:
        if not isinstance(getattr(task, "target", None), Target):
            raise ArgumentError(f"task={value_text(task)} is not a task; give what pegbox.create_task makes")
        self._task = task
        _check_above_zero(build_timeout=check_float("build_timeout", build_timeout), best=check_cost("best", best))
        _check_counts(builders=builders, max_memory=max_memory, max_block=max_block, kept_builds=kept_builds)
        self._build_timeout, self._max_memory = build_timeout, max_memory
        self._best, self._max_block, self._kept_builds = best, max_block, kept_builds
        for name, tolerance in (("rtol", rtol), ("atol", atol)):
            if tolerance is not None:
                check_float(name, tolerance)
        given = check_inputs(task.arguments(), inputs)
        check_flag("aligned", aligned)
        self._make_bench = functools.cache(
            lambda: Bench.of(task, seed=seed, given=given, rtol=rtol, atol=atol, aligned=aligned)
        )
        if task.has_indirect_reads:
            self._make_bench()
        self._timing = TimingPolicy.of(
            timing,
            timeout=timeout,
            repeats=repeats,
            min_repeat_ms=min_repeat_ms,
            flush_cache=flush_cache,
            fresh_inputs=fresh_inputs,
            rounds=rounds,
        )
        check_input_names("fresh_inputs", task.arguments(), self._timing.fresh_inputs)
        self._factory = CheckedFactory(runner, runner_options)
        self._cores = CorePlan.elsewhere() if self._factory.is_cluster else CorePlan.here(task.target.num_cores)
        self._probe = BaselineProbe(task)
        self._builder = self._start_builders(builders)
        self._pipeline: Pipeline | None = None
        self._closed = False

    @property
    def machines(self) -> int:  # type: ignore[override]
        """See `Measurer`. Makes the runner if it uses other machines, as do the next two."""
        pipeline = self._asked()
        return 1 if pipeline is None else pipeline.machines

    @property
    def host(self) -> str:  # type: ignore[override]
        """See `Measurer`."""
        pipeline = self._asked()
        return "" if pipeline is None else pipeline.runs.runner.host

    @property
    def where(self) -> str:  # type: ignore[override]
        """See `Measurer`."""
        return "" if self._pipeline is None else self._pipeline.runs.runner.where

    @property
    def compares(self) -> bool:  # type: ignore[override]
        """True if the runner can measure a baseline."""
        return self._pipeline is None or self._pipeline.runs.runner.compares

    @property
    def uneven(self) -> str:  # type: ignore[override]
        """See `Measurer`."""
        return "" if self._pipeline is None else self._pipeline.runs.runner.uneven

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        """Measure each config; yield (config, result) in the order of `configs`, each as soon as it is known.

        With a one-thread target, later configs are lowered and built while earlier ones run. Leaving the iterator
        early, also by an exception such as KeyboardInterrupt, gives up the trials in progress; the measurer stays
        usable. Raises `MeasureError` if the machinery itself cannot work, or is closed.
        """
        yield from self._open().measure(configs)

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        """Time a few configs again, interleaved (A B C A B C ...), so that the winner is not just the luckiest.

        The code of the fastest was kept from their first measurement, or from an earlier round.
        """
        return self._open().remeasure(configs)

    def baseline(self, cost: float) -> Baseline | None:
        """Measure the baseline: NumPy's time, and the machine's limits. It takes about a second.

        `cost` is the best in seconds: if it comes near the limits measured earlier, they are measured again. NumPy's
        timings of all calls count: with calls before and after the finalists are timed, slow changes of the machine
        affect both. None if the runner does not measure it.
        """
        runner = self._open().runs.runner
        if not runner.compares:
            return None
        count = self._cores.timed_on(self._task.target.num_cores)
        with self._builder.silence():
            return self._probe.measure(runner, cost, cores=count)

    def beside(self) -> AbstractContextManager[None] | None:
        """Return the context for work of the calling thread between results of `measure`, and for threads that it
        starts then: they stay off the timing core. None if candidates are timed in silence, so that no work is allowed.
        """
        return confined(self._cores.building) if self._cores.overlap else None

    def wait_until_quiet(self) -> bool:
        """See `Measurer`. Returns at once if other machines measure."""
        if self._cores.timing:
            wait_until_quiet()
        return True

    def close(self) -> None:
        """End all processes; harmless when done twice.

        A measurement on another thread ends with `MeasureError`. A runner that cannot be ended only causes a warning,
        because its results are valid.
        """
        self._closed = True
        if self._pipeline is not None:
            self._pipeline.close()
        self._builder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start_builders(self, count: int | None) -> Builder:
        cores = self._cores
        workers = count or min(len(cores.building), _MOST_BUILDERS if cores.timing else _MOST_BUILDERS_ELSEWHERE)
        return Builder(
            workers=workers,
            cores=cores.building,
            shared=() if count else cores.shared,
            timeout=self._build_timeout,
            max_memory=memory_share(workers=workers + 1),
        )

    def _open(self) -> Pipeline:
        """Return the pipeline, made when first needed, since NumPy may take a while for the reference outputs."""
        if self._pipeline is None and not self._closed:
            runner = self._new_runner()
            builds = Builds(self._builder, runner, timeout=self._build_timeout)
            runs = Runs(runner, self._cores, self._builder.silence, best=self._best, kept_builds=self._kept_builds)
            self._pipeline = Pipeline(self._task, builds, runs, self._cores, max_block=self._max_block)
            if self._closed:  # closed meanwhile
                self._pipeline.close()
        if self._pipeline is None or self._closed:
            raise closed()
        return self._pipeline

    def _new_runner(self) -> CheckedRunner:
        limit = memory_share() if self._max_memory is None else self._max_memory
        runner = self._factory.make(self._make_bench(), timing=self._timing, cores=self._cores, max_memory=limit)
        threads = self._task.target.num_cores
        try:
            runner.check_target(self._task.target)
            if runner.cores is not None:
                warn_of_threads(threads, runner.cores, f"the machines that measure are {runner.host}", "them")
        except BaseException:
            end(runner.close)
            raise
        return runner

    def _asked(self) -> Pipeline | None:
        """Return the pipeline if it exists; make it if other machines measure."""
        return self._pipeline if self._cores.timing else self._open()


def _check_above_zero(**seconds: float) -> None:
    for name, value in seconds.items():
        if not value > 0:
            raise ArgumentError(f"{name}={value!r}: must be above 0 seconds")


def _check_counts(*, builders: int | None, max_memory: int | None, max_block: int, kept_builds: int) -> None:
    if builders is not None:
        check_int("builders", builders, maximum=1024)
    if max_memory is not None:
        check_int("max_memory", max_memory)
    check_int("max_block", max_block)
    check_int("kept_builds", kept_builds)
