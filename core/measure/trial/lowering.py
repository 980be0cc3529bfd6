"""Lowering in the compiling process: a config as a job, and its answer."""

from __future__ import annotations

import hashlib
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pegbox.errors import CompileError, PegboxError
from pegbox.measure.result import Failed, FailureKind
from pegbox.origin import explained

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program
    from pegbox.space import Config
    from pegbox.task.task import Task


@dataclass(frozen=True)
class Lowering:
    """A config to lower and compile: its digits, and its task packed by `pack_task`.

    `scalar_loops` is as in `Program`, if the lowered one has them.
    """

    task: bytes
    digits: tuple[int, ...]
    max_block: float
    scalar_loops: bool = True


@dataclass(frozen=True)
class Lowered:
    """The answer to a `Lowering`: the compiled program, its `program_key`, and the seconds of lowering."""

    program: CompiledProgram
    key: bytes
    seconds: float


def program_key(program: Program) -> bytes:
    """Return a hash that is equal for equivalent programs."""
    found = hashlib.sha256(program.ll.encode())
    found.update(repr((program.workspace_bytes, program.num_threads, program.foreign)).encode())
    return found.digest()


def lower(task: Task, config: Config, max_block: float) -> Program | Failed:
    """Lower a config; return a `Failed` with the reason if that is impossible."""
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
    # A mistake in the template itself: show its author the place.
    frames = traceback.extract_tb(error.__traceback__)
    return f"{text} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else text
