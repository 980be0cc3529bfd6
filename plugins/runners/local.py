"""The runner "local": runs candidates on this machine, in a process that they may crash."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pegbox.errors import MeasureError
from pegbox.measure import (
    RUN_GIVEN_UP,
    WARM,
    Asked,
    Bench,
    CorePlan,
    Failed,
    FailureKind,
    ProcessFolder,
    Result,
    Roofline,
    Runner,
    TimingPolicy,
)
from pegbox.plugins.runners.machine import Kind
from pegbox.workers import BrokenReply, GivenUp, JobError, Worker, WorkerDied, WorkerTimeout

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Target
    from pegbox.compute import NumpyProgram

_JOBS = "pegbox.measure.jobs.run_job"
# The time of a trial besides the candidate's own calls: loading it, checking the answer.
_OVERHEAD_SECONDS = 10.0
_BASELINE_SECONDS = 3.0
"""The seconds that a measurement of the machine may take."""

# What an earlier candidate may be guilty of: it may have damaged the process, or taken what others need.
_OTHERS_FAULT = frozenset({FailureKind.CRASH, FailureKind.RUN_ERROR})


class LocalRunner(Runner):
    """Runs candidates in a worker process, pinned to the timing core, with a second worker standing by.

    A worker in which a candidate failed (it may have written anywhere, and used up anything) is replaced by the one
    standing by, so that a bad candidate costs no waiting. A crash, or a failure to load or to run, is tried once more
    in a fresh worker, if the worker had run other candidates before: one of those may be the culprit.

    Args:
        bench, timing, cores, max_memory: as of every runner.
        folder: where the bench is put on disk; by default, where temporary files are.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        timing: TimingPolicy,
        cores: CorePlan,
        max_memory: int | None = None,
        folder: str | None = None,
    ) -> None:
        self._timing, self._cores, self._memory = timing, cores, max_memory
        self._flop = bench.flop
        self._folder = ProcessFolder("bench", parent=folder)
        bench.save(self._folder.path)
        self._busy = threading.Lock()
        self._switching = threading.Lock()
        self._turn = 0
        """The number of interruptions: what began before the last one is given up."""
        self._closed = False
        self._served = 0
        self._worker = self._start()
        self._spare: Worker | None = None  # starts behind the first run, which waits for less then

    compares = True

    def check_target(self, target: Target) -> None:
        """Raise `MeasureError` where this machine does not run code for the target. See `Runner`."""
        Kind.own().check_target(target, whose="this machine's")

    def run(self, program: CompiledProgram, *, best: float = math.inf) -> Result:
        """Check and time one candidate. See `pegbox.measure.Runner`."""
        return self._run(program, best, self._turn)

    def rerun(self, programs: Sequence[CompiledProgram]) -> list[Result]:
        """Time candidates interleaved; when one of them brings the process down, each has its turns alone instead."""
        turn = self._turn
        with self._busy:
            return self._take_turns(list(programs), turn)

    def time_numpy(self, program: NumpyProgram, *, threads: int) -> Sequence[float] | None:
        """Time NumPy on the cores that candidates get. See `Runner`."""
        found = self._ask("time_numpy", program, self._cores.running(threads))
        if not isinstance(found, list) or not found:
            return None
        return found if all(isinstance(each, float) and 0 < each < _BASELINE_SECONDS for each in found) else None

    def roofline(self, dtype: str, nbytes: int, target: Target) -> Roofline | None:
        """Measure the limits of the cores that candidates get. See `Runner`."""
        found = self._ask("roofline", dtype, nbytes, target, self._cores.running(target.num_cores))
        try:
            return None if found is None else Roofline(**found)
        except TypeError:
            return None

    def interrupt(self) -> None:
        """Kill the workers; the run in progress comes back as a crash."""
        with self._switching:
            self._turn += 1
            for worker in (self._worker, self._spare):
                if worker is not None:
                    worker.kill()

    def close(self) -> None:
        """End both workers and remove the bench from disk."""
        self._closed = True
        self.interrupt()
        with self._busy:
            for worker in (self._worker, self._spare):
                if worker is not None:
                    worker.close()
            self._folder.close()

    def _ask(self, job: str, *arguments: object) -> Any:
        """Run a job in the worker and return its result; None if it takes too long or breaks: nothing depends on it."""
        turn = self._turn
        with self._busy:
            try:
                return self._living_worker(turn, silent=True).call(job, *arguments, timeout=_BASELINE_SECONDS)
            except (GivenUp, WorkerDied, WorkerTimeout, BrokenReply):
                self._replace()
            except JobError:
                pass
        return None

    def _run(self, program: CompiledProgram, best: float, turn: int) -> Result:
        with self._busy:
            fresh = self._served == 0
            result = self._attempt(program, best, turn)
            if isinstance(result, Failed) and result.kind in _OTHERS_FAULT and not fresh and turn == self._turn:
                result = self._attempt(program, best, turn)
            self._stand_by()
            return result

    def _take_turns(self, programs: list[CompiledProgram], turn: int) -> list[Result]:
        timeout = self._timing.timeout * len(programs) + _OVERHEAD_SECONDS
        cores = self._cores.running(max(program.num_threads for program in programs))
        found = self._called(
            lambda worker: worker.call("rerun", programs, self._timing, cores, timeout=timeout),
            lambda asked, data: asked.results(data, len(programs)),
            turn=turn,
            count=len(programs),
        )
        if isinstance(found, Failed) and len(programs) > 1 and turn == self._turn:
            return [result for program in programs for result in self._take_turns([program], turn)]
        return [found] * len(programs) if isinstance(found, Failed) else found

    def _attempt(self, program: CompiledProgram, best: float, turn: int) -> Result:
        cores = self._cores.running(program.num_threads)
        timeout = self._timing.timeout + _OVERHEAD_SECONDS
        found = self._called(
            lambda worker: worker.call("run", program, self._timing, best, cores, timeout=timeout),
            lambda asked, data: [asked.result(data)],
            turn=turn,
            silent=self._cores.silent(program.num_threads),
            best=best,
        )
        return found if isinstance(found, Failed) else found[0]

    def _called(
        self,
        call: Callable[[Worker], Any],
        read: Callable[[Asked, Any], list[Result]],
        *,
        turn: int,
        count: int = 1,
        silent: bool = True,
        best: float = math.inf,
    ) -> list[Result] | Failed:
        """Return the results that a call of the worker gives for `count` candidates, or its failure.

        A worker in which anything failed is replaced.
        """
        found: list[Result] | Failed
        try:
            worker = self._living_worker(turn, silent=silent)
            self._served += count
            began = time.perf_counter()
            data = call(worker)
            found = read(Asked(self._timing, best, time.perf_counter() - began), data)
        except GivenUp:
            return RUN_GIVEN_UP
        except WorkerTimeout as error:
            found = Failed(FailureKind.TIMEOUT, f"the runner gave {error}")
        except WorkerDied as error:
            found = self._death(error, best)
        except BrokenReply as error:
            found = Failed(FailureKind.CRASH, f"the process running the candidate gave an answer that is none: {error}")
        except JobError as error:
            found = Failed(FailureKind.RUN_ERROR, str(error))
        if isinstance(found, Failed) or any(isinstance(result, Failed) for result in found):
            self._replace()
        return found

    def _death(self, error: WorkerDied, best: float) -> Failed:
        if error.signal != signal.SIGALRM:
            hint = " (out of memory, perhaps)" if error.signal == signal.SIGKILL else ""
            return Failed(FailureKind.CRASH, f"the process running the candidate {error}{hint}")
        limit = self._timing.first_call_limit(best, flop=self._flop)
        return Failed(
            FailureKind.TIMEOUT,
            f"stopped: a first call may take {limit:.3g} s"
            + (f" while the best takes {best:.3g} s" if math.isfinite(best) else "")
            + f", and all calls of a trial {self._timing.timeout:.3g} s",
        )

    def _living_worker(self, turn: int, *, silent: bool) -> Worker:
        """Return a living worker; if `silent`, once nothing else is starting up.

        Raises `GivenUp` if an interruption has come since the turn began.
        """
        if not self._worker.alive:
            self._replace()
        with self._switching:  # a later interruption meets this worker
            if turn != self._turn or self._closed:
                raise GivenUp
        self._worker.wait_ready()
        if silent and self._spare is not None:
            try:
                self._spare.wait_ready()
            except MeasureError:  # nothing depends on it
                self._spare.close()
                self._spare = None
        return self._worker

    def _replace(self) -> None:
        """Put the spare worker in, and start another."""
        if self._closed:
            return
        with contextlib.suppress(OSError):
            fresh = self._start()
            with self._switching:
                old = self._worker
                self._worker, self._spare = (fresh, None) if self._spare is None else (self._spare, fresh)
            self._served = 0
            old.close()

    def _stand_by(self) -> None:
        """Start the spare worker, unless there is one."""
        if self._spare is None and not self._closed:
            with contextlib.suppress(OSError):
                self._spare = self._start()

    def _start(self) -> Worker:
        worker = Worker(_JOBS, warm=WARM, cores=self._cores.building, memory=self._memory)
        worker.post("prepare", str(self._folder.path))
        return worker
