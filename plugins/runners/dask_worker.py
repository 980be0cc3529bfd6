"""The worker's side of the runner "dask": a bench, a local runner, and the tasks that use them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import platform
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from distributed import Worker, get_worker

from pegbox.codegen import LEAST_BYTES, Target
from pegbox.errors import MeasureError
from pegbox.measure import RUN_GIVEN_UP, Bench, CorePlan, Result, TimingPolicy, Tolerance, memory_share
from pegbox.plugins.runners.dask_lease import LeasedPlugin
from pegbox.plugins.runners.dask_tasks import UnfitWorker
from pegbox.plugins.runners.local import LocalRunner
from pegbox.plugins.runners.machine import RESOURCE, ClusterMachine, Kind
from pegbox.plugins.runners.machine_lock import alone
from pegbox.plugins.runners.tally import Tally
from pegbox.workers import GivenUp, IdleTimer

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram
    from pegbox.compute import NumpyProgram
    from pegbox.measure import Roofline

IDLE = 60.0
"""Seconds without work after which the processes that run candidates end; the next candidate starts others."""

_LEAVE_SECONDS = 10.0

_TALLIES: defaultdict[str, Tally] = defaultdict(Tally)
"""What each worker of this process has measured, by address."""

T = TypeVar("T")


def kind_resource(kind: Kind) -> str:
    """The resource of the workers of one kind: a candidate that needs it runs on no other, whoever joins or leaves."""
    return f"{RESOURCE}-{kind.digest}"


def describe(dask_worker: Worker) -> ClusterMachine:
    """The machine of a worker."""
    return ClusterMachine.own(dask_worker.address, measures=dask_worker.state.total_resources.get(RESOURCE, 0) >= 1)


def measured(dask_worker: Worker) -> Mapping[str, int]:
    """Count the candidates that each search has measured on a worker since it started."""
    return _TALLIES[dask_worker.address].counts


class Station(LeasedPlugin):
    """A task's bench on a worker, with a `LocalRunner` from the first candidate on.

    Dask gives it to every worker, also to those that join later. A worker of another kind than `kind`, or one that was
    not `chosen`, keeps it without use.
    """

    def __init__(
        self, name: str, bench: Bench, timing: TimingPolicy, *, max_memory: int | None, kind: Kind, chosen: str | None
    ) -> None:
        self.name, self.bench, self.timing = name, bench, timing
        self.max_memory, self.kind, self.chosen = max_memory, kind, chosen

    async def setup(self, worker: Worker) -> None:
        """Called by Dask where the worker is."""
        self._turn, self._runner, self._since, self._closed = threading.Lock(), None, 0, False
        self._idle = IdleTimer(IDLE, self._release)
        self._worker = worker
        self._folder = worker.local_directory  # Dask removes what a killed worker leaves there
        machine = describe(worker)
        if machine.measures and machine.kind == self.kind and machine.is_named(self.chosen):
            await worker.set_resources(**{kind_resource(self.kind): 1})
        await super().setup(worker)

    async def teardown(self, worker: Worker) -> None:
        """Called by Dask when the client says so, and when the worker ends."""
        await super().teardown(worker)
        await asyncio.to_thread(self.close)

    def use(self, number: int, action: Callable[[LocalRunner], T]) -> T | None:
        """Run `action` alone on this machine and return its result;

        None where the requests before turn `number` were given up.
        """
        try:
            with alone(lambda: self._is_over(number), timeout=self.timing.timeout), self._turn:
                if self._is_over(number):
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
        """Give up the resource that this search's tasks need: other workers get them."""
        leaving = self._worker.set_resources(**{kind_resource(self.kind): 0})
        asyncio.run_coroutine_threadsafe(leaving, self._worker.loop.asyncio_loop).result(_LEAVE_SECONDS)

    def give_up(self, number: int) -> None:
        """Give up the run in progress and all that were asked before the turn `number`."""
        self._since = number
        if (runner := self._runner) is not None:
            runner.interrupt()

    def close(self) -> None:
        """End the runner; harmless when done twice."""
        self._closed = True
        if (runner := self._runner) is not None:
            runner.interrupt()
        self._release()

    def _is_over(self, number: int) -> bool:
        return self._closed or number < self._since

    def _open(self) -> LocalRunner:
        if self._runner is None:
            share = memory_share()
            memory = share if self.max_memory is None else min(share, self.max_memory)
            cores = CorePlan.detect()
            self._runner = LocalRunner(
                self.bench, timing=self.timing, cores=cores, max_memory=memory, folder=self._folder
            )
        return self._runner

    def _release(self) -> None:
        with self._turn:
            self._idle.stop()
            runner, self._runner = self._runner, None
            if runner is not None:
                runner.close()

    _runner: LocalRunner | None


def run(name: str, number: int, program: CompiledProgram, best: float) -> Result:
    """The task that measures a candidate."""

    def measured(runner: LocalRunner) -> Result:
        began = time.perf_counter()
        result = runner.run(program, best=best)
        shipping = time.perf_counter() - began - sum(result.phases.values())
        _TALLIES[get_worker().address].add(name)
        return dataclasses.replace(result, phases={**result.phases, "ship": max(0.0, shipping)})

    return _station(name).use(number, measured) or RUN_GIVEN_UP


def rerun(name: str, number: int, programs: Sequence[CompiledProgram]) -> list[Result]:
    """The task that measures several candidates in turns."""
    found = _station(name).use(number, lambda runner: runner.rerun(programs))
    return found or [RUN_GIVEN_UP] * len(programs)


def time_numpy(name: str, number: int, program: NumpyProgram, threads: int) -> Sequence[float] | None:
    """The task that times NumPy."""
    found: Sequence[float] | None = _station(name).use(
        number, lambda runner: runner.time_numpy(program, threads=threads)
    )
    return found


def roofline(name: str, number: int, dtype: str, nbytes: int, target: Target) -> Roofline | None:
    """The task that measures the limits of a machine."""
    found: Roofline | None = _station(name).use(number, lambda runner: runner.roofline(dtype, nbytes, target))
    return found


def speed() -> float:
    """The task that times one fixed kernel, of multiply-adds, on this machine: GFLOP/s of a core, 0 where not known."""
    bench = Bench((), (), (), Tolerance(rtol=0.0, atol=0.0))
    options = {"timing": TimingPolicy(), "cores": CorePlan.detect(), "folder": get_worker().local_directory}
    with alone(), contextlib.closing(LocalRunner(bench, **options)) as runner:
        found = runner.roofline("float32", LEAST_BYTES, Target.host(num_cores=1))
    return 0.0 if found is None else found.gflops or 0.0


def give_up(name: str, number: int, dask_worker: Worker) -> None:
    """Give up what a worker is doing; it is not a task and waits for none."""
    if (station := dask_worker.plugins.get(name)) is not None:
        station.give_up(number)


def _station(name: str) -> Any:
    try:
        return get_worker().plugins[name]
    except KeyError:
        raise MeasureError(f"{platform.node()} has no bench of this search: it was closed") from None
