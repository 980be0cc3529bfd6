"""A batch of trials: built and run on threads, overlapped as far as timing allows."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Protocol

from pegbox.measure.result import Failed, Result
from pegbox.measure.runners.runner import RUN_GIVEN_UP

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram
    from pegbox.space import Config


def window_of(builders: int, machines: int) -> int:
    """Count the trials to have in progress: one per builder, two per machine (one measured, one waiting), and one being
    lowered.
    """
    return builders + 2 * machines + 1


class TrialSteps(Protocol):
    """The two blocking steps of a trial, which run on the threads of the executors."""

    def build(self) -> CompiledProgram | Failed: ...

    def run(self, compiled: CompiledProgram, /) -> Result: ...


class Batch:
    """Trials in progress.

    Builds run on the threads of `builders`, runs on those of `runners`, in the order in which the builds end. A program
    that must be timed in silence, according to `silent`, is held until `all_lowered` was called and no build is left.
    `moved` is set whenever a trial has finished or is now held: clear it, look for work, wait. `pending` are trials
    that have started and whose results `in_order` has not yielded yet. Nothing begins after `given_up` is set: steps in
    progress end by themselves, later ones give `RUN_GIVEN_UP`.
    """

    def __init__(
        self,
        *,
        builders: Executor,
        runners: Executor,
        silent: Callable[[CompiledProgram], bool],
    ) -> None:
        self._builders, self._runners, self._silent = builders, runners, silent
        self.given_up = threading.Event()
        self.moved = threading.Event()
        self.pending: deque[tuple[Config, Future[Result]]] = deque()
        self._lock = threading.Lock()
        self._building = self._unfinished = 0
        self._lowered = False
        self._held: list[tuple[TrialSteps, CompiledProgram, Future[Result]]] = []

    @property
    def load(self) -> int:
        """The number of trials being built or run, or waiting for that, without those held for silence."""
        with self._lock:
            return self._unfinished - len(self._held)

    def submit(self, trial: TrialSteps, future: Future[Result] | None = None) -> Future[Result]:
        """Start a trial; return the future of its result, which may be passed in."""
        future = Future() if future is None else future
        with self._lock:
            self._building += 1
            self._unfinished += 1
        self._builders.submit(self._build, trial, future)
        return future

    def in_order(
        self, configs: Sequence[Config], start: Callable[[Config], Future[Result]], *, window: Callable[[], int]
    ) -> Iterator[tuple[Config, Result]]:
        """Start a trial of each config while fewer than `window()` are in progress.

        Yield results in the order of `configs`, each as soon as it and all before it are known.
        """
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
        """Note that no trial follows: silence may begin when the last build ends."""
        with self._lock:
            self._lowered = True
        self._release()

    def _build(self, trial: TrialSteps, future: Future[Result]) -> None:
        try:
            built = RUN_GIVEN_UP if self.given_up.is_set() else trial.build()
            if isinstance(built, Failed):
                self._settle(future, built)
            elif self._silent(built):
                with self._lock:
                    self._held.append((trial, built, future))
                self.moved.set()
            else:
                self._runners.submit(self._run, trial, built, future)
        except BaseException as error:
            self._settle(future, error)
        finally:
            with self._lock:
                self._building -= 1
            self._release()

    def _release(self) -> None:
        with self._lock:
            if not self._lowered or self._building:
                return
            held, self._held = self._held, []
        for trial in held:
            self._runners.submit(self._run, *trial)

    def _run(self, trial: TrialSteps, built: CompiledProgram, future: Future[Result]) -> None:
        try:
            self._settle(future, RUN_GIVEN_UP if self.given_up.is_set() else trial.run(built))
        except BaseException as error:
            self._settle(future, error)

    def _settle(self, future: Future[Result], outcome: Result | BaseException) -> None:
        """Set the result of a trial. An exception means that the machinery broke, not the candidate."""
        with self._lock:
            self._unfinished -= 1
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
        self.moved.set()
