"""`Builds`: the executor of builds."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from pegbox.measure.pipeline.builder import GIVEN_UP, Builder
from pegbox.workers.process import GivenUp, JobError

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program
    from pegbox.measure.result import Failed
    from pegbox.measure.runners.runner import Runner
    from pegbox.measure.trial.lowering import Lowered, Lowering

_LOOK_SECONDS = 0.2
"""The pause between two looks at the runner's free places, since machines come and go."""


class Builds:
    """An executor that compiles on this machine and, while all builders here work, on the runner's machines with free
    places.

    Args:
        here: the builders of this machine.
        runner: the runner, which has `Runner.builders` free places.
        timeout: the limit of one compilation there in seconds.
    """

    def __init__(self, here: Builder, runner: Runner, *, timeout: float) -> None:
        self.here, self._runner, self._timeout = here, runner, timeout
        self._changed = threading.Condition()
        self._taken = {True: 0, False: 0}

    @property
    def size(self) -> int:
        """The number of programs that can be compiled at the same time now."""
        return self.here.size + self._runner.builders

    def build(
        self, job: Program | Lowering, given_up: threading.Event
    ) -> tuple[CompiledProgram | Lowered | Failed | None, float]:
        """Wait for a place, then do a job; return the build, and its seconds without that wait.

        It is None if the task of a `Lowering` cannot be made in another process.
        """
        here = self._take()
        began = time.perf_counter()
        try:
            built = None if here or given_up.is_set() else self._runner.build(job, timeout=self._timeout)
            if built is None:  # none of the runner's machines could compile it
                built = self._build_here(job, given_up)
            return built, time.perf_counter() - began
        finally:
            with self._changed:
                self._taken[here] -= 1
                self._changed.notify()

    def _build_here(
        self, job: Program | Lowering, given_up: threading.Event
    ) -> CompiledProgram | Lowered | Failed | None:
        try:
            with self._runner.building_here(given_up.is_set):
                return GIVEN_UP if given_up.is_set() else self.here.build(job)
        except GivenUp:
            return GIVEN_UP
        except JobError:
            return None

    def _take(self) -> bool:
        """Take a place for a program; return True for one on this machine.

        The runner is asked for its room without the lock, since a scheduler that hangs may take long.
        """
        here = self._place(0, 0.0)
        while here is None:
            here = self._place(self._runner.builders, _LOOK_SECONDS)
        return here

    def _place(self, room: int, seconds: float) -> bool | None:
        """Take a place here, or one of `room` elsewhere, within so many seconds."""

        def free() -> list[bool]:
            return [here for here, most in ((True, self.here.size), (False, room)) if self._taken[here] < most]

        with self._changed:
            self._changed.wait_for(free, seconds)
            for here in free():
                self._taken[here] += 1
                return here
            return None
