"""`Tasks`: what a search asks of a Dask cluster, from the submission to the result."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import math
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pegbox.errors import MeasureError
from pegbox.hooks import users_level
from pegbox.measure import Failed, FailureKind
from pegbox.plugins.runners.dask_broadcast import briefly
from pegbox.plugins.runners.dask_client import START, address_of

if TYPE_CHECKING:
    from distributed import Client, Future

_POLL_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
"""What the scheduler may take to say what there is: one that hangs must not keep what this machine does."""

_ATTEMPTS = 2
"""Dask gives a task up when four workers have died with it. So often it is asked anew: they may have been killed."""

_UNPLACED = 3
"""Looks at which a task is on no worker although there are some. Dask does not look again for one when a worker gets
the resource of its kind after it has joined."""


class UnfitWorker(MeasureError):
    """An error of a worker that can measure nothing, on a full disk for example; its tasks go to others."""

    def __init__(self, message: str, address: str = "") -> None:
        super().__init__(message)
        self.address = address


class _Unplaced(Exception):
    """A task is on no worker, and stays so."""


@dataclass(frozen=True)
class _Sight:
    """The resources, by address, of the workers that tasks can run on, and the keys of the tasks that are on one."""

    workers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    placed: frozenset[Any] = frozenset()


class Tasks:
    """The tasks of one search, which run on the workers that have all of `resources`.

    Args:
        name: of the worker plugin that the tasks use.
        resources: what each task takes of a worker.
        patience: seconds to wait for a worker when there is none any more.
        priority: of these tasks where several wait on a worker.
    """

    def __init__(
        self, client: Client, name: str, *, resources: Mapping[str, float], patience: float, priority: int = 0
    ) -> None:
        self._client, self._name, self._patience = client, name, patience
        self._resources, self._priority = dict(resources), priority
        self._numbers = itertools.count(1)
        self._number = 0
        self._running: set[Future] = set()
        self._lock = threading.Lock()
        self._suspects = threading.Lock()
        self._closed = False
        self._seen: tuple[float, _Sight] = (-math.inf, _Sight())
        self._looking = threading.Lock()
        self._unfit: set[str] = set()
        self._last_unfit: UnfitWorker | None = None

    @property
    def workers(self) -> Mapping[str, Mapping[str, float]]:
        """The resources of the workers that tasks can run on, by address, as of less than a second ago."""
        return self._sight().workers

    @property
    def pending(self) -> int:
        """The number of tasks on their way."""
        return len(self._running)

    def ask(self, job: Callable[..., Any], *arguments: object) -> Any:
        """Run `job(name, number, *arguments)` on a worker and return its result; None where it was given up. `number`
        is that of the turn, which `give_up` ends.

        Raises `MeasureError` where the scheduler is gone, no worker is left, or a worker cannot do the job.
        """
        from distributed import KilledWorker

        number, attempts, unplaced = self._number, 0, 0.0
        while attempts < _ATTEMPTS:
            # What waited on a worker beside a candidate that ends workers is suspected, too, until it is asked without.
            with self._suspects if attempts else contextlib.nullcontext():
                try:
                    return self._asked(job, number, *arguments)
                except KilledWorker as error:
                    died, attempts = error, attempts + 1
                except UnfitWorker as error:
                    self._set_aside(error)
                except _Unplaced:
                    unplaced += _UNPLACED * _POLL_SECONDS
                    self._check_placed(unplaced)
                except MeasureError:
                    if self._closed or number != self._number:
                        return None
                    raise
        return Failed(FailureKind.CRASH, f"several workers ended while they had the candidate: {died}")

    def _asked(self, job: Callable[..., Any], number: int, *arguments: object) -> Any:
        future = self._submit(job, number, *arguments)
        with self._lock:
            self._running.add(future)
        try:
            return self._result(future)
        except _Unplaced:
            self._client.cancel(future)
            raise
        finally:
            with self._lock:
                self._running.discard(future)
            future.release()  # else Dask would measure it again when the worker that has the result dies

    def give_up(self, job: Callable[..., Any]) -> None:
        """Take back what is queued, and end what runs, by `job(name, number)` on each worker."""
        with self._lock:
            self._number = next(self._numbers)
            futures = list(self._running)
        with contextlib.suppress(Exception):  # a cluster that is gone runs nothing
            if futures and self._client.status == "running":
                briefly(lambda: self._client.cancel(futures))
                briefly(lambda: self._client.run(job, self._name, self._number, on_error="ignore"))

    def close(self, job: Callable[..., Any]) -> bool:
        """Give up for good; whether that was to be done."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self.give_up(job)
        return not closed

    def _submit(self, job: Callable[..., Any], number: int, *arguments: object) -> Future:
        try:
            return self._client.submit(
                job,
                self._name,
                number,
                *arguments,
                pure=False,
                resources=self._resources,
                priority=self._priority,
            )
        except Exception as error:
            raise self._gone(error) from error

    def _result(self, future: Future) -> Any:
        lonely: float | None = None
        unplaced = 0
        answer = self._gathered(future)
        while not concurrent.futures.wait([answer], timeout=_POLL_SECONDS).done:
            lonely = self._check_cluster(lonely)
            unplaced = 0 if lonely or future.done() or future.key in self._sight().placed else unplaced + 1
            if unplaced == _UNPLACED:
                raise _Unplaced
        return self._read(answer)

    def _gathered(self, future: Future) -> concurrent.futures.Future[Any]:
        """The result once it is there. `future.result(timeout)` is none of several threads': where the time of one is
        over, Dask takes away what the others are about to be given."""

        async def gather() -> Any:
            return await self._client.gather(future, asynchronous=True)

        try:
            return asyncio.run_coroutine_threadsafe(gather(), self._client.loop.asyncio_loop)
        except RuntimeError as error:  # the client was closed
            raise self._gone(error) from error

    def _read(self, answer: concurrent.futures.Future[Any]) -> Any:
        from distributed import CancelledError, KilledWorker

        try:
            return answer.result()
        except (MeasureError, KilledWorker):
            raise
        except (CancelledError, concurrent.futures.CancelledError) as error:  # its text asks to run everything again
            raise self._gone(None) from error
        except Exception as error:
            raise MeasureError(f"a worker of the cluster cannot measure: {type(error).__name__}: {error}") from error

    def _check_cluster(self, lonely: float | None) -> float | None:
        """Since when there is no worker, if so. Raises `MeasureError` where it was too long, or without scheduler."""
        if self._client.status in ("closed", "closing"):
            raise self._gone(None)
        if self._client.status == "running" and self._sight().workers:
            return None
        if self._last_unfit is not None:  # other tasks wait for the worker that was the last one
            raise self._last_unfit
        now = time.monotonic()
        if lonely is not None and now - lonely > self._patience:
            raise MeasureError(
                f"the cluster has had no worker to measure on for {self._patience:g} s, or its scheduler hangs; start "
                f"some ({START.format(address=address_of(self._client))}), then go on with --resume (resume=True)"
            )
        return now if lonely is None else lonely

    def _check_placed(self, unplaced: float) -> None:
        """Raise `MeasureError` where a task was on no worker for too many seconds although there are some."""
        if unplaced > self._patience:
            raise MeasureError(
                f"the cluster's {len(self._sight().workers)} workers took none of the search's tasks for "
                f"{self._patience:g} s; they are paused, perhaps, because their memory is full (dask worker "
                "--memory-limit), which Dask's page tells: free some, or start other workers, then go on with "
                "--resume (resume=True)"
            )

    def _set_aside(self, error: UnfitWorker) -> None:
        """Go on without a worker that has given up its resource. Raises its error where no other worker is left."""
        with self._looking:
            known = error.address in self._unfit
            self._unfit.add(error.address)
            self._seen = (-math.inf, _Sight())
        if not self.workers.keys() - self._unfit:
            self._last_unfit = error
            raise error
        if not known:
            warnings.warn(f"{error}; the search goes on with other workers", RuntimeWarning, stacklevel=users_level())

    def _gone(self, error: BaseException | None) -> MeasureError:
        why = " ".join(str(error or "").split())
        return MeasureError(
            f"the scheduler at {address_of(self._client)} is gone{f' ({why})' if why else ''}; what was measured "
            "is in the records: start it and its workers again, then go on with --resume (resume=True)"
        )

    def _sight(self) -> _Sight:
        """The cluster as it was less than `_POLL_SECONDS` ago."""
        with self._looking:
            asked, sight = self._seen
            if time.monotonic() - asked > _POLL_SECONDS:
                sight = self._look()
                self._seen = time.monotonic(), sight
            return sight

    def _look(self) -> _Sight:
        client, limit = self._client, _ANSWER_SECONDS
        try:
            tasks: Mapping[str, Any] = client.sync(client.scheduler.processing, workers=None, callback_timeout=limit)
            workers: Mapping[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
        except Exception:  # it is gone or hangs, which is found out where results are awaited
            return _Sight()
        found = {address: worker["resources"] for address, worker in workers.items()}
        needed = self._resources
        fit = {a: there for a, there in found.items() if all(there.get(name, 0) >= n for name, n in needed.items())}
        # A task that waits on a worker which has given up its resource would wait for ever: it is on none.
        return _Sight(fit, frozenset(itertools.chain.from_iterable(tasks.get(address, ()) for address in fit)))
