"""The runner "dask": measures candidates on the machines of a Dask cluster, one at a time on each."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pegbox.errors import ArgumentError, MeasureError
from pegbox.measure.bench import Bench
from pegbox.measure.cores import CorePlan
from pegbox.measure.result import Failed, FailureKind, Result
from pegbox.measure.timing import TimingPolicy
from pegbox.origin import users_level
from pegbox.plugins.runners.machine import Kind, Machine, one_kind

if TYPE_CHECKING:
    from distributed import Client, Future

    from pegbox.codegen import CompiledProgram, Target

_CONNECT_SECONDS = 10.0
_SPEED_SECONDS = 30.0
_POLL_SECONDS = 1.0
_ATTEMPTS = 2
"""Dask gives a task up when four workers have died with it. So often it is asked anew: they may have been killed."""

_UNPLACED = 3
"""Looks at which a task is on no worker although there are some. Dask does not look again for one when a worker gets
the resource of its kind after it has joined."""

APART = 0.03
"""By what share machines may differ on the fixed kernel before a search says so."""

START = "dask worker {address} --nthreads 1 --resources pegbox=1"
"""What starts a worker that measures."""


class _Unplaced(Exception):
    """A task is on no worker, and stays so."""


@dataclass(frozen=True)
class _Sight:
    """The workers that measure, by address, and the keys of the tasks that are on a worker."""

    workers: tuple[str, ...] = ()
    placed: frozenset[Any] = frozenset()


class DaskRunner:
    """Runs candidates on the workers of a Dask cluster that have the resource "pegbox", each on one at a time.

    Args:
        bench, timing, cores, max_memory: as of every runner. The cores are those of each worker's machine, and the
            memory is no more than that machine's share.
        scheduler: its address, such as "tcp://host:8786", or a `distributed.Client`; without, a cluster of one worker
            on this machine is started.
        host: a part of the name of the machines to measure on, or of their processor's.
        patience: seconds to wait for a worker when there is none any more.

    Raises `MeasureError` where no scheduler answers, no worker can measure, or machines or versions differ.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        timing: TimingPolicy,
        cores: CorePlan,
        max_memory: int | None = None,
        scheduler: Any = None,
        host: str | None = None,
        patience: float = 60.0,
    ) -> None:
        self._patience = patience
        self._name = f"pegbox-{uuid.uuid4().hex}"
        self._numbers = itertools.count(1)
        self._number = 0
        self._running: set[Future] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._seen: tuple[float, _Sight] = (-math.inf, _Sight())
        self._looking = threading.Lock()
        self._owned = contextlib.ExitStack()
        try:
            self._client: Client = self._owned.enter_context(connected(scheduler))
            found = find_machines(self._client)
            self._kind = one_kind([m for m in found if m.measures], here=Kind.own(), chosen=host)[0].kind
            self._set_up(bench, timing, max_memory, host)
        except BaseException:
            self._owned.close()
            raise

    @property
    def machines(self) -> int:
        """How many workers measure now. See `pegbox.measure.runner.ClusterRunner`."""
        return max(1, len(self._sight().workers))

    @property
    def host(self) -> str:
        """The kind of the machines."""
        return self._kind.name

    def run(self, program: CompiledProgram, *, best: float = math.inf) -> Result:
        """Check and time one candidate on some machine. See `pegbox.measure.Runner`."""
        from pegbox.plugins.runners import dask_worker

        self._check_target(program.target)
        found: Result = self._ask(dask_worker.run, program, best) or dask_worker.given_up()
        return found

    def rerun(self, programs: Sequence[CompiledProgram]) -> list[Result]:
        """Time candidates in turns, all of them on the same machine."""
        from pegbox.plugins.runners import dask_worker

        found: list[Result] | Failed = self._ask(dask_worker.rerun, list(programs)) or dask_worker.given_up()
        return [found] * len(programs) if isinstance(found, Failed) else found

    def interrupt(self) -> None:
        """Take back what is queued and give up what is measured."""
        from pegbox.plugins.runners import dask_worker

        with self._lock:
            self._number = next(self._numbers)
            futures = list(self._running)
        with contextlib.suppress(Exception):  # a cluster that is gone runs nothing
            if futures and self._client.status == "running":
                self._client.cancel(futures)
                self._client.run(dask_worker.give_up, self._name, self._number, on_error="ignore")

    def close(self) -> None:
        """Leave the cluster as it was; one that was started here ends."""
        with self._lock:
            closed, self._closed = self._closed, True
        if closed:
            return
        self.interrupt()
        with contextlib.suppress(Exception):
            if self._client.status == "running":
                self._client.unregister_worker_plugin(self._name)
        self._owned.close()

    def _set_up(self, bench: Bench, timing: TimingPolicy, max_memory: int | None, host: str | None) -> None:
        from pegbox.plugins.runners.dask_worker import RESOURCE, Station, kind_resource

        station = Station(bench, timing, max_memory=max_memory, kind=self._kind, chosen=host)
        self._resources = {RESOURCE: 1, kind_resource(self._kind): 1}
        self._client.register_plugin(station, name=self._name)
        self._warn_of_spread()

    def _sight(self) -> _Sight:
        """The cluster as it was less than `_POLL_SECONDS` ago."""
        with self._looking:
            asked, sight = self._seen
            if time.monotonic() - asked > _POLL_SECONDS:
                sight = self._look()
                self._seen = time.monotonic(), sight
            return sight

    def _look(self) -> _Sight:
        try:
            workers: Mapping[str, Any] = self._client.scheduler_info()["workers"]
            placed = frozenset(itertools.chain.from_iterable(self._client.processing().values()))
        except Exception:  # it is gone, which is found out where results are awaited
            return _Sight()
        able = [address for address, worker in workers.items() if self._resources.keys() <= worker["resources"].keys()]
        return _Sight(tuple(able), placed)

    def _warn_of_spread(self) -> None:
        rates = [rate for rate in speeds(self._client, self._sight().workers).values() if rate]
        if rates and (apart := max(rates) / min(rates) - 1) > APART:
            warnings.warn(
                f"equal machines of the cluster differ by {apart:.0%} on a fixed kernel ({min(rates):.4g} to "
                f"{max(rates):.4g} GFLOP/s of a core): costs that differ by less don't compare. The best are measured "
                "again on one of them; 'pegbox cluster' shows which is slow",
                RuntimeWarning,
                stacklevel=users_level(),
            )

    def _check_target(self, target: Target) -> None:
        here = Kind.own()
        if target.is_host_cpu and not set(here.features) <= set(self._kind.features):
            raise MeasureError(
                f"candidates are for this machine's processor ({here.llvm_cpu}), but the cluster's ({self._kind.cpu}) "
                f"lacks some of its instructions; tune with --target 'llvm -mcpu={self._kind.llvm_cpu}' (target=...)"
            )

    def _ask(self, job: Callable[..., Any], *arguments: object) -> Any:
        """What a task gives; None where it was given up."""
        from distributed import KilledWorker

        number, attempts = self._number, 0
        while attempts < _ATTEMPTS:
            future = self._submit(job, *arguments)
            with self._lock:
                self._running.add(future)
            try:
                return self._result(future)
            except KilledWorker as error:
                died, attempts = error, attempts + 1
            except _Unplaced:
                self._client.cancel(future)
            except MeasureError:
                if self._closed or number != self._number:
                    return None
                raise
            finally:
                with self._lock:
                    self._running.discard(future)
        return Failed(FailureKind.CRASH, f"several workers ended while they had the candidate: {died}")

    def _submit(self, job: Callable[..., Any], *arguments: object, **options: Any) -> Future:
        try:
            return self._client.submit(
                job, self._name, self._number, *arguments, pure=False, resources=self._resources, **options
            )
        except Exception as error:
            raise self._gone(error) from error

    def _result(self, future: Future) -> Any:
        from distributed import CancelledError, KilledWorker, TimeoutError

        lonely: float | None = None
        unplaced = 0
        while True:
            try:
                return future.result(timeout=_POLL_SECONDS)
            except TimeoutError:
                lonely = self._check_cluster(lonely)
                unplaced = 0 if lonely or future.done() or future.key in self._sight().placed else unplaced + 1
                if unplaced == _UNPLACED:
                    raise _Unplaced from None
            except (MeasureError, KilledWorker):
                raise
            except CancelledError as error:
                raise self._gone(error) from error
            except Exception as error:
                raise MeasureError(
                    f"a worker of the cluster cannot measure: {type(error).__name__}: {error}"
                ) from error

    def _check_cluster(self, lonely: float | None) -> float | None:
        """Since when there is no worker, if so. Raises `MeasureError` where it was too long, or without scheduler."""
        if self._client.status in ("closed", "closing"):
            raise self._gone(None)
        if self._client.status == "running" and self._sight().workers:
            return None
        now = time.monotonic()
        if lonely is not None and now - lonely > self._patience:
            raise MeasureError(
                f"the cluster has had no worker to measure on for {self._patience:g} s; start some "
                f"({START.format(address=_address(self._client))}), then go on with --resume (resume=True)"
            )
        return now if lonely is None else lonely

    def _gone(self, error: BaseException | None) -> MeasureError:
        return MeasureError(
            f"the scheduler at {_address(self._client)} is gone{f' ({error})' if error else ''}; what was measured is "
            "in the records: start it and its workers again, then go on with --resume (resume=True)"
        )


def connected(scheduler: Any) -> contextlib.AbstractContextManager[Client]:
    """A client of the scheduler, which leaving the context closes; one that was given stays open.

    Raises `MeasureError` where distributed is missing, or no scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise MeasureError(f"the runner 'dask' needs distributed: pip install 'pegbox[dask]' ({error})") from error
    if isinstance(scheduler, Client):
        return contextlib.nullcontext(scheduler)
    if scheduler is None:
        return _local_client()
    if not isinstance(scheduler, str):
        raise ArgumentError(
            f"scheduler={scheduler!r}: give its address, such as 'tcp://host:8786', or a distributed.Client"
        )
    return _remote_client(scheduler)


@contextlib.contextmanager
def _remote_client(address: str) -> Iterator[Client]:
    from distributed import Client
    from distributed.comm import resolve_address

    with contextlib.ExitStack() as stack:
        stack.enter_context(_quiet())
        try:
            resolve_address(address)  # a client that was made in vain takes long to end
            client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError, ImportError) as error:
            raise MeasureError(
                f"scheduler={address!r}: no Dask scheduler answers there ({error}); start one with 'dask scheduler', "
                "and give the address that it prints"
            ) from error
        yield stack.enter_context(client)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's tracebacks of lost connections off the terminal: what follows from them is said by errors."""
    loggers = [logging.getLogger(f"distributed.{name}") for name in ("client", "comm", "core", "utils")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def _local_client() -> Iterator[Client]:
    """A cluster of one worker on this machine."""
    from distributed import Client, LocalCluster

    from pegbox.plugins.runners.dask_worker import ignore_interrupts

    with (
        _quiet(),
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            resources={"pegbox": 1},
            memory_limit=0,  # kernels run in other processes, whose memory Dask does not see
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.run(ignore_interrupts)
        yield client


def find_machines(client: Client) -> list[Machine]:
    """The machines of a cluster's workers, those that don't measure too.

    Raises `MeasureError` where there is no worker, one that measures, or a worker without pegbox.
    """
    from distributed import TimeoutError

    from pegbox.plugins.runners.dask_worker import describe

    start = f"start one on each machine: {START.format(address=_address(client))}"
    try:
        client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
    except TimeoutError:
        raise MeasureError(f"the scheduler at {_address(client)} has no worker; {start}") from None
    found: Mapping[str, Any] = client.run(describe, on_error="return")
    if broken := {address: error for address, error in found.items() if not isinstance(error, Machine)}:
        listed = "".join(f"\n  {address}: {type(error).__name__}: {error}" for address, error in broken.items())
        raise MeasureError(f"workers that cannot use pegbox; install the same version there as here:{listed}")
    machines = sorted(found.values(), key=lambda machine: (machine.node, machine.address))
    if not any(machine.measures for machine in machines):
        raise MeasureError(
            f"none of the {len(machines)} workers at {_address(client)} has the resource 'pegbox', which says that a "
            f"machine may measure; {start}"
        )
    return machines


def speeds(client: Client, workers: Sequence[str]) -> dict[str, float]:
    """GFLOP/s of a core of each worker on one fixed kernel, measured on all at once; 0 where that is not known.

    A single worker is not asked: there is nothing to compare it with. Workers that measure are given by their address.
    """
    from pegbox.plugins.runners.dask_worker import RESOURCE, speed

    asked = {
        address: client.submit(speed, workers=[address], allow_other_workers=False, resources={RESOURCE: 1}, pure=False)
        for address in (workers if len(workers) > 1 else ())
    }
    rates: dict[str, float] = {}
    for address, future in asked.items():
        try:
            rates[address] = future.result(timeout=_SPEED_SECONDS)
        except Exception:  # it has gone, or measures for somebody else: the others are compared
            rates[address] = 0.0
    return rates


def _address(client: Client) -> str:
    scheduler = client.scheduler
    return str(scheduler.address if scheduler is not None else "its address")
