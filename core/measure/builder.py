"""Builder processes: compile several programs at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pegbox.measure.reply import MOST_BUILD, read_build
from pegbox.measure.result import Failed, FailureKind
from pegbox.workers.channel import BrokenReply
from pegbox.workers.process import GivenUp, JobError, Worker, WorkerDied, WorkerTimeout

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program

_JOBS = "pegbox.measure.build_job"

WARM = "pegbox.measure.run_job"
"""The module that the fork server of all workers here loads: what one of them needs, the others have for nothing."""

GIVEN_UP = Failed(FailureKind.COMPILE_ERROR, "the build was given up")
"""The result of a build that was interrupted."""


class Builder:
    """A pool of builder processes. `build` blocks and may be called from `size` threads at a time.

    A builder that dies or overruns `timeout` seconds is replaced at once. A program whose builder was killed is
    compiled once more.

    Args:
        workers: how many run on `cores`.
        shared: cores that also time candidates. Where there are any, one more builder runs there, but never during the
            body of a `with builder.silence():`.
    """

    def __init__(
        self,
        *,
        workers: int,
        cores: Sequence[int] = (),
        shared: Sequence[int] = (),
        timeout: float = 30.0,
        max_memory: int | None = None,
    ) -> None:
        self._timeout, self._memory = timeout, max_memory
        self._changed = threading.Condition()
        self._working: set[Worker] = set()
        self._closed = False
        self._turn = 0
        """The number of interruptions: what began before the last one is given up."""
        self._silences = 0
        self._places = [tuple(cores)] * workers + ([tuple(shared)] if shared else [])
        self._guest = workers if shared else None
        self._idle: dict[int, Worker] = {place: self._start(cores) for place, cores in enumerate(self._places)}

    @property
    def size(self) -> int:
        """How many builders there are."""
        return len(self._places)

    def build(self, program: Program) -> CompiledProgram | Failed:
        """Compile one program; whatever goes wrong with it is a `Failed` of the kind COMPILE_ERROR or TIMEOUT.

        Where LLVM ends its process, scalar loops stay scalar at the second attempt, as in `compile_program`. After a
        kill from outside the second attempt is like the first. Raises `MeasureError` when builder processes cannot be
        started at all.
        """
        turn = self._turn
        try:
            try:
                return self._build(program, turn)
            except WorkerDied as error:
                if error.by_itself and not program.scalar_loops:
                    return _dead(error)
                again = dataclasses.replace(program, scalar_loops=program.scalar_loops and not error.by_itself)
            return self._build(again, turn)
        except WorkerDied as error:
            return _dead(error)
        except GivenUp:
            return GIVEN_UP

    def _build(self, program: Program, turn: int) -> CompiledProgram | Failed:
        """Compile in the next free builder. Raises `WorkerDied` if it ends, `GivenUp` after an interruption."""
        place, worker = self._take(turn)
        try:
            worker.wait_ready()
            return read_build(worker.call("build", program, timeout=self._timeout), program)
        except WorkerTimeout:
            return Failed(FailureKind.TIMEOUT, f"compiling took longer than {self._timeout:g} s")
        except BrokenReply as error:
            worker.kill()
            return Failed(FailureKind.COMPILE_ERROR, f"the compiler process gave an answer that is none: {error}")
        except JobError as error:
            return Failed(FailureKind.COMPILE_ERROR, str(error))
        finally:
            self._put_back(place, worker)

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """Keep the shared cores free: waits for a build that goes on there, and lets none begin."""
        with self._changed:
            self._silences += 1
            self._changed.wait_for(lambda: self._guest is None or self._guest in self._idle)
        try:
            yield
        finally:
            with self._changed:
                self._silences -= 1
                self._changed.notify_all()

    def interrupt(self) -> None:
        """Kill the builders at work; all builds come back as `Failed`, later ones get fresh processes."""
        with self._changed:
            self._turn += 1
            self._changed.notify_all()
            for worker in self._working:
                worker.kill()

    def close(self) -> None:
        """Kill all builders for good; waits for builds in progress to come back."""
        self._closed = True
        self.interrupt()
        with self._changed:
            self._changed.wait_for(lambda: len(self._idle) == len(self._places))
            for worker in self._idle.values():
                worker.close()
            self._idle, self._places = {}, []

    def _take(self, turn: int) -> tuple[int, Worker]:
        with self._changed:
            self._changed.wait_for(lambda: self._free() is not None or turn != self._turn)
            place = self._free()
            if place is None or turn != self._turn:
                raise GivenUp
            worker = self._idle.pop(place)
            self._working.add(worker)
        return place, worker

    def _free(self) -> int | None:
        """A builder that may begin, if any; first the one on the shared cores: the tuning process is on the others."""
        return max((p for p in self._idle if p != self._guest or not self._silences), default=None)

    def _put_back(self, place: int, worker: Worker) -> None:
        """Make the worker available again, or a fresh one in its place when it is dead."""
        with self._changed:
            self._working.discard(worker)
        fresh = worker
        if not worker.alive and not self._closed:
            with contextlib.suppress(OSError):  # no process to be had: the dead one fails the next build, and so on
                fresh = self._start(self._places[place])
                worker.close()
        with self._changed:
            self._idle[place] = fresh
            self._changed.notify_all()

    def _start(self, cores: Sequence[int]) -> Worker:
        worker = Worker(_JOBS, warm=WARM, cores=cores, memory=self._memory, most_reply=MOST_BUILD)
        worker.post("warm_up")
        return worker


def _dead(error: WorkerDied) -> Failed:
    return Failed(FailureKind.COMPILE_ERROR, f"the compiler process {error}")
