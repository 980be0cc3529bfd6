"""Jobs of builder processes (the child side): LLVM text, or a config to lower, in, object code out."""

from __future__ import annotations

import pickle
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pegbox.codegen.targets.host import has_llvm
from pegbox.errors import CompileError
from pegbox.measure.jobs.reply import of_build
from pegbox.measure.result import Failed, FailureKind
from pegbox.measure.trial.lowering import Lowered, Lowering, lower, program_key

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program


def warm_up() -> None:
    """Load LLVM, and make it ready for this machine, before the first program arrives.

    Machines that only run what others compile may have none.
    """
    from pegbox.codegen import Target
    from pegbox.codegen.runtime.machine import target_machine

    if has_llvm():
        target_machine(Target.host())


def build(program: Program) -> dict[str, Any] | bytes:
    """Compile one program, as `compile_program` does; see `pegbox.measure.jobs.reply`."""
    return of_build(_built(program))


def lower_and_build(job: Lowering) -> dict[str, Any] | bytes:
    """Lower and compile a config; return a pickled `Lowered`: no candidate runs in this process.

    Raises anything that the modules of its task raise.
    """
    from pegbox.measure.jobs.packed_task import unpack_task  # most builders are given programs

    task = unpack_task(job.task)
    began = time.perf_counter()
    program = lower(task, task.space.config(job.digits), job.max_block)
    seconds = time.perf_counter() - began
    if not isinstance(program, Failed):
        key = program_key(program)
        program = replace(program, scalar_loops=program.scalar_loops and job.scalar_loops)
        built = _built(program)
        if not isinstance(built, Failed):
            return pickle.dumps(Lowered(built, key, seconds))
        program = built
    return of_build(replace(program, phases={"lower": seconds}))


def _built(program: Program) -> CompiledProgram | Failed:
    from pegbox.codegen import compile_program  # LLVM is slow to import

    try:
        return compile_program(program, apart=False)
    except CompileError as error:
        return Failed(FailureKind.COMPILE_ERROR, str(error))
    except MemoryError:
        return Failed(FailureKind.COMPILE_ERROR, "compiling ran out of memory")
