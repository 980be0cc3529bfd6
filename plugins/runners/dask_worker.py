"""The worker's side of the runner "dask": the state that a worker plugin holds, and the task that calls its methods."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import platform
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from distributed import Worker, WorkerPlugin, get_worker

from pegbox.codegen import LEAST_BYTES, Target, usable_cores
from pegbox.errors import MeasureError
from pegbox.measure import (
    GIVEN_UP,
    RUN_GIVEN_UP,
    Bench,
    Builder,
    CorePlan,
    Failed,
    TimingPolicy,
    Tolerance,
    memory_share,
)
from pegbox.plugins.runners.counters import Counters
from pegbox.plugins.runners.local import LocalRunner
from pegbox.plugins.runners.machine import RESOURCE, ClusterMachine, Kind
from pegbox.plugins.runners.machine_lock import alone, building
from pegbox.workers import GivenUp, IdleTimer

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program
    from pegbox.compute import NumpyProgram
    from pegbox.measure import Lowered, Lowering, Result, Roofline

LEASE = 15.0
"""The seconds between two looks for the client."""

IDLE = 60.0
"""The seconds without work after which a worker's processes end; the next job starts new ones."""

_LEAVE_SECONDS = 10.0

_MEASURED: defaultdict[str, Counters] = defaultdict(Counters)
"""The counters of each worker of this process, by address."""

T = TypeVar("T")


class UnfitWorker(MeasureError):
    """A worker cannot measure, for example on a full disk; its tasks go to others."""

    def __init__(self, message: str, address: str = "") -> None:
        super().__init__(message)
        self.address = address


def perform(name: str, turn: int, method: str, *arguments: object) -> Any:
    """Call a method of the state `name` on this worker, the task behind every request of a client."""
    state = get_worker().plugins.get(name)
    if state is None:
        raise MeasureError(f"{platform.node()} was closed and takes no part in this search")
    return getattr(state, method)(turn, *arguments)


def give_up(name: str, turn: int, dask_worker: Worker) -> None:
    """Give up the jobs before `turn` on a worker, at once, because this is not a task."""
    if (state := dask_worker.plugins.get(name)) is not None:
        state.give_up(turn)


def describe(dask_worker: Worker) -> ClusterMachine:
    """Describe the machine of a worker."""
    return ClusterMachine.own(dask_worker.address, measures=dask_worker.state.total_resources.get(RESOURCE, 0) >= 1)


def measured(dask_worker: Worker) -> Mapping[str, int]:
    """Count the candidates that a worker has measured since it started, by the process that searched."""
    return _MEASURED[dask_worker.address].counts


def speed() -> float:
    """Time a fixed kernel of multiply-adds on this machine: GFLOP/s of a core, 0 if unknown. This is a task, too."""
    bench = Bench((), (), (), Tolerance(rtol=0.0, atol=0.0))
    folder = get_worker().local_directory
    with (
        alone(),
        contextlib.closing(LocalRunner(bench, timing=TimingPolicy(), cores=CorePlan.detect(), folder=folder)) as runner,
    ):
        found = runner.roofline("float32", LEAST_BYTES, Target.host(num_cores=1))
    return 0.0 if found is None else found.gflops or 0.0


def measuring_resource(kind: Kind, chosen: str | None) -> str:
    """Name the resource of the workers of one kind among those that `chosen` names; only they run candidates."""
    return _resource(RESOURCE, kind, chosen)


def build_resource(kind: Kind) -> str:
    """Name the resource of the workers that compile with the versions of `kind`, on any processor."""
    return _resource(f"{RESOURCE}-build", kind.pegbox, kind.llvm)


def _resource(prefix: str, *parts: object) -> str:
    return f"{prefix}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"


@dataclasses.dataclass(eq=False, repr=False)
class WorkerState(WorkerPlugin):  # type: ignore[misc]
    """The state of one client's jobs on a worker; Dask sends it to every worker, also to those that join later.

    It asks the scheduler about its client and leaves all workers when the client is gone. `name` is the name of the
    plugin, and the key of a task that Dask forgets together with the client.
    """

    name: str

    async def setup(self, worker: Worker) -> None:
        """Start on the worker; Dask calls this."""
        self._worker, self._since, self._closed = worker, 0, False
        self._watch = asyncio.create_task(self._leave_with_client())

    async def teardown(self, worker: Worker) -> None:
        """Clean up; Dask calls this if the client removes the plugin, and when the worker ends."""
        if self._watch is not asyncio.current_task():
            self._watch.cancel()
        self._closed = True
        await asyncio.to_thread(self.close)

    def give_up(self, turn: int) -> None:
        """Give up the jobs requested before `turn`."""
        self._since = turn
        self.interrupt()

    def interrupt(self) -> None:
        """Give up the jobs in progress."""

    def close(self) -> None:
        """End all processes; harmless when done twice."""

    def is_over(self, turn: int) -> bool:
        """Decide if jobs of the turn were given up."""
        return self._closed or turn < self._since

    async def _leave_with_client(self) -> None:
        worker, state = self._worker, object()
        while state is not None:
            await asyncio.sleep(LEASE)
            with contextlib.suppress(OSError):  # a worker whose scheduler is gone ends
                state = (await worker.scheduler.get_task_status(keys=[self.name]))[self.name]
        with contextlib.suppress(OSError, ValueError):  # another worker's plugin may have been faster
            await worker.scheduler.unregister_worker_plugin(name=self.name)
        if self.name in worker.plugins:
            await worker.plugin_remove(name=self.name)


@dataclasses.dataclass(eq=False, repr=False)
class MeasuringState(WorkerState):
    """A search's bench on a worker, a `LocalRunner` from the first candidate on, and builders from the first program.

    Workers of the same `kind` that are `chosen` measure; those with the same versions compile, if `builds`. All others
    keep it unused.
    """

    bench: Bench
    timing: TimingPolicy
    max_memory: int | None
    kind: Kind
    chosen: str | None
    builds: bool
    process: str

    async def setup(self, worker: Worker) -> None:
        """See `WorkerState`; also announce the jobs that the worker may get."""
        self._alone = threading.Lock()
        self._runner: LocalRunner | None = None
        self._builder: Builder | None = None
        self._idle = IdleTimer(IDLE, self._release)
        self._folder = worker.local_directory  # Dask cleans up this folder after a killed worker
        await super().setup(worker)
        machine = await asyncio.to_thread(describe, worker)
        resources: dict[str, int] = {}
        if machine.measures and machine.kind == self.kind and machine.is_named(self.chosen):
            resources[measuring_resource(self.kind, self.chosen)] = 1
        if self.builds and (machine.kind.pegbox, machine.kind.llvm) == (self.kind.pegbox, self.kind.llvm):
            size = max(1, min(worker.state.nthreads, len(usable_cores())))
            memory = memory_share(workers=size + 1)
            self._builder = Builder(workers=size, cores=usable_cores(), max_memory=memory, idle=IDLE)
            resources[build_resource(self.kind)] = size
        await worker.set_resources(**resources)

    def build(self, turn: int, job: Program | Lowering, timeout: float) -> CompiledProgram | Lowered | Failed:
        """Compile, or lower and compile, while nothing is timed on this machine."""
        assert self._builder is not None
        try:
            with building(lambda: self.is_over(turn), timeout=timeout):
                return self._builder.build(job, timeout=timeout)
        except GivenUp:
            return GIVEN_UP

    def run(self, turn: int, program: CompiledProgram, best: float) -> Result:
        """Measure a candidate."""

        def measure(runner: LocalRunner) -> Result:
            began = time.perf_counter()
            result = runner.run(program, best=best)
            shipping = time.perf_counter() - began - sum(result.phases.values())
            _MEASURED[self._worker.address].add(self.process)
            return dataclasses.replace(result, phases={**result.phases, "ship": max(0.0, shipping)})

        return self._use(turn, measure) or RUN_GIVEN_UP

    def rerun(self, turn: int, programs: Sequence[CompiledProgram]) -> list[Result]:
        """Measure several candidates in turns."""
        return self._use(turn, lambda runner: runner.rerun(programs)) or [RUN_GIVEN_UP] * len(programs)

    def time_numpy(self, turn: int, program: NumpyProgram, threads: int) -> Sequence[float] | None:
        """Time NumPy."""
        return self._use(turn, lambda runner: runner.time_numpy(program, threads=threads))

    def roofline(self, turn: int, dtype: str, nbytes: int, target: Target) -> Roofline | None:
        """Measure the limits of this machine."""
        return self._use(turn, lambda runner: runner.roofline(dtype, nbytes, target))

    def interrupt(self) -> None:
        """End all measurements and compilations."""
        if (runner := self._runner) is not None:
            runner.interrupt()
        if self._builder is not None:
            self._builder.interrupt()

    def close(self) -> None:
        """See `WorkerState`."""
        self.interrupt()
        self._release()
        if self._builder is not None:
            self._builder.close()

    def _use(self, turn: int, action: Callable[[LocalRunner], T]) -> T | None:
        """Run `action` alone on this machine and return its result; None if the turn was given up."""
        try:
            with alone(lambda: self.is_over(turn), timeout=self.timing.timeout), self._alone:
                if self.is_over(turn):
                    return None
                self._idle.stop()
                try:
                    return action(self._open())
                finally:
                    self._idle.restart()
        except GivenUp:
            return None
        except OSError as error:
            self._leave()
            raise UnfitWorker(
                f"{platform.node()} cannot measure: {error}; its worker must be able to write in {self._folder} (dask "
                "worker --local-directory DIR) and where temporary files are (TMPDIR=DIR): make room there, then start "
                "it again",
                self._worker.address,
            ) from error

    def _leave(self) -> None:
        """Give up the resource for this search's tasks, so that other workers get them."""
        leaving = self._worker.set_resources(**{measuring_resource(self.kind, self.chosen): 0})
        asyncio.run_coroutine_threadsafe(leaving, self._worker.loop.asyncio_loop).result(_LEAVE_SECONDS)

    def _open(self) -> LocalRunner:
        if self._runner is None:
            share = memory_share()
            memory = share if self.max_memory is None else min(share, self.max_memory)
            options = {"timing": self.timing, "cores": CorePlan.detect(), "max_memory": memory, "folder": self._folder}
            self._runner = LocalRunner(self.bench, **options)
        return self._runner

    def _release(self) -> None:
        with self._alone:
            self._idle.stop()
            runner, self._runner = self._runner, None
            if runner is not None:
                runner.close()
