"""Jobs of builder processes (the child side): they take LLVM text, or a config to lower, and return object code."""

from __future__ import annotations

import pickle
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pegbox.codegen.targets.host import has_llvm
from pegbox.errors import CompileError
from pegbox.measure.jobs.reply import of_build, of_result
from pegbox.measure.result import Failed, FailureKind
from pegbox.measure.trial.lowering import Lowered, Lowering, lower, program_key

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program


_lowered: tuple[Program, float] | None = None  # the program of the config lowered last, and its seconds


def warm_up() -> None:
    """Load LLVM, and prepare it for this machine, before the first program arrives.

    Machines that only run kernels compiled elsewhere may lack LLVM.
    """
    from pegbox.codegen import Target
    from pegbox.codegen.runtime.machine import target_machine

    if has_llvm():
        target_machine(Target.host())


def build(program: Program) -> dict[str, Any] | bytes:
    """Compile one program as `compile_program` does; see `pegbox.measure.jobs.reply` for the answer."""
    return of_build(_built(program))


def lower_config(job: Lowering) -> dict[str, Any] | None:
    """Lower a config for `build_lowered`; return the failure if that is impossible.

    Raises any error of the modules of its task.
    """
    global _lowered
    from pegbox.measure.jobs.packed_task import unpack_task  # most builders get programs

    task = unpack_task(job.task)
    began = time.perf_counter()
    program = lower(task, task.space.config(job.digits), job.max_block)
    seconds = time.perf_counter() - began
    if isinstance(program, Failed):
        return of_result(replace(program, phases={"lower": seconds}))
    _lowered = program, seconds
    return None


def build_lowered(scalar_loops: bool) -> dict[str, Any] | bytes:
    """Compile the program of `lower_config`; return a pickled `Lowered`, which is safe since no candidate runs here."""
    assert _lowered is not None
    program, seconds = _lowered
    built = _built(replace(program, scalar_loops=program.scalar_loops and scalar_loops))
    if isinstance(built, Failed):
        return of_result(replace(built, phases={"lower": seconds}))
    return pickle.dumps(Lowered(built, program_key(program), seconds))


def _built(program: Program) -> CompiledProgram | Failed:
    from pegbox.codegen import compile_program  # LLVM is slow to import

    try:
        return compile_program(program, apart=False)
    except CompileError as error:
        return Failed(FailureKind.COMPILE_ERROR, str(error))
    except MemoryError:
        return Failed(FailureKind.COMPILE_ERROR, "compiling ran out of memory")
