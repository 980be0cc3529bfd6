"""The runner "dask": measures candidates on the machines of a Dask cluster, one at a time on each."""

from __future__ import annotations

import contextlib
import math
import platform
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_choice
from pegbox.codegen import Target
from pegbox.errors import ArgumentError
from pegbox.hooks import users_level
from pegbox.measure import RUN_GIVEN_UP, Bench, CorePlan, Failed, Result, Runner, TimingPolicy
from pegbox.plugins.runners.dask_builds import Builds
from pegbox.plugins.runners.dask_client import connected, dashboard_of
from pegbox.plugins.runners.dask_machines import APART, check_memory, find_machines, speeds
from pegbox.plugins.runners.dask_tasks import Tasks
from pegbox.plugins.runners.machine import RESOURCE, Kind, one_kind
from pegbox.plugins.runners.machine_lock import building
from pegbox.plugins.runners.tally import search_name

if TYPE_CHECKING:
    from distributed import Client

    from pegbox.codegen import CompiledProgram, Program
    from pegbox.comparison import RunPool
    from pegbox.compute import NumpyProgram
    from pegbox.measure import Roofline


class DaskRunner(Runner):
    """Runs candidates on the workers of a Dask cluster that have the resource "pegbox", each on one at a time.

    Args:
        bench, timing, cores, max_memory: as of every runner. The cores are those of each worker's machine, and the
            memory is no more than that machine's share.
        scheduler: its address, such as "tcp://host:8786", or a `distributed.Client`; without, a cluster of one worker
            on this machine is started.
        host: a part of the name of the machines to measure on, or of their processor's.
        target: the target, or its text, whose processor the machines must have, or whose code they run.
        patience: seconds to wait for a worker when there is none any more; for the first one no more than 10.
        builds: "cluster" to compile there, too, when this machine's cores are busy, or "here".

    Raises `MeasureError` where no scheduler answers, no worker can measure, or machines or versions differ.
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
        self._name, self._timeout = search_name(), timing.timeout
        self._owned = contextlib.ExitStack()
        try:
            self._client: Client = self._owned.enter_context(connected(scheduler))
            found = find_machines(self._client, patience=patience)
            chosen = one_kind([m for m in found if m.measures], here=Kind.own(), chosen=host, target=wanted)
            self._kind = chosen[0].kind
            self._measures_here = any(machine.node == platform.node() for machine in chosen)
            self._tasks = self._set_up(bench, timing, max_memory, host, patience)
            may_build = builds == "cluster" and self._kind.llvm
            self._builds = Builds(self._client, self._name, self._kind) if may_build else None
            if self._builds is not None:
                self._owned.callback(self._builds.close)
            self._dashboard = dashboard_of(self._client)
            self._warn_of_spread()
        except BaseException:
            self._owned.close()
            raise

    @staticmethod
    def run_pool(payload: bytes, *, scheduler: Any = None, patience: float = 60.0) -> RunPool:
        """The pool that makes runs of a comparison on the cluster (`compare(jobs="dask:scheduler=...")`)."""
        if scheduler is None:
            raise ArgumentError(
                "jobs='dask': say which cluster, as in 'dask:scheduler=tcp://host:8786'; processes of this "
                "machine need none: jobs=N"
            )
        from pegbox.plugins.runners.dask_pool import DaskPool

        return DaskPool(payload, scheduler=scheduler, patience=patience)

    @property
    def machines(self) -> int:
        """The number of workers that measure now. See `Runner`."""
        return max(1, len(self._tasks.workers))

    @property
    def where(self) -> str:
        """The number of machines, and the address of Dask's page on the cluster, if it has one. See `Runner`."""
        return super().where + (f" ({self._dashboard})" if self._dashboard else "")

    @property
    def compares(self) -> bool:
        """True if times there mean something. See `Runner`."""
        return not self._kind.emulated

    @property
    def cores(self) -> int:
        """The number of cores that a worker may use."""
        return self._kind.cores

    @property
    def builders(self) -> int:
        """The number of programs that the cluster compiles besides those that it times. See `Runner`."""
        if self._builds is None:
            return 0
        return self._builds.places(RESOURCE, len(self._tasks.workers) - self._tasks.pending)

    def build(self, program: Program, *, timeout: float) -> CompiledProgram | Failed | None:
        """Compile on a machine that is not timing. See `Runner`."""
        return None if self._builds is None else self._builds.build(program, timeout)

    def building_here(self, given_up: Callable[[], bool]) -> contextlib.AbstractContextManager[None]:
        """Waits while a worker on this machine times. See `Runner`."""
        return building(given_up, timeout=self._timeout) if self._measures_here else contextlib.nullcontext()

    @property
    def host(self) -> str:
        """The kind of the machines."""
        return self._kind.name

    def check_target(self, target: Target) -> None:
        """Raise `MeasureError` where the machines do not run code for the target. See `Runner`."""
        self._kind.check_target(target)

    def run(self, program: CompiledProgram, *, best: float = math.inf) -> Result:
        """Check and time one candidate on some machine. See `pegbox.measure.Runner`."""
        from pegbox.plugins.runners import dask_worker

        self.check_target(program.target)
        self._kind.check_threads(program.num_threads)
        found: Result = self._tasks.ask(dask_worker.run, program, best) or RUN_GIVEN_UP
        return found

    def rerun(self, programs: Sequence[CompiledProgram]) -> list[Result]:
        """Time candidates in turns, all of them on the same machine; when workers keep ending with them, each alone."""
        from pegbox.plugins.runners import dask_worker

        found: list[Result] | Failed | None = self._tasks.ask(dask_worker.rerun, list(programs))
        if isinstance(found, Failed):
            return [self.run(program) for program in programs]
        return found or [RUN_GIVEN_UP] * len(programs)

    def time_numpy(self, program: NumpyProgram, *, threads: int) -> Sequence[float] | None:
        """Seconds that NumPy takes on one of the machines. See `Runner`."""
        from pegbox.plugins.runners import dask_worker

        found: Sequence[float] | Failed | None = self._tasks.ask(dask_worker.time_numpy, program, threads)
        return None if isinstance(found, Failed) else found

    def roofline(self, dtype: str, nbytes: int, target: Target) -> Roofline | None:
        """The limits of one of the machines. See `Runner`."""
        if not self._kind.llvm:
            return None
        from pegbox.plugins.runners import dask_worker

        found: Roofline | Failed | None = self._tasks.ask(dask_worker.roofline, dtype, nbytes, target)
        return None if isinstance(found, Failed) else found

    def interrupt(self) -> None:
        """Take back what is queued and give up what is measured."""
        from pegbox.plugins.runners import dask_worker

        self._tasks.give_up(dask_worker.give_up)
        if self._builds is not None:
            self._builds.give_up()

    def close(self) -> None:
        """Leave the cluster as it was; one that was started here ends."""
        from pegbox.plugins.runners import dask_worker

        if self._tasks.close(dask_worker.give_up):
            self._owned.close()

    def _set_up(
        self, bench: Bench, timing: TimingPolicy, max_memory: int | None, host: str | None, patience: float
    ) -> Tasks:
        """Give the bench to the workers; the tasks that can use it there."""
        from pegbox.plugins.runners.dask_lease import Lease
        from pegbox.plugins.runners.dask_worker import Station, kind_resource

        check_memory(self._client, bench.nbytes)
        station = Station(self._name, bench, timing, max_memory=max_memory, kind=self._kind, chosen=host)
        self._owned.callback(Lease(self._client, station).close)
        resources = {RESOURCE: 1, kind_resource(self._kind): 1}
        return Tasks(self._client, self._name, resources=resources, patience=patience)

    def _warn_of_spread(self) -> None:
        rates = [rate for rate in speeds(self._client, self._tasks.workers).values() if rate]
        if rates and (apart := max(rates) / min(rates) - 1) > APART:
            warnings.warn(
                f"equal machines of the cluster differ by {apart:.0%} on a fixed kernel ({min(rates):.4g} to "
                f"{max(rates):.4g} GFLOP/s of a core): costs that differ by less don't compare. The best are measured "
                "again on one of them; 'pegbox cluster' shows which is slow",
                RuntimeWarning,
                stacklevel=users_level(),
            )
