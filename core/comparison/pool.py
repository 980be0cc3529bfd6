"""The pool that makes runs of a comparison simultaneously, in processes of this machine or of a cluster."""

from __future__ import annotations

import functools
import pickle
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

from pegbox.checks import check_int
from pegbox.codegen.targets.cores import usable_cores
from pegbox.comparison.experiment import Experiment, RunSpec
from pegbox.comparison.payload import run_timeout
from pegbox.comparison.run_job import CompletedRun, Notice
from pegbox.comparison.runs import Run
from pegbox.errors import ArgumentError, MeasureError, TuningError, UnknownName
from pegbox.hooks.options import bind_options
from pegbox.measure.pipeline.builder import WARM
from pegbox.measure.runners.runner import class_of, runner_factory
from pegbox.origin import users_level
from pegbox.search.objective import Objective
from pegbox.workers.pool import Pool
from pegbox.workers.process import GivenUp, Worker, WorkerDied, WorkerTimeout

JOBS = "a number of processes, 'auto' for one on each core, or a cluster such as 'dask:scheduler=tcp://host:8786'"

_LONGEST = 2e6
"""The largest limit of a run in seconds; `select.poll` counts milliseconds up to 24 days."""

_MOST_REPLY = 1 << 30

TOOK_LONGER = "the run took longer than"

_LOOK_SECONDS = 1.0
"""The time between looks at the number of simultaneous runs, since machines of a cluster come and go."""


class RunPool(Protocol):
    """A pool that makes runs of one experiment, given as a payload (`pegbox.comparison.payload`)."""

    @property
    def jobs(self) -> int:
        """The number of simultaneous runs now, at least 1.

        Raises `MeasureError` if the cluster is gone.
        """
        ...

    def submit(self, spec: RunSpec) -> Future[bytes]:
        """Make a run in its turn.

        The future has the reply of `pegbox.comparison.run_job.run`, or a `MeasureError` if the process or the cluster
        is gone.
        """
        ...

    def close(self) -> None:
        """Withdraw the waiting runs, and end the running ones."""
        ...


class LocalPool:
    """A pool of processes of this machine, which start when needed.

    Args:
        payload: the experiment's payload, which goes to each process once.
        jobs: the number of processes.
    """

    def __init__(self, payload: bytes, jobs: int) -> None:
        self.jobs = jobs
        self._payload = payload
        self._pool = Pool(self._start, jobs)
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="pegbox-run")

    def submit(self, spec: RunSpec) -> Future[bytes]:
        """See `RunPool`."""
        return self._threads.submit(self.run, spec)

    def run(self, spec: RunSpec) -> bytes:
        """Make a run on a free process; from any thread."""
        try:
            with self._pool.worker() as worker:
                reply: bytes = worker.call("run", spec, timeout=self._timeout)
                return reply
        except WorkerDied as error:
            raise MeasureError(f"the process of the run {error}") from error
        except WorkerTimeout:
            raise MeasureError(f"{TOOK_LONGER} {self._timeout:g} s, and was killed") from None
        except GivenUp:
            raise MeasureError("the comparison has ended") from None

    def close(self) -> None:
        """See `RunPool`."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._pool.close()
        self._threads.shutdown()

    @functools.cached_property
    def _timeout(self) -> float:
        return run_timeout(self._payload) or _LONGEST

    def _start(self, place: int) -> Worker:
        worker = Worker("pegbox.comparison.run_job", warm=WARM, most_reply=_MOST_REPLY)
        worker.post("prepare", self._payload)
        return worker


def read_jobs(jobs: Any, experiment: Experiment) -> Any:
    """Read the number of simultaneous runs, at most the number of runs; or the cluster that makes them.

    Raises `ArgumentError` for anything else, and if runs cannot be simultaneous.
    """
    if isinstance(jobs, str) and jobs == "auto":
        jobs = len(usable_cores()) if not _hindrance(experiment) else 1
    if jobs is None or isinstance(jobs, float) or (isinstance(jobs, str) and jobs.strip().lstrip("+-").isdigit()):
        raise ArgumentError(f"jobs={jobs!r}: give {JOBS}")
    if hasattr(jobs, "__index__"):
        jobs = min(check_int("jobs", jobs), experiment.planned)
        if jobs == 1 and experiment.plan.run_timeout is None:
            return 1
    if why := _hindrance(experiment):
        raise ArgumentError(f"jobs={jobs!r}: {why}")
    return jobs


def open_pool(jobs: Any, payload: bytes) -> RunPool:
    """Open the pool of that many processes here, or of the cluster.

    Raises `ArgumentError` for an unknown cluster, `MeasureError` if none answers.
    """
    if isinstance(jobs, int):
        if jobs > (cores := len(usable_cores())):
            warnings.warn(
                f"jobs={jobs}, but this process may use {cores} core{'s' if cores != 1 else ''}: the runs wait for "
                "each other, and the overhead of the tuners includes this waiting; jobs='auto' takes one for each core",
                RuntimeWarning,
                stacklevel=users_level(),
            )
        return LocalPool(payload, jobs)
    try:
        factory = runner_factory(jobs, {})
    except UnknownName as error:
        raise ArgumentError(f"jobs={jobs!r}: give {JOBS}") from error
    options = factory.keywords if isinstance(factory, functools.partial) else {}
    opens = class_of(factory).run_pool
    if opens is None:
        raise ArgumentError(f"jobs={jobs!r}: this runner has no machines for runs; give {JOBS}")
    pool: RunPool = opens(payload, **bind_options(f"jobs={jobs!r}", opens, options))
    return pool


def _hindrance(experiment: Experiment) -> str:
    """Explain why runs cannot be simultaneous, with a remedy; return empty text if they can."""
    for name, benchmark in experiment.benchmarks.items():
        if benchmark.side_by_side:
            continue
        if isinstance(benchmark.problem.task, Objective):
            return (
                f"the function {name} may time something, and other runs would disturb the timings. If its costs "
                "depend on the configuration alone, pass pegbox.Objective(..., pure=True); else leave jobs out"
            )
        return (
            f"{name} is measured, and a timed run must be alone (all machines of a cluster measure for one run). "
            "Comparisons on recorded measurements (pegbox.recorded_space, SimulatedRunner, --simulate) can run "
            "side by side; leave jobs out here"
        )
    if experiment.plan.callbacks is not None:
        return "callbacks run in this process, but the runs take place in others; leave out callbacks or jobs"
    return ""


class RunTraceback(Exception):
    """The traceback of an error in another process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class CompletedRuns:
    """The completed runs of all `specs`, in the order of finishing.

    With `keep_going`, broken ones are included. Otherwise, after a broken run no other begins, the running ones are
    finished, and the broken one comes last: if there are several, the first of `specs`, which would have been the first
    without a pool.

    Iterating raises `MeasureError` if the pool's cluster is gone, after its last reply.
    """

    def __init__(self, pool: RunPool, specs: Sequence[RunSpec], *, keep_going: bool = False) -> None:
        self._pool, self._specs, self._keep_going = pool, list(specs), keep_going
        self._queue = deque(specs)
        self._asked: dict[Future[bytes], RunSpec] = {}
        self.jobs = 1
        """The largest number of simultaneous runs so far."""

    def __iter__(self) -> Iterator[tuple[RunSpec, CompletedRun]]:
        broken: dict[RunSpec, CompletedRun] = {}
        while self._queue or self._asked:
            gone = self._ask()
            seconds = 0.0 if gone else _LOOK_SECONDS
            for future in wait(self._asked, timeout=seconds, return_when=FIRST_COMPLETED).done:
                spec, completed = self._asked.pop(future), _reply(future)
                if completed.run is not None or self._keep_going:
                    yield spec, completed
                    continue
                broken[spec] = completed
                self._queue.clear()
                self._asked = {future: spec for future, spec in self._asked.items() if not future.cancel()}
            if gone:
                raise gone
        if broken:
            first = min(broken, key=self._specs.index)
            yield first, broken[first]

    def drop(self, task: str, tuner: str) -> list[RunSpec]:
        """Withdraw the unrequested runs of a tuner on a task; return them."""
        dropped = [spec for spec in self._queue if (spec.task, spec.tuner) == (task, tuner)]
        self._queue = deque(spec for spec in self._queue if spec not in dropped)
        return dropped

    def _ask(self) -> MeasureError | None:
        """Request twice as many runs as the pool makes at once, so that each process has the next one at hand."""
        try:
            jobs = self._pool.jobs
            while self._queue and len(self._asked) < 2 * jobs:
                asked = self._pool.submit(self._queue[0])
                self._asked[asked] = self._queue.popleft()
        except MeasureError as error:
            return error
        self.jobs = max(self.jobs, jobs)
        return None


def _reply(future: Future[bytes]) -> CompletedRun:
    try:
        completed: CompletedRun = pickle.loads(future.result())
    except MeasureError as error:
        return CompletedRun(None, str(error))
    return completed


def run_of(completed: CompletedRun, shown: set[Notice]) -> Run:
    """Show the output of a run on standard error, and its warnings that are not `shown` already; return the run.

    Raises `TuningError` if it broke.
    """
    if completed.printed:
        print(completed.printed, end="", file=sys.stderr, flush=True)
    for notice in completed.notices:
        if notice not in shown:
            shown.add(notice)
            warnings.warn_explicit(*notice)
    if completed.run is None:
        cause = RunTraceback(completed.traceback) if completed.traceback else None
        raise TuningError(completed.reason, completed.result) from cause
    return completed.run
