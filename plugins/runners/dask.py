"""The runner "dask", which measures candidates on the machines of a Dask cluster, one at a time on each."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import platform
import uuid
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_choice
from pegbox.codegen import CompiledProgram, Program, Target
from pegbox.errors import ArgumentError, MeasureError
from pegbox.hooks import users_level
from pegbox.measure import GIVEN_UP, RUN_GIVEN_UP, Bench, CorePlan, Failed, FailureKind, Result, Runner, TimingPolicy
from pegbox.plugins.runners.dask_client import START, connected, dashboard_of
from pegbox.plugins.runners.dask_machines import APART, check_memory, find_machines, speeds
from pegbox.plugins.runners.machine import RESOURCE, Kind, one_kind
from pegbox.plugins.runners.machine_lock import building

if TYPE_CHECKING:
    from distributed import Client

    from pegbox.comparison import RunPool
    from pegbox.compute import NumpyProgram
    from pegbox.measure import Lowered, Lowering, Roofline

_RESUME = ", then go on with --resume (resume=True): the records have all that was measured"


class DaskRunner(Runner):
    """A runner of candidates on the workers of a Dask cluster with the resource "pegbox", one at a time on each.

    Args:
        bench, timing, cores, max_memory: as for every runner. The cores are those of each worker's machine, and the
            memory is at most that machine's share.
        scheduler: the scheduler's address, such as "tcp://host:8786", or a `distributed.Client`; without it, a cluster
            with one worker on this machine is started.
        host: a part of the name of the machines to measure on, or of their processor's name.
        target: the target, or its text; the machines must have its processor, or run its code.
        patience: seconds to wait for a worker when none is left; for the first one, at most 10.
        builds: "cluster" to compile there, too, when this machine's cores are busy, or "here".

    Raises `MeasureError` if no scheduler answers, no worker can measure, or machines or versions differ.
    """

    cluster = True

    def __init__(
        self,
        bench: Bench,
        *,
        timing: TimingPolicy,
        cores: CorePlan,
        max_memory: int | None = None,
        scheduler: Any = None,
        host: str | None = None,
        target: str | Target | None = None,
        patience: float = 60.0,
        builds: str = "cluster",
    ) -> None:
        check_choice("builds", builds, ("cluster", "here"))
        wanted = Target(target) if isinstance(target, str) else target
        self._timeout = timing.timeout
        with contextlib.ExitStack() as owned:
            client = owned.enter_context(connected(scheduler))
            found = find_machines(client, patience=patience)
            chosen = one_kind([m for m in found if m.measures], here=Kind.own(), chosen=host, target=wanted)
            self._kind = chosen[0].kind
            self._measures_here = any(machine.node == platform.node() for machine in chosen)
            check_memory(client, bench.nbytes)
            self._builds = builds == "cluster" and bool(self._kind.llvm)
            from pegbox.plugins.runners.dask_tasks import Tasks, Where
            from pegbox.plugins.runners.dask_worker import MeasuringState, build_resource, measuring_resource

            state = MeasuringState(
                f"pegbox-{uuid.uuid4().hex}",
                bench,
                timing,
                max_memory=max_memory,
                kind=self._kind,
                chosen=host,
                builds=self._builds,
                process=f"process {os.getpid()} on {platform.node()}",
            )
            self._tasks = Tasks(client, state, start=START, resume=_RESUME)
            owned.callback(self._tasks.close)
            self._timed = Where({RESOURCE: 1, measuring_resource(self._kind, host): 1}, patience)
            self._built_by = build_resource(self._kind)
            # On a worker with one thread, a candidate to time precedes a program to compile.
            self._compiled = Where({self._built_by: 1}, patience=0.0, priority=-1)
            self._dashboard = dashboard_of(client)
            _compare(client, self._tasks.workers(self._timed))
            self._owned = owned.pop_all()

    @staticmethod
    def run_pool(payload: bytes, *, scheduler: Any = None, patience: float = 60.0) -> RunPool:
        """Open a pool that makes a comparison's runs on the cluster (`compare(jobs="dask:scheduler=...")`)."""
        if scheduler is None:
            raise ArgumentError(
                "jobs='dask': name the cluster, as in 'dask:scheduler=tcp://host:8786'; processes of this "
                "machine need none: jobs=N"
            )
        from pegbox.plugins.runners.dask_pool import DaskPool

        return DaskPool(payload, scheduler=scheduler, patience=patience)

    @property
    def machines(self) -> int:
        """The number of workers that measure now. See `Runner`."""
        return max(1, len(self._tasks.workers(self._timed)))

    @property
    def where(self) -> str:
        """The number of machines, and the address of Dask's page on the cluster, if it has one. See `Runner`."""
        return super().where + (f" ({self._dashboard})" if self._dashboard else "")

    @property
    def compares(self) -> bool:
        """True if times on the machines are meaningful. See `Runner`."""
        return not self._kind.emulated

    @property
    def cores(self) -> int:
        """The number of cores that a worker may use."""
        return self._kind.cores

    @property
    def builders(self) -> int:
        """The number of programs that the cluster compiles in addition to those that it times. See `Runner`."""
        if not self._builds:
            return 0
        workers = [worker["resources"] for worker in self._tasks.workers(self._compiled).values()]
        only_compile = sum(int(each[self._built_by]) for each in workers if not each.get(RESOURCE))
        measure = sorted(int(each[self._built_by]) for each in workers if each.get(RESOURCE))
        idle = len(self._tasks.workers(self._timed)) - self._tasks.pending(self._timed)
        return only_compile + sum(measure[: max(0, idle)])

    @property
    def lowers(self) -> bool:
        """True unless only this machine measures: its builders wait for timings, but lowering here does not."""
        return not self._measures_here or self.machines > 1

    def build(self, job: Program | Lowering, *, timeout: float) -> CompiledProgram | Lowered | Failed | None:
        """Compile on a machine that is not timing. See `Runner`."""
        if not self._builds or not self._tasks.workers(self._compiled):
            return None
        shipped = dataclasses.replace(job, target=job.target.explicit) if isinstance(job, Program) else job
        try:
            built: CompiledProgram | Lowered | Failed | None = self._tasks.ask(
                self._compiled, "build", shipped, timeout
            )
        except MeasureError:
            return None
        if built is None:
            return GIVEN_UP
        if isinstance(built, Failed):
            # If several workers died, that is not the program's fault.
            return None if built.kind == FailureKind.CRASH else built
        if isinstance(job, Program) and isinstance(built, CompiledProgram):
            return built._replace(target=job.target)
        return built

    def building_here(self, given_up: Callable[[], bool]) -> contextlib.AbstractContextManager[None]:
        """Wait while a worker on this machine times. See `Runner`."""
        return building(given_up, timeout=self._timeout) if self._measures_here else contextlib.nullcontext()

    @property
    def host(self) -> str:
        """The kind of the machines."""
        return self._kind.name

    def check_target(self, target: Target) -> None:
        """Raise `MeasureError` if the machines do not run code for the target. See `Runner`."""
        self._kind.check_target(target)

    def run(self, program: CompiledProgram, *, best: float = math.inf) -> Result:
        """Check and time one candidate on some machine. See `pegbox.measure.Runner`."""
        self.check_target(program.target)
        self._kind.check_threads(program.num_threads)
        found: Result = self._tasks.ask(self._timed, "run", program, best) or RUN_GIVEN_UP
        return found

    def rerun(self, programs: Sequence[CompiledProgram]) -> list[Result]:
        """Time candidates in turns, all on the same machine; if workers keep ending with them, time each alone."""
        found: list[Result] | Failed | None = self._tasks.ask(self._timed, "rerun", list(programs))
        if isinstance(found, Failed):
            return [self.run(program) for program in programs]
        return found or [RUN_GIVEN_UP] * len(programs)

    def time_numpy(self, program: NumpyProgram, *, threads: int) -> Sequence[float] | None:
        """Time NumPy on one of the machines. See `Runner`."""
        found: Sequence[float] | Failed | None = self._tasks.ask(self._timed, "time_numpy", program, threads)
        return None if isinstance(found, Failed) else found

    def roofline(self, dtype: str, nbytes: int, target: Target) -> Roofline | None:
        """Measure the limits of one of the machines. See `Runner`."""
        if not self._kind.llvm:
            return None
        found: Roofline | Failed | None = self._tasks.ask(self._timed, "roofline", dtype, nbytes, target)
        return None if isinstance(found, Failed) else found

    def interrupt(self) -> None:
        """Withdraw queued candidates and give up those being measured."""
        self._tasks.give_up()

    def close(self) -> None:
        """Leave the cluster unchanged; end one that was started here."""
        self._owned.close()


_compared: set[tuple[str, frozenset[str]]] = set()
"""The schedulers and workers that this process has compared, as a search of a model opens a runner for each round."""


def _compare(client: Client, workers: Collection[str]) -> None:
    """Warn if equal machines are not equally fast, once for the same workers."""
    key = client.scheduler.address, frozenset(workers)
    if key not in _compared:
        _warn_of_spread(speeds(client, workers).values())
        _compared.add(key)


def _warn_of_spread(found: Iterable[float]) -> None:
    rates = [rate for rate in found if rate]
    if rates and (apart := max(rates) / min(rates) - 1) > APART:
        warnings.warn(
            f"equal machines of the cluster differ by {apart:.0%} on a fixed kernel ({min(rates):.4g} to "
            f"{max(rates):.4g} GFLOP/s of a core): smaller differences of costs mean nothing. The best are measured "
            "again on one of them; 'pegbox cluster' shows which is slow",
            RuntimeWarning,
            stacklevel=users_level(),
        )
