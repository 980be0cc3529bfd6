"""The pipeline of a batch: lower, build and run, overlapped as far as timing allows."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Protocol

from pegbox.measure.result import Failed, Result

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram
    from pegbox.space import Config


def window_of(builders: int, machines: int) -> int:
    """Count the trials on their way: one in every builder, two for each machine, one measured there and one that waits,
    and one being lowered.
    """
    return builders + 2 * machines + 1


class TrialSteps(Protocol):
    """The two steps of a trial that block; they run on the threads of the executors."""

    def build(self) -> CompiledProgram | Failed: ...

    def run(self, compiled: CompiledProgram) -> Result: ...

    def finish(self, failed: Failed) -> Result: ...


class Batch:
    """Trials on their way to results.

    Builds run on the threads of `builders`, runs on the single thread of `runners`, in the order the builds end. A
    program that `silent` says must be timed in silence is held until `all_lowered` was called and no build is left.
    `moved` is set whenever a trial has finished or is held from now on: clear it, look at what there is to do, wait.
    `pending` are trials that have been started and whose results `in_order` has not given yet.
    """

    def __init__(self, *, builders: Executor, runners: Executor, silent: Callable[[CompiledProgram], bool]) -> None:
        self._builders, self._runners, self._silent = builders, runners, silent
        self.moved = threading.Event()
        self.pending: deque[tuple[Config, Future[Result]]] = deque()
        self._lock = threading.Lock()
        self._building = 0
        self._unfinished = 0
        self._lowered = False
        self._cancelled = False
        self._held: list[tuple[TrialSteps, CompiledProgram, Future[Result]]] = []

    @property
    def load(self) -> int:
        """The number of trials being built, run, or waiting for it; those held for silence do not count."""
        with self._lock:
            return self._unfinished - len(self._held)

    @property
    def cancelled(self) -> bool:
        """True if nothing more is to begin."""
        return self._cancelled

    def submit(self, trial: TrialSteps) -> Future[Result]:
        """Start a trial on its way."""
        future: Future[Result] = Future()
        with self._lock:
            self._building += 1
            self._unfinished += 1
        self._builders.submit(self._build, trial, future)
        return future

    def in_order(
        self, configs: Sequence[Config], start: Callable[[Config], Future[Result]], *, window: Callable[[], int]
    ) -> Iterator[tuple[Config, Result]]:
        """Start a trial of each config while fewer than `window()` are on their way, and give results in the order of
        `configs`, each as soon as it and those before it are known."""
        waiting = deque(configs)
        while waiting or self.pending:
            self.moved.clear()
            room = window()
            if self.pending and self.pending[0][1].done():
                config, future = self.pending.popleft()
                yield config, future.result()
            elif waiting and self.load < room:
                config = waiting.popleft()
                self.pending.append((config, start(config)))
                if not waiting:
                    self.all_lowered()
            else:
                self.moved.wait()

    def all_lowered(self) -> None:
        """No trial follows, so silence may begin when the last build ends."""
        with self._lock:
            self._lowered = True
        self._release()

    def cancel(self) -> None:
        """Start nothing more. Steps in progress end by themselves; futures may stay without a result."""
        with self._lock:
            self._cancelled = True
            self._held.clear()
        self.moved.set()

    def _build(self, trial: TrialSteps, future: Future[Result]) -> None:
        try:
            if not self._cancelled:
                built = trial.build()
                if isinstance(built, Failed):
                    self._finish(future, trial.finish(built))
                else:
                    self._enqueue(trial, built, future)
        except BaseException as error:
            self._fail(future, error)
        finally:
            with self._lock:
                self._building -= 1
            self._release()

    def _enqueue(self, trial: TrialSteps, built: CompiledProgram, future: Future[Result]) -> None:
        if not self._silent(built):
            self._runners.submit(self._run, trial, built, future)
            return
        with self._lock:
            if not self._cancelled:
                self._held.append((trial, built, future))
        self.moved.set()

    def _release(self) -> None:
        with self._lock:
            if not self._lowered or self._building:
                return
            held, self._held = self._held, []
        for trial in held:
            self._runners.submit(self._run, *trial)

    def _run(self, trial: TrialSteps, built: CompiledProgram, future: Future[Result]) -> None:
        try:
            if not self._cancelled:
                self._finish(future, trial.run(built))
        except BaseException as error:
            self._fail(future, error)

    def _finish(self, future: Future[Result], result: Result) -> None:
        with self._lock:
            self._unfinished -= 1
        future.set_result(result)
        self.moved.set()

    def _fail(self, future: Future[Result], error: BaseException) -> None:
        """The machinery broke, not a candidate: whoever waits for the result gets the exception."""
        with self._lock:
            self._unfinished -= 1
        future.set_exception(error)
        self.moved.set()
