"""A candidate: one config on its way through lowering, building and running, with the time of each step."""

from __future__ import annotations

import dataclasses
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pegbox.errors import CompileError, PegboxError
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.origin import explained

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program
    from pegbox.measure.pipeline.builds import Builds
    from pegbox.measure.pipeline.runs import Runs
    from pegbox.space import Config
    from pegbox.task.task import Task

_Result = TypeVar("_Result", bound=Result)


class Candidate:
    """A config of a task. `lower`, `build` and `run` follow each other; a `Failed` of any of them is final.

    Once `given_up` is set, what waits for its turn to build or to run fails.
    """

    def __init__(self, task: Task, config: Config, builds: Builds, runs: Runs, *, given_up: threading.Event) -> None:
        self.config = config
        self._task, self._builds, self._runs, self._given_up = task, builds, runs, given_up
        self._program: Program | None = None
        self._phases: dict[str, float] = {}

    def lower(self, max_block: float) -> Program | Failed:
        """Apply the config and emit LLVM text, in this process.

        Whatever the template raises makes this one config INVALID, sys.exit() too, and so do more than `max_block`
        instructions in a row; the tuning run goes on.
        """
        began = time.perf_counter()
        lowered = lower(self._task, self.config, max_block)
        self._phases["lower"] = time.perf_counter() - began
        if isinstance(lowered, Failed):
            return self.finish(lowered)
        self._program = lowered
        return lowered

    def build(self) -> CompiledProgram | Failed:
        """Compile what was lowered. Blocks."""
        assert self._program is not None
        built, self._phases["build"] = self._builds.build(self._program, self._given_up)
        return self.finish(built) if isinstance(built, Failed) else built

    def run(self, compiled: CompiledProgram) -> Result:
        """Check and time it. Blocks."""
        result, seconds = self._runs.run(self.config, compiled, self._given_up)
        return self.finish(result, running=seconds, threads=compiled.num_threads)

    def finish(self, result: _Result, *, running: float = 0.0, threads: int = 0) -> _Result:
        """Return a result with its phases, its total (without waits for a turn), and the time of day.

        The part of the `running` seconds that no phase accounts for is the phase "ship": pickling, pipes, restarts.
        `threads` are those of the program, if it ran.
        """
        if threads and isinstance(result, Ok):
            result = dataclasses.replace(result, threads=threads)
        phases = {**self._phases, **result.phases}
        if running:
            phases["ship"] = max(0.0, running - sum(result.phases.values()))
        total = sum(phases.values())
        return dataclasses.replace(
            result, phases=phases, total_seconds=total, timestamp=time.time(), host=self._runs.host
        )


def lower(task: Task, config: Config, max_block: float) -> Program | Failed:
    """Lower a config, or say why that is impossible."""
    try:
        program = task.lower(config)
    except CompileError as error:
        return Failed(FailureKind.COMPILE_ERROR, str(error))
    except (Exception, SystemExit) as error:
        return Failed(FailureKind.INVALID, _describe(error))
    if program.longest_block <= max_block:
        return program
    return Failed(
        FailureKind.INVALID,
        f"{program.longest_block:,} instructions without a branch between them, above max_block={max_block:,}: LLVM "
        "takes seconds for so many, and no processor runs them well; unroll less, or vectorize (pegbox.build does not "
        "ask)",
    )


def _describe(error: BaseException) -> str:
    text = explained(error)
    if isinstance(error, PegboxError):
        return text
    # A slip in the template itself: its author wants to know where.
    frames = traceback.extract_tb(error.__traceback__)
    return f"{text} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else text
