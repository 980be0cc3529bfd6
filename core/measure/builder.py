"""Compile programs in processes of their own, several at a time."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pegbox.measure.channel import BrokenReply
from pegbox.measure.process import JobError, Worker, WorkerDied, WorkerTimeout
from pegbox.measure.reply import MOST_BUILD, read_build
from pegbox.measure.result import Failed, FailureKind

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program

_JOBS = "pegbox.measure.build_job"


class Builder:
    """A pool of builder processes. `build` blocks and may be called from `workers` threads at a time.

    A builder that dies or overruns `timeout` seconds costs its program, not the pool: it is replaced at once.
    """

    def __init__(
        self, *, workers: int, cores: Sequence[int] = (), timeout: float = 30.0, max_memory: int | None = None
    ) -> None:
        self._cores, self._timeout, self._memory = tuple(cores), timeout, max_memory
        self._workers = workers
        self._lock = threading.Lock()
        self._working: set[Worker] = set()
        self._closed = False
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()
        for _ in range(workers):
            self._idle.put(self._start())

    def build(self, program: Program) -> CompiledProgram | Failed:
        """Compile one program; whatever goes wrong with it is a `Failed` of the kind COMPILE_ERROR or TIMEOUT.

        Raises `MeasureError` when builder processes cannot be started at all.
        """
        worker = self._take()
        try:
            worker.wait_ready()
            return read_build(worker.call("build", program, timeout=self._timeout), program)
        except WorkerTimeout:
            return Failed(FailureKind.TIMEOUT, f"compiling took longer than {self._timeout:g} s")
        except WorkerDied as error:
            return Failed(FailureKind.COMPILE_ERROR, f"the compiler process {error}")
        except BrokenReply as error:
            worker.kill()
            return Failed(FailureKind.COMPILE_ERROR, f"the compiler process gave an answer that is none: {error}")
        except JobError as error:
            return Failed(FailureKind.COMPILE_ERROR, str(error))
        finally:
            self._put_back(worker)

    def interrupt(self) -> None:
        """Kill the builders at work; their builds come back as `Failed`, later ones get fresh processes."""
        with self._lock:
            for worker in self._working:
                worker.kill()

    def close(self) -> None:
        """Kill all builders for good; waits for builds in progress to come back."""
        self._closed = True
        self.interrupt()
        for _ in range(self._workers):
            self._idle.get().close()
        self._workers = 0

    def _take(self) -> Worker:
        worker = self._idle.get()
        with self._lock:
            self._working.add(worker)
        return worker

    def _put_back(self, worker: Worker) -> None:
        """Make the worker available again, or a fresh one in its place when it is dead."""
        with self._lock:
            self._working.discard(worker)
        fresh = worker
        if not worker.alive and not self._closed:
            with contextlib.suppress(OSError):  # no process to be had: the dead one fails the next build, and so on
                fresh = self._start()
                worker.close()
        self._idle.put(fresh)

    def _start(self) -> Worker:
        worker = Worker(_JOBS, cores=self._cores, memory=self._memory, most_reply=MOST_BUILD)
        worker.post("warm_up")
        return worker
