"""The pool that makes runs of a comparison on a Dask cluster: as many on each worker as it has threads.

A run needs nothing of its machine but a core, so that workers without the resource "pegbox" make runs, too. On each
worker they are made in processes (`pegbox.comparison.pool.LocalPool`): a tuner that crashes takes no worker with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from distributed import KilledWorker, TimeoutError, Worker, get_worker

from pegbox.comparison import LocalPool, RunSpec
from pegbox.errors import MeasureError
from pegbox.plugins.runners.dask_client import address_of, await_worker, connected
from pegbox.plugins.runners.dask_lease import Lease, LeasedPlugin

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as DaskFuture

_FETCH_SECONDS = 2.0

START = "dask worker {address} --nthreads 1"
"""What starts a worker that makes runs, one at a time."""

_PACKAGES = ("pegbox", "numpy", "scipy", "xgboost")
"""What proposals of tuners depend on."""


class Host(LeasedPlugin):
    """The processes of a worker that make runs. Dask gives it to every worker, also to those that join later."""

    def __init__(self, name: str, payload: bytes, versions: Mapping[str, str]) -> None:
        self.name, self._payload, self._versions = name, payload, versions

    async def setup(self, worker: Worker) -> None:
        """Called by Dask where the worker is."""
        self._pool = LocalPool(self._payload, worker.state.nthreads)
        await super().setup(worker)

    async def teardown(self, worker: Worker) -> None:
        """Called by Dask when the client says so, and when the worker ends."""
        await super().teardown(worker)
        await asyncio.to_thread(self._pool.close)

    def run(self, spec: RunSpec) -> bytes:
        """Make a run here; see `pegbox.comparison.run_job.run`."""
        if (own := versions()) != self._versions:
            raise MeasureError(_differing({platform.node(): own}, self._versions))
        return self._pool.run(spec)


class DaskPool:
    """Makes runs on all workers of a cluster; see `pegbox.comparison.pool.RunPool`.

    Args:
        payload: of the experiment; it goes to each worker once.
        scheduler: its address, or a `distributed.Client`, which stays open.
        patience: seconds to wait for a worker when there is none any more; for the first one no more than 10.

    Raises `MeasureError` where no scheduler answers, there is no worker, or versions differ.
    """

    def __init__(self, payload: bytes, *, scheduler: Any, patience: float = 60.0) -> None:
        self._name = f"pegbox-runs-{uuid.uuid4().hex}"
        self._patience, self._seen = patience, time.monotonic()
        self._running: list[DaskFuture] = []  # Dask forgets those that nobody holds
        self._closed = False
        self._owned = contextlib.ExitStack()
        try:
            self._client = self._owned.enter_context(connected(scheduler))
            self._check_workers()
            self._owned.callback(Lease(self._client, Host(self._name, payload, versions())).close)
        except BaseException:
            self._owned.close()
            raise

    @property
    def jobs(self) -> int:
        """The threads of all workers. Raises `MeasureError` without the scheduler, or where they stay away."""
        if self._client.status in ("closed", "closing"):
            raise MeasureError(f"the scheduler at {address_of(self._client)} is gone")
        workers = self._client.scheduler_info(n_workers=-1)["workers"] if self._client.status == "running" else {}
        now = time.monotonic()
        if workers:
            self._seen = now
        elif now - self._seen > self._patience:
            raise MeasureError(
                f"the cluster has had no worker for {self._patience:g} s; start some "
                f"({START.format(address=address_of(self._client))})"
            )
        threads: int = sum(worker["nthreads"] for worker in workers.values())
        return max(1, threads)

    def submit(self, spec: RunSpec) -> Future[bytes]:
        """Make a run on some worker; Dask gives it to another one where that one dies."""
        try:
            asked = self._client.submit(make_run, self._name, spec, pure=False)
        except Exception as error:
            raise MeasureError(f"the scheduler at {address_of(self._client)} is gone ({error})") from error
        answer: Future[bytes] = Future()
        answer.set_running_or_notify_cancel()
        self._running.append(asked)
        asked.add_done_callback(lambda done: self._take(done, answer))
        return answer

    def close(self) -> None:
        """Leave the cluster as it was."""
        self._closed = True
        with contextlib.suppress(Exception):  # a cluster that is gone makes no runs
            if self._client.status == "running":
                self._client.cancel(self._running)
        self._owned.close()

    def _take(self, done: DaskFuture, answer: Future[bytes]) -> None:
        """Called by Dask, on one thread for all runs: it must not wait long."""
        try:
            answer.set_result(done.result(timeout=_FETCH_SECONDS))
        except TimeoutError:  # its worker died with the answer: it is made again
            if not self._closed:
                done.add_done_callback(lambda done: self._take(done, answer))
        except MeasureError as error:
            answer.set_exception(error)
        except KilledWorker as error:
            answer.set_exception(MeasureError(f"several workers ended while they made the run: {error}"))
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
            answer.set_exception(MeasureError(f"the cluster at {address_of(self._client)} lost the run ({told})"))

    def _check_workers(self) -> None:
        start = f"start some: {START.format(address=address_of(self._client))}"
        await_worker(self._client, patience=self._patience, start=start)
        if other := {worker: has for worker, has in _found(self._client).items() if has != versions()}:
            raise MeasureError(_differing(other, versions()))


def versions() -> dict[str, str]:
    """List the versions that must be equal here and there."""
    return {"Python": platform.python_version(), **{package: version(package) for package in _PACKAGES}}


def _found(client: Client) -> Mapping[str, Any]:
    """The versions of each worker, or the error where it has no pegbox."""
    found: Mapping[str, Any] = client.run(versions, on_error="return")
    return found


def make_run(name: str, spec: RunSpec) -> bytes:
    """The task that makes a run."""
    try:
        host: Host = get_worker().plugins[name]
    except KeyError:
        raise MeasureError(f"{platform.node()} makes no runs of this comparison: it has ended") from None
    return host.run(spec)


def _differing(found: Mapping[str, Any], here: Mapping[str, str]) -> str:
    listed = "".join(f"\n  {worker}: {_shown(has)}" for worker, has in found.items())
    return f"workers have other versions than this process ({_shown(here)}); install the same there:{listed}"


def _shown(versions: Any) -> str:
    if isinstance(versions, Mapping):
        return ", ".join(f"{name} {number}" for name, number in versions.items())
    return f"{type(versions).__name__}: {versions}"
