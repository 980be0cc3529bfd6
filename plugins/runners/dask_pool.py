"""The pool that makes a comparison's runs on a Dask cluster: on each worker, as many as it has threads.

A run needs only a core of its machine, so that workers without the resource "pegbox" make runs, too. On each worker,
runs have their own processes (`pegbox.comparison.LocalPool`), so that a tuner's crash does not end the worker.
"""

from __future__ import annotations

import contextlib
import math
import platform
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from distributed import Worker

from pegbox.comparison import LocalPool, RunSpec
from pegbox.errors import MeasureError
from pegbox.measure import Failed
from pegbox.plugins.runners.dask_client import address_of, await_worker, connected
from pegbox.plugins.runners.dask_tasks import Tasks, Where
from pegbox.plugins.runners.dask_worker import WorkerState

if TYPE_CHECKING:
    from distributed import Client

START = "dask worker {address} --nthreads 1"
"""The command that starts a worker for runs, one at a time."""

_MOST_RUNS = 10_000

_PACKAGES = ("pegbox", "numpy", "scipy", "xgboost")
"""The packages on which tuners' proposals depend."""


class ComparisonState(WorkerState):
    """The processes of a worker that make runs."""

    def __init__(self, name: str, payload: bytes, versions: Mapping[str, str]) -> None:
        super().__init__(name)
        self._payload, self._versions = payload, versions

    async def setup(self, worker: Worker) -> None:
        """See `WorkerState`."""
        self._pool = LocalPool(self._payload, worker.state.nthreads)
        await super().setup(worker)

    def run(self, turn: int, spec: RunSpec) -> bytes:
        """Make a run here; see `LocalPool.run`."""
        if (own := versions()) != self._versions:
            raise MeasureError(_differing({platform.node(): own}, self._versions))
        return self._pool.run(spec)

    def close(self) -> None:
        """See `WorkerState`."""
        self._pool.close()


class DaskPool:
    """A pool that makes runs on all workers of a cluster; see `pegbox.comparison.RunPool`.

    Args:
        payload: the comparison; it goes to each worker once.
        scheduler: its address, or a `distributed.Client`, which stays open.
        patience: seconds to wait for a worker when none is left; for the first one, at most 10.

    Raises `MeasureError` if no scheduler answers, there is no worker, or versions differ.
    """

    def __init__(self, payload: bytes, *, scheduler: Any, patience: float = 60.0) -> None:
        self._where = Where({}, math.inf)  # `jobs` ends the wait for all runs at once
        self._patience, self._seen = patience, time.monotonic()
        with contextlib.ExitStack() as owned:
            client = owned.enter_context(connected(scheduler))
            await_worker(client, patience=patience, start=f"start some: {START.format(address=address_of(client))}")
            if other := {worker: has for worker, has in _found(client).items() if has != versions()}:
                raise MeasureError(_differing(other, versions()))
            state = ComparisonState(f"pegbox-runs-{uuid.uuid4().hex}", payload, versions())
            self._tasks = Tasks(client, state, start=START, resume="")
            owned.callback(self._tasks.close)
            self._threads = ThreadPoolExecutor(_MOST_RUNS, thread_name_prefix="pegbox-run")
            owned.callback(self._threads.shutdown, wait=False, cancel_futures=True)
            self._owned = owned.pop_all()

    @property
    def jobs(self) -> int:
        """The number of threads of all workers.

        Raises `MeasureError` if the scheduler is gone, or no worker appears for long.
        """
        self._tasks.check_client()
        now, workers = time.monotonic(), self._tasks.workers(self._where).values()
        if workers:
            self._seen = now
        elif now - self._seen > self._patience:
            raise self._tasks.stuck(0, self._patience)
        threads: int = sum(worker["nthreads"] for worker in workers)
        return max(1, threads)

    def submit(self, spec: RunSpec) -> Future[bytes]:
        """Make a run on some worker; Dask gives it to another one if that one dies."""
        return self._threads.submit(self._run, spec)

    def close(self) -> None:
        """Leave the cluster unchanged."""
        self._owned.close()

    def _run(self, spec: RunSpec) -> bytes:
        found: bytes | Failed | None = self._tasks.ask(self._where, "run", spec)
        if isinstance(found, bytes):
            return found
        raise MeasureError("the comparison has ended" if found is None else found.message)


def versions() -> dict[str, str]:
    """List the versions that must be equal in both places."""
    return {"Python": platform.python_version(), **{package: version(package) for package in _PACKAGES}}


def _found(client: Client) -> Mapping[str, Any]:
    """Return the versions of each worker, or the error if it has no pegbox."""
    found: Mapping[str, Any] = client.run(versions, on_error="return")
    return found


def _differing(found: Mapping[str, Any], here: Mapping[str, str]) -> str:
    listed = "".join(f"\n  {worker}: {_shown(has)}" for worker, has in found.items())
    return f"workers have other versions than this process ({_shown(here)}); install the same there:{listed}"


def _shown(versions: Any) -> str:
    if isinstance(versions, Mapping):
        return ", ".join(f"{name} {number}" for name, number in versions.items())
    return f"{type(versions).__name__}: {versions}"
