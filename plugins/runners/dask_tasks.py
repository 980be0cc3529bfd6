"""`Tasks`: the tasks of one client on a Dask cluster, from the submission to the result."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import math
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from distributed import CancelledError, Client, Future, KilledWorker, TimeoutError

from pegbox.errors import MeasureError
from pegbox.hooks import users_level
from pegbox.measure import Failed, FailureKind
from pegbox.plugins.runners.dask_client import address_of
from pegbox.plugins.runners.dask_worker import UnfitWorker, WorkerState, give_up, perform

_POLL_SECONDS = 1.0
_LOOK_SECONDS = 0.01
_BRIEF_SECONDS = 5.0
_ANSWER_SECONDS = 5.0
"""The seconds for the scheduler to describe the cluster: if it hangs, this machine's own work must continue."""

_LEASE_SECONDS = 30.0
"""The seconds for the scheduler to take a first task.

A busy one needs some, but a hanging one must not block the search.
"""

_ATTEMPTS = 2
"""The number of times to submit a task to Dask.

It gives up when four workers have died with it, but they may have been killed.
"""

_UNPLACED = 3
"""The number of looks that find a task on none of the existing workers until it is submitted again.

Dask does not look again when a worker gets a resource after it has joined.
"""


@dataclass(frozen=True, eq=False)
class Where:
    """The workers that may run a task: those with all of `resources`. While there is none, the task waits `patience`
    seconds; if several tasks wait on a worker, those of higher `priority` go first.
    """

    resources: Mapping[str, float]
    patience: float
    priority: int = 0

    def admits(self, worker: Mapping[str, Any]) -> bool:
        """Decide if a worker has the resources, by the scheduler's description."""
        return all(worker["resources"].get(name, 0) >= amount for name, amount in self.resources.items())


class Tasks:
    """The tasks of one search or comparison, which call methods of a `WorkerState` on the workers.

    Args:
        start: the command that starts a worker, for messages.
        resume: the way to continue when the cluster is available again.

    Raises `MeasureError` if the scheduler does not answer, or a worker cannot take the state.
    """

    def __init__(self, client: Client, state: WorkerState, *, start: str, resume: str) -> None:
        self._start, self._resume = start.format(address=address_of(client)), resume
        self._client, self._name = client, state.name
        self._turn, self._closed = 0, False
        self._running: dict[Future, Where] = {}
        self._lock, self._looking, self._suspects = threading.Lock(), threading.Lock(), threading.Lock()
        self._seen: tuple[float, Mapping[str, Any], Mapping[str, Any]] = (-math.inf, {}, {})
        self._unfit: set[str] = set()
        self._last_unfit: UnfitWorker | None = None
        # No worker has this resource, because Dask would not retire a worker that holds a result.
        self._lease: Future = client.submit(_never, key=state.name, pure=False, resources={state.name: 1})
        try:
            self._await_lease()
            client.register_plugin(state, name=state.name)
        except BaseException as error:
            self.close()
            if not isinstance(error, Exception) or isinstance(error, MeasureError):
                raise
            raise MeasureError(
                f"a worker of the cluster ended when it received the data of its tasks, or cannot use them "
                f"({type(error).__name__}: {error}); its log says more: its memory (dask worker --memory-limit) must "
                "have room for the inputs, outputs and recorded spaces, and its packages must be those of this process"
            ) from error

    def _await_lease(self) -> None:
        """Wait until the scheduler knows the lease. A worker that looks for it earlier would leave at once.

        Raises `MeasureError` if that takes longer than `_LEASE_SECONDS`.
        """
        ask, key = self._client.scheduler.get_task_status, self._lease.key

        async def known() -> None:
            while not self._lease.done() and (await ask(keys=[key]))[key] is None:
                await asyncio.sleep(_LOOK_SECONDS)

        try:
            self._client.sync(known, callback_timeout=_LEASE_SECONDS)
        except TimeoutError:
            raise MeasureError(
                f"the scheduler at {address_of(self._client)} has not taken a task for {_LEASE_SECONDS:g} s: it hangs, "
                f"or is overloaded; start it and its workers again{self._resume}"
            ) from None

    def workers(self, where: Where) -> Mapping[str, Any]:
        """Describe the workers that may run such tasks, by address, at most a second out of date."""
        return {address: worker for address, worker in self._look()[0].items() if where.admits(worker)}

    def pending(self, where: Where) -> int:
        """Count such tasks in progress."""
        return list(self._running.values()).count(where)

    def ask(self, where: Where, method: str, *arguments: object) -> Any:
        """Call a method of the state on a worker and return its result; None if it was given up, `Failed` if workers
        kept ending with it.

        Raises `MeasureError` if the scheduler is gone, no worker is left, or a worker cannot do the job.
        """
        turn = self._turn
        for attempt in range(_ATTEMPTS):
            # A task that waited on a worker whose candidate ended it is a suspect, too, until it runs alone.
            with self._suspects if attempt else contextlib.nullcontext():
                try:
                    return self._answer(where, turn, method, arguments)
                except KilledWorker as error:
                    died = error
                except MeasureError:
                    if self._closed or turn != self._turn:
                        return None
                    raise
        return Failed(FailureKind.CRASH, f"several workers ended while they had the candidate: {died}")

    def give_up(self) -> None:
        """Withdraw the queued tasks, and end the running ones."""
        with self._lock:
            self._turn += 1
            futures = list(self._running)
        with contextlib.suppress(Exception):  # a cluster that is gone runs no tasks
            if futures and self._client.status == "running":
                briefly(lambda: self._client.cancel(futures))
                briefly(lambda: self._client.run(give_up, self._name, self._turn, on_error="ignore"))

    def close(self) -> None:
        """Give up for good, and remove the state from the workers; harmless when done twice."""
        with self._lock:
            closed, self._closed = self._closed, True
        if closed:
            return
        self.give_up()
        if self._client.status == "running":
            self._lease.release()
            briefly(lambda: self._client.unregister_worker_plugin(self._name))

    def _answer(self, where: Where, turn: int, method: str, arguments: tuple[object, ...]) -> Any:
        """Submit the task until a worker has done it."""
        stuck: float | None = None
        while True:
            future = self._submit(where, turn, method, arguments)
            with self._lock:
                self._running[future] = where
            try:
                answer, unplaced = self._gathered(future), 0
                while unplaced < _UNPLACED:
                    if concurrent.futures.wait([answer], timeout=_POLL_SECONDS).done:
                        return self._read(answer)
                    workers = self._working(where)
                    if workers and (future.done() or future.key in self._placed(workers)):
                        stuck, unplaced = None, 0
                        continue
                    # Tasks without resources wait at the scheduler until a worker is free.
                    unplaced = unplaced + 1 if workers and where.resources else 0
                    stuck = stuck or time.monotonic()
                    if time.monotonic() - stuck > where.patience and unplaced in (0, _UNPLACED):
                        raise self.stuck(len(workers), where.patience)
                self._client.cancel(future)
            except UnfitWorker as error:
                self._set_aside(where, error)
            finally:
                with self._lock:
                    del self._running[future]
                future.release()  # otherwise Dask would measure it again if the worker with the result died

    def _submit(self, where: Where, turn: int, method: str, arguments: tuple[object, ...]) -> Future:
        options = {"pure": False, "resources": dict(where.resources), "priority": where.priority}
        try:
            return self._client.submit(perform, self._name, turn, method, *arguments, **options)
        except Exception as error:
            raise self._gone(error) from error

    def _gathered(self, future: Future) -> concurrent.futures.Future[Any]:
        """Return the result once it is available.

        `future.result(timeout)` does not suit several threads: if it times out for one, Dask discards the others'
        results.
        """

        async def gather() -> Any:
            return await self._client.gather(future, asynchronous=True)

        try:
            return asyncio.run_coroutine_threadsafe(gather(), self._client.loop.asyncio_loop)
        except RuntimeError as error:  # the client was closed
            raise self._gone(error) from error

    def _read(self, answer: concurrent.futures.Future[Any]) -> Any:
        try:
            return answer.result()
        except (MeasureError, KilledWorker):
            raise
        # The error's text would advise running everything again.
        except (CancelledError, concurrent.futures.CancelledError) as error:
            raise self._gone() from error
        except Exception as error:
            raise MeasureError(f"a worker of the cluster cannot do its job: {type(error).__name__}: {error}") from error

    def _working(self, where: Where) -> Mapping[str, Any]:
        """Return the workers that may run such tasks.

        Raises `MeasureError` if the scheduler is gone, or none can do the job any more.
        """
        self.check_client()
        workers = self.workers(where) if self._client.status == "running" else {}
        if not workers and self._last_unfit is not None:  # other tasks wait for the last worker
            raise self._last_unfit
        return workers

    def _set_aside(self, where: Where, error: UnfitWorker) -> None:
        """Continue without a worker that has given up its resource. Raises its error if no other worker is left."""
        with self._looking:
            known = error.address in self._unfit
            self._unfit.add(error.address)
            self._seen = (-math.inf, {}, {})
        if not self.workers(where).keys() - self._unfit:
            self._last_unfit = error
            raise error
        if not known:
            warnings.warn(f"{error}; the search goes on with other workers", RuntimeWarning, stacklevel=users_level())

    def check_client(self) -> None:
        """Raise `MeasureError` if the scheduler is gone."""
        if self._client.status in ("closed", "closing"):
            raise self._gone()

    def _gone(self, error: Exception | None = None) -> MeasureError:
        why = " ".join(str(error or "").split())
        return MeasureError(
            f"the scheduler at {address_of(self._client)} is gone{f' ({why})' if why else ''}; start it and its "
            f"workers again{self._resume}"
        )

    def stuck(self, workers: int, seconds: float) -> MeasureError:
        """Explain that no worker has taken a task for so long; `workers` is the number of those that may."""
        why = (
            f"the cluster's {workers} workers took none of the tasks for {seconds:g} s; perhaps they are paused, as "
            "their memory is full (dask worker --memory-limit); Dask's page shows it: free some, or start other "
            "workers"
            if workers
            else f"the cluster has had no worker for these tasks for {seconds:g} s, or its scheduler hangs; start "
            f"some ({self._start})"
        )
        return MeasureError(f"{why}{self._resume}")

    def _placed(self, workers: Mapping[str, Any]) -> set[Any]:
        """Return the keys of the tasks on the workers. One on a worker that has given up its resource stays there."""
        tasks = self._look()[1]
        return {key for address in workers for key in tasks.get(address, ())}

    def _look(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the workers and the tasks on them, by address, as they were less than `_POLL_SECONDS` ago."""
        with self._looking:
            asked, workers, tasks = self._seen
            if time.monotonic() - asked > _POLL_SECONDS:
                workers, tasks = {}, {}
                # The waiting threads notice a cluster that is gone or hangs.
                with contextlib.suppress(Exception):
                    scheduler, limit = self._client.scheduler, _ANSWER_SECONDS
                    tasks = self._client.sync(scheduler.processing, workers=None, callback_timeout=limit)
                    workers = self._client.scheduler_info(n_workers=-1)["workers"]
                self._seen = time.monotonic(), workers, tasks
            return workers, tasks


def briefly(call: Callable[[], object]) -> None:
    """Call all workers, without waiting for one that hangs, or failing if the cluster is gone."""

    def suppressed() -> None:
        with contextlib.suppress(Exception):
            call()

    thread = threading.Thread(target=suppressed, name="pegbox-briefly", daemon=True)
    thread.start()
    thread.join(_BRIEF_SECONDS)


def _never() -> None:
    """Do nothing: the task of a lease, which the scheduler knows as long as its client exists."""
