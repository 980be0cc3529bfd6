"""Builder processes: compile several programs at a time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, overload

from pegbox.measure.jobs.reply import MOST_BUILD, read_build, read_lowered, read_refusal
from pegbox.measure.result import Failed, FailureKind
from pegbox.measure.trial.lowering import Lowering
from pegbox.workers.channel import BrokenReply
from pegbox.workers.pool import Pool
from pegbox.workers.process import GivenUp, JobError, Worker, WorkerDied, WorkerTimeout

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program
    from pegbox.measure.trial.lowering import Lowered

LOWERING_SECONDS = 30.0
"""The limit of lowering in seconds; compiling has its own limit."""

_JOBS = "pegbox.measure.jobs.build_job"

WARM = "pegbox.measure.jobs.run_job"
"""The module that the fork server of all workers here loads, so that they share its imports."""

GIVEN_UP = Failed(FailureKind.COMPILE_ERROR, "the build was given up")
"""The result of a build that was interrupted."""


class Builder:
    """A pool of builder processes. `build` blocks and may be called from `size` threads at a time.

    A builder that dies or overruns `timeout` seconds is replaced at once. A program whose builder was killed is
    compiled once more.

    Args:
        workers: the number of builders on `cores`.
        shared: cores that also time candidates. If there are any, one more builder runs there, but never during the
            body of a `with builder.silence():`.
        idle: seconds without a program after which the builders end; the next program starts them again.
    """

    def __init__(
        self,
        *,
        workers: int,
        cores: Sequence[int] = (),
        shared: Sequence[int] = (),
        timeout: float = 30.0,
        max_memory: int | None = None,
        idle: float = math.inf,
    ) -> None:
        self._timeout, self._memory = timeout, max_memory
        self._places = [tuple(cores)] * workers + ([tuple(shared)] if shared else [])
        self._pool = Pool(self._start, len(self._places), guest=workers if shared else None, idle=idle)
        if not math.isfinite(idle):
            self._pool.start(self.size)

    @property
    def size(self) -> int:
        """The number of builders."""
        return self._pool.size

    @overload
    def build(self, job: Program, *, timeout: float | None = None) -> CompiledProgram | Failed: ...

    @overload
    def build(self, job: Program | Lowering, *, timeout: float | None = None) -> CompiledProgram | Lowered | Failed: ...

    def build(self, job: Program | Lowering, *, timeout: float | None = None) -> CompiledProgram | Lowered | Failed:
        """Compile a program, or lower and compile a config; any fault of it gives a `Failed`.

        `timeout` is in seconds, by default that of the builder; lowering may take `LOWERING_SECONDS` before.

        If LLVM ends its process, scalar loops stay scalar in the second attempt, as in `compile_program`. After a kill
        from outside, the second attempt is like the first. A config that ends the process that lowers it is invalid at
        once. Raises `MeasureError` if builder processes cannot be started at all, and `JobError` if the task of a
        `Lowering` cannot be made in one.
        """
        turn, seconds = self._pool.turn, self._timeout if timeout is None else timeout
        try:
            try:
                return self._build(job, turn, seconds)
            except WorkerDied as error:
                if error.by_itself and not job.scalar_loops:
                    return _dead(error)
                again = dataclasses.replace(job, scalar_loops=job.scalar_loops and not error.by_itself)
            return self._build(again, turn, seconds)
        except WorkerDied as error:
            return _dead(error)
        except GivenUp:
            return GIVEN_UP

    def silence(self) -> AbstractContextManager[None]:
        """Keep the shared cores free in the body: wait for a running build, and let none begin."""
        return self._pool.silence()

    def interrupt(self) -> None:
        """Kill the builders at work; all builds return `Failed`, and later ones get fresh processes."""
        self._pool.interrupt()

    def close(self) -> None:
        """Kill all builders for good, and wait for builds in progress to return."""
        self._pool.close()

    def _build(self, job: Program | Lowering, turn: int, timeout: float) -> CompiledProgram | Lowered | Failed:
        """Do a job in the next free builder. Raises `WorkerDied` if it ends, `GivenUp` after an interruption."""
        lowering = isinstance(job, Lowering)
        try:
            with self._pool.worker(turn) as worker:
                if not isinstance(job, Lowering):
                    return read_build(worker.call("build", job, timeout=timeout), job)
                refused = worker.call("lower_config", job, timeout=LOWERING_SECONDS)
                if refused is not None:
                    return read_refusal(refused)
                lowering = False
                return read_lowered(worker.call("build_lowered", job.scalar_loops, timeout=timeout))
        except WorkerTimeout:
            doing, limit = ("lowering", LOWERING_SECONDS) if lowering else ("compiling", timeout)
            return Failed(FailureKind.TIMEOUT, f"{doing} took longer than {limit:g} s")
        except WorkerDied as error:
            if lowering and error.by_itself:
                return Failed(FailureKind.INVALID, f"the process that lowered it {error}")
            raise
        except BrokenReply as error:
            return Failed(FailureKind.COMPILE_ERROR, f"the compiler process gave an invalid reply: {error}")
        except JobError as error:
            if lowering:
                raise
            return Failed(FailureKind.COMPILE_ERROR, str(error))

    def _start(self, place: int) -> Worker:
        worker = Worker(_JOBS, warm=WARM, cores=self._places[place], memory=self._memory, most_reply=MOST_BUILD)
        worker.post("warm_up")
        return worker


def _dead(error: WorkerDied) -> Failed:
    return Failed(FailureKind.COMPILE_ERROR, f"the compiler process {error}")
