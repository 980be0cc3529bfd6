"""Jobs of runner processes (the child side): they take the bench once, then load, check and time candidates."""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegbox.errors import MeasureError
from pegbox.measure.baselines.numpy_time import time_program
from pegbox.measure.baselines.roofline import measure_roofline
from pegbox.measure.jobs.build_job import warm_up
from pegbox.measure.jobs.reply import of_result
from pegbox.measure.machine.blas import blas_threads
from pegbox.measure.machine.heap import kept_heap
from pegbox.measure.result import Failed, FailureKind
from pegbox.measure.trial.bench import Bench
from pegbox.measure.trial.timing import TimingPolicy
from pegbox.measure.trial.trial import CandidateArrays, Guard, run_interleaved, run_trial
from pegbox.workers.affinity import pin

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Kernel, Target
    from pegbox.compute.numpy_program import NumpyProgram

_MOST_WAITING = 10.0
"""The limit of the clock's time for calls, as a multiple of their limit of processor time."""

_stage: CandidateArrays | None = None


def prepare(folder: str) -> None:
    """Load the bench that all later candidates run on."""
    global _stage
    warm_up()
    _stage = CandidateArrays(Bench.load(Path(folder)))
    # Nothing loaded so far becomes garbage, so exclude it from collections during trials.
    gc.collect()
    gc.freeze()


def run(program: CompiledProgram, policy: TimingPolicy, best: float, cores: Sequence[int]) -> dict[str, Any]:
    """Load, check and time one candidate on `cores`; see `pegbox.measure.jobs.reply` for the answer."""
    pin(cores)
    began = time.perf_counter()
    try:
        kernel = _load(program)
        loaded = time.perf_counter() - began
        result = run_trial(kernel, _prepared(), policy, best=best, guard=_alarm_of([program]))
    except MemoryError as error:
        return of_result(Failed(FailureKind.RUN_ERROR, f"out of memory: {error}".rstrip(": ")))
    return of_result(replace(result, phases={"load": loaded, **result.phases}))


def rerun(programs: Sequence[CompiledProgram], policy: TimingPolicy, cores: Sequence[int]) -> list[dict[str, Any]]:
    """Time candidates in turns on `cores`."""
    pin(cores)
    kernels, guard = [_load(program) for program in programs], _alarm_of(programs)
    return [of_result(result) for result in run_interleaved(kernels, _prepared(), policy, guard=guard)]


def time_numpy(program: NumpyProgram, cores: Sequence[int]) -> tuple[float, ...] | None:
    """Time NumPy on `cores` in seconds, several times; None if its answer differs from the bench's.

    One thread and one thread per core are tried, and the faster counts: for little work, or with a busy core, threads
    of BLAS wait for each other many times longer than they compute.
    """
    pin(cores)
    found: list[tuple[float, ...]] = []
    for threads in sorted({1, len(cores)}):
        with kept_heap(), blas_threads(threads):
            costs = time_program(program, _prepared().bench)
        found += [] if costs is None else [costs]
    return min(found, key=statistics.median, default=None)


def roofline(dtype: str, nbytes: int, target: Target, cores: Sequence[int]) -> dict[str, Any]:
    """Measure the fields of a `pegbox.measure.Roofline`."""
    pin(cores)
    return asdict(measure_roofline(dtype, nbytes, target, cores))


@contextlib.contextmanager
def alarm(seconds: float, *, threads: int = 1) -> Iterator[None]:
    """End this process if the body computes for longer: machine code cannot be stopped in any other way.

    SIGPROF ends it. Waits for a core that other programs use do not count, as in the costs. SIGALRM ends a body that
    neither computes nor returns, after several times that long.
    """
    if not math.isfinite(seconds):
        yield
        return
    signal.setitimer(signal.ITIMER_PROF, seconds * threads)
    signal.setitimer(signal.ITIMER_REAL, seconds * _MOST_WAITING)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _alarm_of(programs: Sequence[CompiledProgram]) -> Guard:
    return functools.partial(alarm, threads=max(program.num_threads for program in programs))


def _load(program: CompiledProgram) -> Kernel:
    # Imported here, because LLVM is slow to import, and the parent imports this module's neighbours.
    from pegbox.codegen import load

    return load(program)


def _prepared() -> CandidateArrays:
    if _stage is None:
        raise MeasureError("a candidate came before the bench; call prepare first")
    return _stage
