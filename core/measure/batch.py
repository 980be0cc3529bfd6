"""The pipeline of a batch: lower, build and run, overlapped as far as timing allows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Protocol

from pegbox.measure.result import Failed, Result

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram


class Trial(Protocol):
    """The two steps of a trial that block; they run on the threads of the executors."""

    def build(self) -> CompiledProgram | Failed: ...

    def run(self, compiled: CompiledProgram) -> Result: ...

    def finish(self, failed: Failed) -> Result: ...


class Batch:
    """Trials on their way to results.

    Builds run on the threads of `builders`, runs on the single thread of `runners`, in the order the builds end. A
    program that `silent` says must be timed in silence is held until `all_lowered` was called and no build is left.
    `moved` is set whenever a trial has finished or is held from now on: clear it, look at what there is to do, wait.
    """

    def __init__(self, *, builders: Executor, runners: Executor, silent: Callable[[CompiledProgram], bool]) -> None:
        self._builders, self._runners, self._silent = builders, runners, silent
        self.moved = threading.Event()
        self._lock = threading.Lock()
        self._building = 0
        self._unfinished = 0
        self._lowered = False
        self._cancelled = False
        self._held: list[tuple[Trial, CompiledProgram, Future[Result]]] = []

    @property
    def load(self) -> int:
        """How many trials are being built, run, or waiting for it; those held for silence do not count."""
        with self._lock:
            return self._unfinished - len(self._held)

    def submit(self, trial: Trial) -> Future[Result]:
        """Start a trial on its way."""
        future: Future[Result] = Future()
        with self._lock:
            self._building += 1
            self._unfinished += 1
        self._builders.submit(self._build, trial, future)
        return future

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

    def _build(self, trial: Trial, future: Future[Result]) -> None:
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

    def _enqueue(self, trial: Trial, built: CompiledProgram, future: Future[Result]) -> None:
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

    def _run(self, trial: Trial, built: CompiledProgram, future: Future[Result]) -> None:
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
