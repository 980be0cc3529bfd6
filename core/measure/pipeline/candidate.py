"""A candidate: one config on its way through lowering, building and running, with the time of each step."""

from __future__ import annotations

import dataclasses
import math
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from pegbox.errors import CompileError, PegboxError
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.origin import explained

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program
    from pegbox.measure.pipeline.build_sites import Site
    from pegbox.space import Config
    from pegbox.task.task import Task


class Candidate:
    """A config of a task; `lower` and `build` give the next form or a `Failed`, `finish` completes any result."""

    def __init__(self, task: Task, config: Config, *, host: str = "") -> None:
        self.config = config
        self._task = task
        self._host = host
        self._phases: dict[str, float] = {}

    def lower(self, *, max_block: float = math.inf) -> Program | Failed:
        """Apply the config and emit LLVM text, in this process.

        Whatever the template raises makes this one config INVALID, sys.exit() too, and so do more than `max_block`
        instructions in a row; the tuning run goes on.
        """
        began = time.perf_counter()
        try:
            program = self._task.lower(self.config)
            return program if program.longest_block <= max_block else _too_long(program, max_block)
        except CompileError as error:
            return Failed(FailureKind.COMPILE_ERROR, str(error))
        except (Exception, SystemExit) as error:
            return Failed(FailureKind.INVALID, _describe(error))
        finally:
            self._phases["lower"] = time.perf_counter() - began

    def build(self, site: Site, program: Program) -> CompiledProgram | Failed:
        """Compile in a builder process."""
        began = time.perf_counter()
        try:
            return site.build(program)
        finally:
            self._phases["build"] = time.perf_counter() - began

    def finish(self, result: Result, *, running: float = 0.0, threads: int = 0) -> Result:
        """The result with its phases, its total (without the time spent waiting for a turn) and the time of day.

        What of the `running` seconds no phase accounts for is the phase "ship": pickling, pipes, restarts. `threads`
        are those of the program, where it ran.
        """
        if threads and isinstance(result, Ok):
            result = dataclasses.replace(result, threads=threads)
        phases = {**self._phases, **result.phases}
        if running:
            phases["ship"] = max(0.0, running - sum(result.phases.values()))
        total = sum(phases.values())
        return dataclasses.replace(result, phases=phases, total_seconds=total, timestamp=time.time(), host=self._host)


def _too_long(program: Program, most: float) -> Failed:
    return Failed(
        FailureKind.INVALID,
        f"{program.longest_block:,} instructions without a branch between them, above max_block={most:,}: LLVM takes "
        "seconds for so many, and no processor runs them well; unroll less, or vectorize (pegbox.build does not ask)",
    )


def _describe(error: BaseException) -> str:
    text = explained(error)
    if isinstance(error, PegboxError):
        return text
    # A slip in the template itself: its author wants to know where.
    frames = traceback.extract_tb(error.__traceback__)
    return f"{text} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else text
