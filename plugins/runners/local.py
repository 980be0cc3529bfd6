"""The runner "local", which runs candidates on this machine, in a process that they may crash."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
from pegbox.workers import BrokenReply, GivenUp, JobError, Pool, Worker, WorkerDied, WorkerTimeout

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Target
    from pegbox.compute import NumpyProgram

_JOBS = "pegbox.measure.jobs.run_job"
# The time of a trial without the candidate's own calls, for loading it and checking the answer.
_OVERHEAD_SECONDS = 10.0
_BASELINE_SECONDS = 3.0
"""The seconds that a measurement of the machine may take."""

# Failures that an earlier candidate may have caused, by damaging the process or exhausting a resource.
_OTHERS_FAULT = frozenset({FailureKind.CRASH, FailureKind.RUN_ERROR})


class LocalRunner(Runner):
    """A runner of candidates in a worker process, pinned to the timing core, with a second worker standing by.

    A worker in which a candidate failed (after writing anywhere, or using up any resource) is replaced by the one
    standing by, so that a bad candidate costs no waiting. After a crash, or a failure to load or to run, the candidate
    is tried again in a fresh worker, if the worker had run others before, as one of those may be the culprit.

    Args:
        bench, timing, cores, max_memory: as for every runner.
        folder: the folder for the bench on disk; by default, that for temporary files.
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
        self._pool = Pool(lambda place: self._start(), 2)
        self._pool.start(1)  # the other one starts after the first run, which then waits less

    compares = True

    def check_target(self, target: Target) -> None:
        """Raise `MeasureError` if this machine does not run code for the target. See `Runner`."""
        Kind.own().check_target(target, whose="this machine's")

    def run(self, program: CompiledProgram, *, best: float = math.inf) -> Result:
        """Check and time one candidate. See `pegbox.measure.Runner`."""
        turn = self._pool.turn
        with self._busy:
            result, fresh = self._attempt(program, best, turn)
            if isinstance(result, Failed) and result.kind in _OTHERS_FAULT and not fresh and turn == self._pool.turn:
                result, _ = self._attempt(program, best, turn)
            with contextlib.suppress(OSError):
                self._pool.start(2)
            return result

    def rerun(self, programs: Sequence[CompiledProgram]) -> list[Result]:
        """Time candidates interleaved; if one of them crashes the process, time each alone instead."""
        turn = self._pool.turn
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
        """Kill the worker; the run in progress returns a crash."""
        self._pool.interrupt()

    def close(self) -> None:
        """End both workers and remove the bench from disk."""
        self._pool.close()
        with self._busy:
            self._folder.close()

    def _ask(self, job: str, *arguments: object) -> Any:
        """Run an optional job in the worker and return its result; None if it takes too long or breaks."""
        turn = self._pool.turn
        with (
            contextlib.suppress(GivenUp, WorkerDied, WorkerTimeout, BrokenReply, JobError),
            self._busy,
            self._pool.worker(turn) as worker,
        ):
            self._pool.wait_ready()
            return worker.call(job, *arguments, timeout=_BASELINE_SECONDS)
        return None

    def _take_turns(self, programs: list[CompiledProgram], turn: int) -> list[Result]:
        found, _ = self._called("rerun", programs, (programs, self._timing), turn=turn)
        if isinstance(found, Failed) and len(programs) > 1 and turn == self._pool.turn:
            return [result for program in programs for result in self._take_turns([program], turn)]
        return [found] * len(programs) if isinstance(found, Failed) else found

    def _attempt(self, program: CompiledProgram, best: float, turn: int) -> tuple[Result, bool]:
        """Run a candidate; return its result, and True if its worker had run no other before."""
        found, fresh = self._called("run", [program], (program, self._timing, best), turn=turn, best=best)
        return found if isinstance(found, Failed) else found[0], fresh

    def _called(
        self,
        job: str,
        programs: Sequence[CompiledProgram],
        arguments: tuple[object, ...],
        *,
        turn: int,
        best: float = math.inf,
    ) -> tuple[list[Result] | Failed, bool]:
        """Return a worker job's results for candidates, or its failure, and `Worker.fresh`.

        Candidates timed in silence wait until the other worker has started. A worker in which anything failed is
        replaced.
        """
        fresh, threads = True, max(program.num_threads for program in programs)
        timeout = self._timing.timeout * len(programs) + _OVERHEAD_SECONDS
        try:
            with self._pool.worker(turn) as worker:
                if job == "rerun" or self._cores.silent(threads):
                    self._pool.wait_ready()
                fresh = worker.fresh
                worker.wait_ready()
                began = time.perf_counter()
                try:
                    data = worker.call(job, *arguments, self._cores.running(threads), timeout=timeout)
                except JobError:
                    worker.kill()
                    raise
                asked = Asked(self._timing, best, time.perf_counter() - began)
                found = asked.results(data, len(programs)) if job == "rerun" else [asked.result(data)]
                if any(isinstance(result, Failed) for result in found):
                    worker.kill()
                return found, fresh
        except GivenUp:
            return RUN_GIVEN_UP, fresh
        except WorkerTimeout as error:
            return Failed(FailureKind.TIMEOUT, f"the runner gave {error}"), fresh
        except WorkerDied as error:
            return self._death(error, best), fresh
        except BrokenReply as error:
            message = f"the process running the candidate gave an invalid reply: {error}"
            return Failed(FailureKind.CRASH, message), fresh
        except JobError as error:
            return Failed(FailureKind.RUN_ERROR, str(error)), fresh

    def _death(self, error: WorkerDied, best: float) -> Failed:
        if error.signal not in (signal.SIGPROF, signal.SIGALRM):
            hint = " (out of memory, perhaps)" if error.signal == signal.SIGKILL else ""
            return Failed(FailureKind.CRASH, f"the process running the candidate {error}{hint}")
        limit = self._timing.first_call_limit(best, flop=self._flop)
        return Failed(
            FailureKind.TIMEOUT,
            f"stopped: a first call may take {limit:.3g} s"
            + (f" while the best takes {best:.3g} s" if math.isfinite(best) else "")
            + f", and all calls of a trial {self._timing.timeout:.3g} s",
        )

    def _start(self) -> Worker:
        worker = Worker(_JOBS, warm=WARM, cores=self._cores.building, memory=self._memory)
        worker.post("prepare", str(self._folder.path))
        return worker
