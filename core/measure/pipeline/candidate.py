"""A candidate: one config in lowering, building and running, with the time of each step.

Candidates with equal programs share one measurement: `DuplicatePrograms`.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from pegbox.measure.pipeline.builder import GIVEN_UP
from pegbox.measure.result import Failed, Ok, Result
from pegbox.measure.runners.runner import RUN_GIVEN_UP
from pegbox.measure.trial.lowering import Lowered, Lowering, lower

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program
    from pegbox.measure.pipeline.pipeline import Pipeline
    from pegbox.space import Config

_Result = TypeVar("_Result", bound=Result)


class DuplicatePrograms:
    """The results, known or expected, by the key of a program. A repeated config is measured again."""

    def __init__(self) -> None:
        self._first: dict[bytes, tuple[Config, Future[Result]]] = {}
        self._lock = threading.Lock()

    def claim(self, config: Config, key: bytes, result: Future[Result]) -> Future[Result] | None:
        """Return the result of another config with this program; without one, use `result` for all such configs."""
        with self._lock:
            first = self._first.get(key)
            if first is not None and first[0] != config:
                return first[1]
            self._first[key] = config, result
            return None

    def share(self, config: Config, key: bytes, run: Callable[[], Result], given_up: threading.Event) -> Result:
        """Run a program, or wait for the result of an equal one that has run or is running, without its phases."""
        own: Future[Result] = Future()
        while (original := self.claim(config, key, own)) is not None:
            found = original.result()
            if given_up.is_set() or not was_given_up(found):
                return dataclasses.replace(found, phases={})
            self.forget([original])  # the other one was given up with its batch
        try:
            own.set_result(run())
        except BaseException as error:
            own.set_exception(error)
        if given_up.is_set() or own.exception() is not None:
            self.forget([own])
        return own.result()

    def forget(self, results: Collection[Future[Result]]) -> None:
        """Drop results that were given up, since they say nothing about the program."""
        with self._lock:
            self._first = {key: first for key, first in self._first.items() if first[1] not in results}


def was_given_up(result: Result) -> bool:
    """Decide if a candidate was given up, which says nothing about its program."""
    return isinstance(result, Failed) and result.message in (GIVEN_UP.message, RUN_GIVEN_UP.message)


class Candidate:
    """A config in a pipeline. It is lowered, built and run in turn; a `Failed` of any step is final.

    Once `given_up` is set, a candidate that waits to be built or run fails.
    """

    def __init__(self, config: Config, pipeline: Pipeline, *, given_up: threading.Event) -> None:
        self.config = config
        self._pipeline, self._given_up = pipeline, given_up
        self._job: Program | Lowering | None = None
        self._key: bytes | None = None
        self._phases: dict[str, float] = {}

    def lower(self) -> Program | Failed:
        """Apply the config and emit LLVM text, in this process.

        Any exception of the template, including sys.exit(), makes this config INVALID, and so do more than `max_block`
        instructions in a row; the tuning run continues.
        """
        began = time.perf_counter()
        lowered = lower(self._pipeline.task, self.config, self._pipeline.max_block)
        self._phases["lower"] = time.perf_counter() - began
        if isinstance(lowered, Failed):
            return self.finish(lowered)
        self._job = lowered
        return lowered

    def lower_later(self, task: bytes) -> None:
        """Leave the lowering to the compiling process, which gets the packed task."""
        self._job = Lowering(task, self.config.digits, self._pipeline.max_block)

    def build(self) -> CompiledProgram | Failed:
        """Compile the lowered program, or lower and compile; block meanwhile."""
        assert self._job is not None
        built, seconds = self._pipeline.builds.build(self._job, self._given_up)
        if built is None:  # another process cannot make the task
            program = self._pipeline.lower_here(self)
            return program if isinstance(program, Failed) else self.build()
        if isinstance(built, Failed):
            self._phases["build"] = seconds - built.phases.get("lower", 0.0)
            return self.finish(built)
        if isinstance(built, Lowered):
            self._key = built.key
            self._phases |= {"lower": built.seconds, "build": seconds - built.seconds}
            return built.program._replace(target=self._pipeline.task.target)
        self._phases["build"] = seconds
        return built

    def run(self, compiled: CompiledProgram) -> Result:
        """Check and time the program, unless an equal one lowered elsewhere is known; block meanwhile."""
        running = 0.0

        def run() -> Result:
            nonlocal running
            result, running = self._pipeline.runs.run(self.config, compiled, self._given_up)
            return result

        if self._key is None:
            result = run()
        else:
            result = self._pipeline.duplicates.share(self.config, self._key, run, self._given_up)
        return self.finish(result, running=running, threads=compiled.num_threads)

    def finish(self, result: _Result, *, running: float = 0.0, threads: int = 0) -> _Result:
        """Return a result with its phases, its total (without waits for a turn), and the timestamp.

        The part of the `running` seconds outside all phases becomes the phase "ship": pickling, pipes, restarts.
        `threads` are those of the program, if it ran.
        """
        if threads and isinstance(result, Ok):
            result = dataclasses.replace(result, threads=threads)
        phases = {**self._phases, **result.phases}
        if running:
            phases["ship"] = max(0.0, running - sum(result.phases.values()))
        total, host = sum(phases.values()), self._pipeline.runs.runner.host
        return dataclasses.replace(result, phases=phases, total_seconds=total, timestamp=time.time(), host=host)
