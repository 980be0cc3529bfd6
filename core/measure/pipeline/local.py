"""`LocalMeasurer`: measures configs on this machine, with builds and runs in worker processes."""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_float, check_int
from pegbox.codegen.program import MOST_STRAIGHT, CompiledProgram, Program
from pegbox.errors import ArgumentError, MeasureError
from pegbox.measure.baselines.gauge import Gauge
from pegbox.measure.baselines.yardstick import Yardstick
from pegbox.measure.machine.cores import CorePlan, warn_of_threads
from pegbox.measure.machine.memory import memory_share
from pegbox.measure.machine.run_delay import wait_until_quiet
from pegbox.measure.measurer import Measurer
from pegbox.measure.pipeline.batch import Batch, window_of
from pegbox.measure.pipeline.build_sites import BuildSites
from pegbox.measure.pipeline.builder import Builder
from pegbox.measure.pipeline.cache import BuildCache
from pegbox.measure.pipeline.candidate import Candidate
from pegbox.measure.pipeline.twins import Twins, follow
from pegbox.measure.result import Failed, Ok, Result
from pegbox.measure.runners.runner import RUN_GIVEN_UP, Runner, RunnerLike
from pegbox.measure.runners.runner_call import CheckedFactory, CheckedRunner, end
from pegbox.measure.trial.bench import Bench, check_inputs
from pegbox.measure.trial.timing import TimingPolicy
from pegbox.workers.affinity import confined, pin

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from pegbox.space import Config
    from pegbox.task.task import Task

# More builders than this only wait: the lowering of one process cannot feed them.
_MOST_BUILDERS = 8
_CHUNK = 64
_MOST_RUNS = 1024
"""Candidates that are on their way to the machines of a cluster: each has a thread here that waits for its build, then
one for its run."""


class LocalMeasurer(Measurer):
    """Measures configs of `task`; a context manager, because it owns processes.

    Args:
        task: what to measure. `task.lower` runs in this process, on the calling thread.
        runner: the name of a runner plugin, with options if any ("patient:spread=0.1"), "file.py:Class",
            "module:attribute", a factory (`RunnerFactory`), or a `distributed.Client`, which measures on its cluster.
        seed: of the random inputs.
        timeout: seconds that one trial may run.
        build_timeout: seconds that one compilation may take.
        repeats, min_repeat_ms, flush_cache, rounds: see `TimingPolicy`; or pass a whole policy as `timing`.
        builders: number of builder processes; by default one for each core that is not timing, and where these are
            few, one more on the timing core, which rests while candidates are timed.
        max_memory: bytes the runner may allocate; by default three quarters of the machine's.
        rtol, atol: how far a float may be off; by default from the data type and the work per element.
        best: the best cost known from elsewhere, in seconds, such as from the records of an earlier run.
        max_block: a candidate with more instructions than that in a piece of straight code is refused, not compiled.
        kept_builds: of how many of the fastest the object code is kept, for when they are measured again.
        runner_options: further options of the runner; they win over those in `runner`.
        inputs: arrays of the caller for some of the inputs, by name, where random ones make no sense, as for indices.

    Raises `ArgumentError` for options outside their domain or unknown, `UnknownName` for an unknown runner, and
    `MeasureError` where values of the inputs are indices and leave a tensor: before anything is compiled.
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
        flush_cache: bool = False,
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
    ) -> None:
        _check_numbers(build_timeout, builders, max_memory, best, kept_builds, rtol, atol)
        self._max_block = check_int("max_block", max_block)
        given = check_inputs(task.arguments(), inputs)
        self._make_bench = functools.cache(lambda: Bench.of(task, seed=seed, given=given, rtol=rtol, atol=atol))
        if task.has_indirect_reads:
            self._make_bench()
        self._task = task
        self._timing = TimingPolicy.of(
            timing,
            timeout=timeout,
            repeats=repeats,
            min_repeat_ms=min_repeat_ms,
            flush_cache=flush_cache,
            rounds=rounds,
        )
        self._factory = CheckedFactory(runner, runner_options)
        self._on_cluster = self._factory.is_cluster
        self._max_memory = memory_share() if max_memory is None else max_memory
        self._best = best
        self._gauge = Gauge(task)
        self._builds = BuildCache(capacity=kept_builds)
        self._twins = Twins()
        self._cores = CorePlan.for_building() if self._on_cluster else CorePlan.for_timing(task.target.num_cores)
        self._runner: CheckedRunner | None = None
        self._batch: Batch | None = None
        self._closed = False
        self._builder = self._new_builder(builders, build_timeout)
        self._sites = BuildSites(self._builder, timeout=build_timeout)
        self._build_threads = self._threads(_MOST_RUNS if self._on_cluster else self._builder.size, "pegbox-build")
        self._run_threads = self._threads(_MOST_RUNS if self._on_cluster else 1, "pegbox-run")
        self._keeping = threading.Lock()

    @property
    def machines(self) -> int:  # type: ignore[override]
        """See `Measurer`. The runner of a cluster is made to answer this and the next."""
        runner = self._asked()
        return 1 if runner is None else min(runner.machines, _MOST_RUNS // 2)

    @property
    def host(self) -> str:  # type: ignore[override]
        """See `Measurer`."""
        runner = self._asked()
        return "" if runner is None else runner.host

    @property
    def where(self) -> str:  # type: ignore[override]
        """See `Measurer`."""
        return "" if self._runner is None else self._runner.where

    def _window(self) -> int:
        """Count the trials that may be on their way. Raises `MeasureError` once the measurer is closed."""
        self._check_open()
        return window_of(self._sites.size, self.machines)

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        """Measure each config; gives (config, result) in the order of `configs`, each as soon as it is known.

        With a one-thread target, later configs are lowered and built while earlier ones run. Leaving the iterator
        early, by an exception such as KeyboardInterrupt too, gives up what is in progress; the measurer stays usable.
        Raises `MeasureError` when the machinery itself cannot work, or is closed.
        """
        # What must be timed in silence waits until its chunk is built; object code would pile up over a long batch.
        size = len(configs) if self._cores.overlap else _CHUNK
        for start in range(0, len(configs), max(1, size)):
            yield from self._measure_chunk(configs[start : start + size])

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        """Time a few configs again, interleaved (A B C A B C ...), so that the winner is not just the luckiest.

        The code of the fastest was kept when they were measured first, or for an earlier round.
        """
        self._check_open()
        self._open()
        candidates = [Candidate(self._task, config, host=self.host) for config in configs]
        started = [self._rebuild(candidate) for candidate in candidates]
        try:
            builds = [build.result() for build in started]
        except CancelledError:
            self._check_open()
            raise
        ready = [build for build in builds if not isinstance(build, Failed)]
        began = time.perf_counter()
        try:
            results = iter(self._run_threads.submit(self._rerun, ready).result() if ready else [])
        except BaseException:
            self._interrupt()
            raise
        share = (time.perf_counter() - began) / max(1, len(ready))
        return [
            candidate.finish(build)
            if isinstance(build, Failed)
            else candidate.finish(self._kept(candidate, build, next(results)), running=share, threads=build.num_threads)
            for candidate, build in zip(candidates, builds, strict=True)
        ]

    @property
    def compares(self) -> bool:  # type: ignore[override]
        """True if the runner can measure a yardstick."""
        return self._runner is None or self._runner.compares

    def yardstick(self, cost: float) -> Yardstick | None:
        """Measure the yardstick: NumPy's time, and the machine's limits. It takes about a second.

        `cost` is the best in seconds: where it comes near the limits that were measured earlier, they are measured
        again.
        NumPy's timings of all calls count: called before and after the finalists are timed, NumPy and they share what
        changes slowly. None where the runner says nothing of it.
        """
        runner = self._open()
        if not self.compares:
            return None
        cores = self._task.target.num_cores
        count = cores if self._on_cluster else len(self._cores.running(cores))
        with self._builder.silence():
            return self._gauge.measure(runner, cost, cores=count, host=self.host)

    def beside(self) -> AbstractContextManager[None] | None:
        """Give the context for work of the calling thread between results of `measure`, and for threads that it starts
        then: they keep off the timing core. None where candidates are timed in silence, and no work may be done.
        """
        return confined(self._cores.building) if self._cores.overlap else None

    def wait_until_quiet(self) -> bool:
        """See `Measurer`. Where other machines measure, it returns at once."""
        if not self._on_cluster:
            wait_until_quiet()
        return True

    def close(self) -> None:
        """End all processes; harmless when done twice. What another thread measures then ends with `MeasureError`. A
        runner that cannot be ended is a warning: what was measured stands."""
        self._closed = True
        if (batch := self._batch) is not None:
            batch.cancel()
        self._sites.close()
        end(self._interrupt)
        for threads in (self._build_threads, self._run_threads):
            threads.shutdown(wait=True, cancel_futures=True)
        self._builder.close()
        if self._runner is not None:
            end(self._runner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _measure_chunk(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        self._open()
        self._batch = batch = Batch(builders=self._build_threads, runners=self._run_threads, silent=self._silent)
        try:
            yield from batch.in_order(configs, lambda config: self._start(config, batch), window=self._window)
        except (RuntimeError, CancelledError):  # of threads that have ended meanwhile
            self._check_open()
            raise
        finally:
            if batch.pending:
                batch.cancel()
                self._twins.forget([future for _, future in batch.pending])
                self._interrupt()

    def _start(self, config: Config, batch: Batch) -> Future[Result]:
        candidate = Candidate(self._task, config, host=self.host)
        program = self._lower(candidate)
        future: Future[Result] = Future()
        if isinstance(program, Failed):
            future.set_result(candidate.finish(program))
        elif (twin := self._twins.of(config, program)) is not None:
            twin.add_done_callback(lambda done: follow(done, candidate, future))
        else:
            future = batch.submit(_LocalTrial(self, candidate, program, batch))
            self._twins.add(config, program, future)
        return future

    def _lower(self, candidate: Candidate) -> Program | Failed:
        # Only this thread, and only meanwhile: the timing core stays free, and the caller's affinity stays its own.
        with confined(self._cores.building):
            return candidate.lower(max_block=self._max_block)

    def _rebuild(self, candidate: Candidate) -> Future[CompiledProgram | Failed]:
        """The build that was kept, or another one."""
        known = self._builds.get(candidate.config)
        program = self._lower(candidate) if known is None else known
        if isinstance(program, Program):
            return self._build_threads.submit(self._build, candidate, program)
        done: Future[CompiledProgram | Failed] = Future()
        done.set_result(program)
        return done

    def _build(self, candidate: Candidate, program: Program) -> CompiledProgram | Failed:
        with self._sites.free() as site:
            return candidate.build(site, program)

    def _rerun(self, programs: Sequence[CompiledProgram]) -> list[Result]:
        runner = self._open()
        with self._builder.silence():
            return runner.rerun(programs)

    def _kept(self, candidate: Candidate, compiled: CompiledProgram, result: Result) -> Result:
        """The result; its build is kept for another round."""
        if isinstance(result, Ok):
            self._builds.offer(candidate.config, result.cost, compiled)
        return result

    def _run(self, candidate: Candidate, compiled: CompiledProgram, batch: Batch) -> Result:
        """Run on a runner thread. A cluster's machine says itself what the trial took there, without the wait."""
        runner = self._open()
        with self._builder.silence():
            if batch.cancelled:  # during the wait
                return candidate.finish(RUN_GIVEN_UP)
            began = time.perf_counter()
            result = runner.run(compiled, best=self._best)
            running = time.perf_counter() - began
        if isinstance(result, Ok) and not result.partial:
            with self._keeping:
                self._best = min(self._best, result.cost)
                self._builds.offer(candidate.config, result.cost, compiled)
        return candidate.finish(result, running=0.0 if self._on_cluster else running, threads=compiled.num_threads)

    def _silent(self, program: CompiledProgram) -> bool:
        return self._cores.silent(program.num_threads)

    def _open(self) -> CheckedRunner:
        """The runner, made when first needed: the reference outputs may take NumPy a while."""
        self._check_open()
        if self._runner is None:
            bench = self._make_bench()
            runner = self._factory.make(bench, timing=self._timing, cores=self._cores, max_memory=self._max_memory)
            try:
                runner.check_target(self._task.target)
            except BaseException:
                end(runner.close)
                raise
            self._runner = runner
            self._sites.cluster = runner if self._on_cluster else None
            if runner.cores is not None:
                warn_of_threads(
                    self._task.target.num_cores, runner.cores, f"those that measure are {runner.host}", "them"
                )
        return self._runner

    def _asked(self) -> Runner | None:
        """Return the runner as far as it is there. That of a cluster is made."""
        return self._open() if self._on_cluster else self._runner

    def _check_open(self) -> None:
        if self._closed:
            raise MeasureError("the measurer was closed; make another one")

    def _interrupt(self) -> None:
        self._sites.interrupt()
        self._builder.interrupt()
        if self._runner is not None:
            self._runner.interrupt()

    def _new_builder(self, workers: int | None, timeout: float) -> Builder:
        size = workers or min(len(self._cores.building), _MOST_BUILDERS)
        return Builder(
            workers=size,
            cores=self._cores.building,
            shared=() if workers else self._cores.shared,
            timeout=timeout,
            max_memory=max(memory_share(workers=size + 1), 1),
        )

    def _threads(self, count: int, name: str) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(count, thread_name_prefix=name, initializer=pin, initargs=(self._cores.building,))


def _check_numbers(
    build_timeout: float,
    builders: int | None,
    max_memory: int | None,
    best: float,
    kept_builds: int,
    rtol: float | None,
    atol: float | None,
) -> None:
    if not check_float("build_timeout", build_timeout) > 0:
        raise ArgumentError(f"build_timeout={build_timeout!r}: must be above 0 seconds")
    if builders is not None:
        check_int("builders", builders, maximum=1024)
    if max_memory is not None:
        check_int("max_memory", max_memory)
    if not best > 0:
        raise ArgumentError(f"best={best!r}: must be above 0 seconds")
    check_int("kept_builds", kept_builds)
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance is not None:
            check_float(name, tolerance)


class _LocalTrial:
    """The steps of a trial that the pipeline runs on its threads."""

    def __init__(self, measurer: LocalMeasurer, candidate: Candidate, program: Program, batch: Batch) -> None:
        self._measurer, self._candidate, self._program, self._batch = measurer, candidate, program, batch

    def build(self) -> CompiledProgram | Failed:
        return self._measurer._build(self._candidate, self._program)

    def run(self, compiled: CompiledProgram) -> Result:
        return self._measurer._run(self._candidate, compiled, self._batch)

    def finish(self, failed: Failed) -> Result:
        return self._candidate.finish(failed)
