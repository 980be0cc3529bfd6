"""The pool that makes runs of a comparison at the same time: processes of this machine, or those of a cluster."""

from __future__ import annotations

import functools
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from pegbox.checks import check_int
from pegbox.codegen.targets.cores import usable_cores
from pegbox.comparison.contest import Contest, RunSpec
from pegbox.errors import ArgumentError, MeasureError, UnknownName
from pegbox.hooks.options import bind_options
from pegbox.measure.pipeline.builder import WARM
from pegbox.measure.runners.runner import class_of, runner_factory
from pegbox.origin import users_level
from pegbox.search.objective import Objective
from pegbox.workers.pool import Pool
from pegbox.workers.process import GivenUp, Worker, WorkerDied

JOBS = "a number of processes, 'auto' for one on each core, or a cluster such as 'dask:scheduler=tcp://host:8786'"

_LONGEST = 2e6
"""Seconds that a run may take; `select.poll` counts no more milliseconds than those of 24 days."""

_MOST_REPLY = 1 << 30


class RunPool(Protocol):
    """Makes runs of one contest, which it was given as a parcel (`pegbox.comparison.parcel`)."""

    @property
    def jobs(self) -> int:
        """The number of runs that are made at the same time now, at least 1.

        Raises `MeasureError` where the cluster is gone.
        """
        ...

    def submit(self, entry: RunSpec) -> Future[bytes]:
        """Make a run in its turn: the reply of `pegbox.comparison.run_job.run`, or a `MeasureError` where there is none
        because the process or the cluster is gone."""
        ...

    def close(self) -> None:
        """Take back what waits for its turn, and end what runs."""
        ...


class LocalPool:
    """Processes of this machine, which start when there is a run for them.

    Args:
        parcel: of the contest; it goes to each process once.
        jobs: how many processes.
    """

    def __init__(self, parcel: bytes, jobs: int) -> None:
        self.jobs = jobs
        self._parcel = parcel
        self._pool = Pool(self._start, jobs)
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="pegbox-run")

    def submit(self, entry: RunSpec) -> Future[bytes]:
        """See `RunPool`."""
        return self._threads.submit(self.run, entry)

    def run(self, entry: RunSpec) -> bytes:
        """Make a run on a free process; from any thread."""
        try:
            with self._pool.worker() as worker:
                reply: bytes = worker.call("run", entry, timeout=_LONGEST)
                return reply
        except WorkerDied as error:
            raise MeasureError(f"the process of the run {error}") from error
        except GivenUp:
            raise MeasureError("the comparison has ended") from None

    def close(self) -> None:
        """See `RunPool`."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._pool.close()
        self._threads.shutdown()

    def _start(self, place: int) -> Worker:
        worker = Worker("pegbox.comparison.run_job", warm=WARM, most_reply=_MOST_REPLY)
        worker.post("prepare", self._parcel)
        return worker


def read_jobs(jobs: Any, contest: Contest) -> Any:
    """Read the number of simultaneous runs, no more than there are; or the cluster that makes them.

    Raises `ArgumentError` for something else, and where runs cannot be made side by side.
    """
    if jobs == "auto":
        jobs = len(usable_cores()) if not _hindrance(contest) else 1
    if jobs is None or isinstance(jobs, float) or (isinstance(jobs, str) and jobs.strip().lstrip("+-").isdigit()):
        raise ArgumentError(f"jobs={jobs!r}: give {JOBS}")
    if hasattr(jobs, "__index__"):
        planned = len(contest.testbeds) * len(contest.plan.contenders) * len(contest.plan.seeds)
        jobs = min(check_int("jobs", jobs), planned)
        if jobs == 1:
            return 1
    if why := _hindrance(contest):
        raise ArgumentError(f"jobs={jobs!r}: {why}")
    return jobs


def open_pool(jobs: Any, parcel: bytes) -> RunPool:
    """The pool of so many processes here, or of the cluster.

    Raises `ArgumentError` for a cluster that there is not, `MeasureError` where none answers.
    """
    if not isinstance(jobs, int):
        return _cluster_pool(jobs, parcel)
    if jobs > (cores := len(usable_cores())):
        warnings.warn(
            f"jobs={jobs}, but this process may use {cores} core{'s' if cores != 1 else ''}: the runs wait for each "
            "other, and the overhead of the tuners has these waits in it; jobs='auto' takes one for each core",
            RuntimeWarning,
            stacklevel=users_level(),
        )
    return LocalPool(parcel, jobs)


def _cluster_pool(jobs: Any, parcel: bytes) -> RunPool:
    try:
        factory = runner_factory(jobs, {})
    except UnknownName as error:
        raise ArgumentError(f"jobs={jobs!r}: give {JOBS}") from error
    options = factory.keywords if isinstance(factory, functools.partial) else {}
    opens = class_of(factory).run_pool
    if opens is None:
        raise ArgumentError(f"jobs={jobs!r}: this runner has no machines to make runs on; give {JOBS}")
    pool: RunPool = opens(parcel, **bind_options(f"jobs={jobs!r}", opens, options))
    return pool


def _hindrance(contest: Contest) -> str:
    """Why runs cannot be made side by side, and what to do; empty where they can."""
    for testbed in contest.testbeds:
        name, problem = testbed.info.name, testbed.problem
        if not testbed.side_by_side and isinstance(problem.task, Objective):
            return (
                f"the function {name} may time something, which other runs would disturb. Where its costs depend on "
                "the configuration alone, say pegbox.Objective(..., pure=True); else leave jobs out"
            )
        if not testbed.side_by_side:
            return (
                f"{name} is measured, and what is timed runs alone (a cluster's machines all measure for one run). "
                "Comparisons on recorded measurements (pegbox.recorded_space, SimulatedRunner, --simulate) are made "
                "side by side; here leave jobs out"
            )
    if contest.plan.callbacks is not None:
        return "callbacks are called in this process, but the runs are made in others; leave one of the two out"
    return ""
