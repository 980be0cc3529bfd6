"""`Pipeline`: the path from configurations to results, through an executor of builds and one of runs."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from pegbox.codegen.program import Program
from pegbox.errors import MeasureError
from pegbox.measure.jobs.packed_task import pack_task
from pegbox.measure.pipeline.batch import Batch, window_of
from pegbox.measure.pipeline.builds import Builds
from pegbox.measure.pipeline.candidate import Candidate, DuplicatePrograms, was_given_up
from pegbox.measure.pipeline.runs import Runs
from pegbox.measure.result import Failed, Result
from pegbox.measure.runners.runner_call import end
from pegbox.measure.trial.lowering import program_key
from pegbox.workers.affinity import confined, pin

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram
    from pegbox.measure.machine.cores import CorePlan
    from pegbox.space import Config
    from pegbox.task.task import Task

_CHUNK = 64

_MOST_ELSEWHERE = 1024
"""The largest number of candidates in progress on other machines: each has a thread here that waits for it."""


class Pipeline:
    """A pipeline lowers a task's candidates on the calling thread, or leaves that to `builds`; it builds and runs them
    on threads.

    It closes `builds` and `runs`, which work on `cores`. A candidate with more than `max_block` instructions in
    straight-line code is refused.
    """

    def __init__(self, task: Task, builds: Builds, runs: Runs, cores: CorePlan, *, max_block: int) -> None:
        self.task, self.builds, self.runs, self.max_block = task, builds, runs, max_block
        self.duplicates = DuplicatePrograms()
        self._cores = cores
        # Candidates timed here wait for the timing core anyway, but many machines would wait for one lowering thread.
        self._packed = None if cores.timing or not runs.runner.lowers else pack_task(task)
        self._lowering = threading.Lock()
        self._batches: set[Batch] = set()
        self._live: set[threading.Event] = set()  # one for each batch in progress; setting it gives the batch up
        self._closed = False
        self._build_threads = self._threads("pegbox-build", builds.here.size)
        self._run_threads = self._threads("pegbox-run", 1)

    @property
    def machines(self) -> int:
        """The number of candidates measured at the same time now."""
        return min(self.runs.runner.machines, _MOST_ELSEWHERE // 2)

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        """Yield (config, result) in the order of `configs`. See `LocalMeasurer.measure`."""
        # Candidates timed in silence wait until their chunk is built, so that object code does not pile up in a long
        # batch.
        size = len(configs) if self._cores.overlap else _CHUNK
        for start in range(0, len(configs), max(1, size)):
            yield from self._measure_chunk(configs[start : start + size])

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        """Time configs in turns. See `LocalMeasurer.remeasure`."""
        with self._batch_event() as given_up:
            candidates = [Candidate(config, self, given_up=given_up) for config in configs]
            started = [self._rebuild(candidate) for candidate in candidates]
            try:
                builds = [build.result() for build in started]
            except CancelledError:
                self._check_open()
                raise
            ready = [
                (config, build) for config, build in zip(configs, builds, strict=True) if not isinstance(build, Failed)
            ]
            try:
                results, share = self._run_threads.submit(self.runs.rerun, ready).result()
            except BaseException:
                self._give_up(given_up)
                raise
        rest = iter(results)
        return [
            build
            if isinstance(build, Failed)
            else candidate.finish(next(rest), running=share, threads=build.num_threads)
            for candidate, build in zip(candidates, builds, strict=True)
        ]

    def _give_up(self, *batches: threading.Event) -> None:
        """Give up the batches with these events, and the steps in progress."""
        for given_up in batches:
            given_up.set()
        self.builds.here.interrupt()
        self.runs.runner.interrupt()

    @contextlib.contextmanager
    def _batch_event(self) -> Iterator[threading.Event]:
        """Make the event of a batch, which counts as live in the body."""
        given_up = threading.Event()
        self._live.add(given_up)
        try:
            yield given_up
        finally:
            self._live.discard(given_up)

    def close(self) -> None:
        """End both executors. A measurement on another thread then ends with `MeasureError`."""
        self._closed = True
        end(lambda: self._give_up(*self._live, *(batch.given_up for batch in self._batches)))
        for batch in list(self._batches):
            batch.moved.set()
        for threads in (self._build_threads, self._run_threads):
            threads.shutdown(wait=True, cancel_futures=True)
        self.builds.here.close()
        end(self.runs.runner.close)

    def _measure_chunk(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        self._check_open()
        batch = Batch(
            builders=self._build_threads,
            runners=self._run_threads,
            silent=lambda program: self._cores.silent(program.num_threads),
        )
        self._batches.add(batch)
        try:
            yield from batch.in_order(configs, lambda config: self._start(config, batch), window=self._window)
        except (RuntimeError, CancelledError):  # its threads have ended meanwhile
            self._check_open()
            raise
        finally:
            self._batches.discard(batch)
            if batch.pending:
                self.duplicates.forget([future for _, future in batch.pending])
                self._give_up(batch.given_up)

    def _window(self) -> int:
        self._check_open()
        return window_of(self.builds.size, self.machines)

    def _start(self, config: Config, batch: Batch) -> Future[Result]:
        candidate = Candidate(config, self, given_up=batch.given_up)
        if self._packed is not None:
            candidate.lower_later(self._packed)
            return batch.submit(candidate)
        program = self.lower_here(candidate)
        future: Future[Result] = Future()
        if isinstance(program, Failed):
            future.set_result(program)
        elif (original := self.duplicates.claim(config, program_key(program), future)) is not None:
            original.add_done_callback(lambda done: _follow(done, candidate, future, batch))
        else:
            batch.submit(candidate, future)
        return future

    def lower_here(self, candidate: Candidate) -> Program | Failed:
        """Lower a candidate on the calling thread, and all later ones here, too."""
        self._packed = None
        # Confine only this thread, and only here, to keep the timing core free and to restore the caller's affinity.
        with self._lowering, confined(self._cores.building):
            return candidate.lower()

    def _rebuild(self, candidate: Candidate) -> Future[CompiledProgram | Failed]:
        """Start the build of a candidate that was not kept."""
        kept = self.runs.kept(candidate.config)
        if kept is None and self._packed is not None:
            candidate.lower_later(self._packed)
            return self._build_threads.submit(candidate.build)
        found = kept or self.lower_here(candidate)
        if isinstance(found, Program):
            return self._build_threads.submit(candidate.build)
        done: Future[CompiledProgram | Failed] = Future()
        done.set_result(found)
        return done

    def _check_open(self) -> None:
        if self._closed:
            raise closed()

    def _threads(self, name: str, count: int) -> ThreadPoolExecutor:
        """Make threads to wait for `count` jobs, or for those of other machines, which come and go."""
        count = count if self._cores.timing else _MOST_ELSEWHERE
        return ThreadPoolExecutor(count, thread_name_prefix=name, initializer=pin, initargs=(self._cores.building,))


def _follow(original: Future[Result], candidate: Candidate, future: Future[Result], batch: Batch) -> None:
    """Give a candidate the result of its duplicate. The phases remain its own, since nothing was built or run for it.

    If the duplicate was given up with another batch, measure the candidate itself.
    """
    if (error := original.exception()) is not None:
        future.set_exception(error)
    elif was_given_up(original.result()) and not batch.given_up.is_set():
        batch.submit(candidate, future)
    else:
        future.set_result(candidate.finish(dataclasses.replace(original.result(), phases={})))


def closed() -> MeasureError:
    """Make the error for a measurer used after its end."""
    return MeasureError("the measurer was closed; make another one")
