"""`Pool`: processes that take jobs in turn, and are replaced if they die. `IdleTimer`: a timer that ends idle ones."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator

from pegbox.errors import MeasureError
from pegbox.workers.process import GivenUp, JobError, Worker


class IdleTimer:
    """A timer that calls `action` on its own thread, `seconds` after the last `restart` unless `stop` follows."""

    def __init__(self, seconds: float, action: Callable[[], object]) -> None:
        self._seconds, self._action = seconds, action
        self._lock = threading.Lock()
        self._end: float | None = None
        self._timer: threading.Timer | None = None

    def restart(self) -> None:
        """Count from now on. A waiting thread continues to wait, so that this costs next to nothing."""
        with self._lock:
            self._end = time.monotonic() + self._seconds
            if self._timer is None:
                self._wait(self._seconds)

    def stop(self) -> None:
        """Do nothing until the next `restart`."""
        with self._lock:
            self._end = None

    def _wait(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._look)
        self._timer.daemon = True
        self._timer.start()

    def _look(self) -> None:
        with self._lock:
            self._timer = None
            if self._end is None:
                return
            if (left := self._end - time.monotonic()) > 0:
                self._wait(left)
                return
        self._action()


class Pool:
    """A pool of processes for jobs; each job has a process for itself.

    Args:
        start: a function that starts the process of a place, from 0 to `size` - 1.
        size: the largest number of processes; each starts when a job needs it.
        guest: a place that takes jobs before all others, but none during the body of a `with pool.silence():`.
        idle: seconds without a job after which the processes end; the next job starts others.
    """

    def __init__(
        self, start: Callable[[int], Worker], size: int, *, guest: int | None = None, idle: float = math.inf
    ) -> None:
        self.size = size
        self._start, self._guest = start, guest
        self._changed = threading.Condition()
        self._free: dict[int, Worker | None] = dict.fromkeys(range(size))
        self._working: set[Worker] = set()
        self._silences = self._turn = 0
        self._closed = self._eager = False
        self._timer = IdleTimer(idle, self.end_idle) if idle < math.inf else None

    @property
    def turn(self) -> int:
        """The number of interruptions. A job of an earlier turn is given up."""
        return self._turn

    def start(self, count: int) -> None:
        """Start the processes of the first `count` places now, and replace them as soon as they die.

        Raises `OSError` if the system cannot create a process.
        """
        self._eager = True
        with self._changed:
            for place in self._free.keys() & range(count):
                self._free[place] = self._living(place)

    def wait_ready(self) -> None:
        """Wait until the processes without a job have started, or failed to; there must be only one job at a time."""
        for worker in list(self._free.values()):
            if worker is not None:
                with contextlib.suppress(MeasureError):  # nothing depends on it
                    worker.wait_ready()

    @contextlib.contextmanager
    def worker(self, turn: int | None = None) -> Iterator[Worker]:
        """Wait for a process, and use it for the body. A body that raises anything but a `JobError` ends the process.

        Raises `GivenUp` if an interruption comes before there is a process, or has come since `turn`, and
        `MeasureError` if none can be started.
        """
        place, worker = self._take(self._turn if turn is None else turn)
        try:
            yield worker
        except JobError:
            raise
        except BaseException:  # also Ctrl-C, because a late reply would answer the next job
            worker.kill()
            raise
        finally:
            self._put_back(place, worker)

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """Keep the guest idle for the body: wait for its job, and start no other there."""
        with self._changed:
            self._silences += 1
            self._changed.wait_for(lambda: self._guest is None or self._guest in self._free)
        try:
            yield
        finally:
            with self._changed:
                self._silences -= 1
                self._changed.notify_all()

    def interrupt(self) -> None:
        """Kill the busy processes; give up the waiting jobs. Later jobs get other processes."""
        with self._changed:
            self._turn += 1
            self._changed.notify_all()
            for worker in self._working:
                worker.kill()

    def end_idle(self) -> None:
        """End the processes that have no job."""
        with self._changed:
            idle = [worker for worker in self._free.values() if worker is not None]
            for worker in reversed(idle):
                worker.kill()
            for worker in idle:
                worker.close()
            self._free = dict.fromkeys(self._free)

    def close(self) -> None:
        """End all processes for good; wait for the jobs in progress to return. Harmless when done twice."""
        self._closed = True
        self.interrupt()
        if self._timer is not None:
            self._timer.stop()
        with self._changed:
            self._changed.wait_for(lambda: len(self._free) == self.size)
            self.size = 0
            self.end_idle()
            self._free.clear()

    def _take(self, turn: int) -> tuple[int, Worker]:
        with self._changed:
            self._changed.wait_for(lambda: self._next() is not None or turn != self._turn or self._closed)
            place = self._next()
            if place is None or turn != self._turn or self._closed:
                raise GivenUp
            try:
                worker = self._living(place)
            except OSError as error:
                raise MeasureError(f"a worker process ({sys.executable}) could not start: {error}") from None
            del self._free[place]
            self._working.add(worker)
        return place, worker

    def _next(self) -> int | None:
        """Return the place whose process takes the next job, if there is one: the guest, else the oldest process."""
        free = (place for place in self._free if place != self._guest or not self._silences)

        def began(place: int) -> float:
            worker = self._free[place]
            return worker.began if worker is not None and worker.alive else math.inf

        return min(free, key=lambda place: (place != self._guest, began(place)), default=None)

    def _living(self, place: int) -> Worker:
        """Return the process of a free place, or start another. Raises `OSError` if the system cannot create one."""
        old = self._free[place]
        if old is not None and old.alive:
            return old
        fresh = self._start(place)
        if old is not None:
            old.close()
        return fresh

    def _put_back(self, place: int, worker: Worker) -> None:
        with self._changed:
            self._working.discard(worker)
            self._free[place] = worker
            if self._eager and not self._closed:
                with contextlib.suppress(OSError):  # no process available: the next job tries again
                    self._free[place] = self._living(place)
            self._changed.notify_all()
        if self._timer is not None:
            self._timer.restart()
