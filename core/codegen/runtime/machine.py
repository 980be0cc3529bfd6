"""Compilation with LLVM: assembly text to optimized object code (or assembly, or optimized IR)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pegbox.checks import check_flag
from pegbox.codegen.compiled import COMPILE_SECONDS, CompiledProgram
from pegbox.codegen.program import Program, check_program
from pegbox.codegen.runtime import llvm
from pegbox.codegen.runtime.foreign import prepare
from pegbox.codegen.targets.target import Target
from pegbox.errors import CompileError, MeasureError, TargetError


def target_machine(target: Target) -> Any:
    """Make LLVM's back end for a target.

    Raises:
        TargetError: LLVM has none.
    """
    try:
        return llvm.target_machine(llvm.TargetMachine(target.triple, target.cpu, target.features))
    except RuntimeError as error:
        triple = target.triple or llvm.binding().get_process_triple()
        raise TargetError(f"target {str(target)!r}: LLVM has no back end for {triple!r} ({error})") from error


def warm_up() -> None:
    """Load LLVM now, which takes a fifth of a second, so that the first kernel does not wait for it."""
    llvm.binding()


def compile_program(program: Program, *, apart: bool = True, timeout: float = COMPILE_SECONDS) -> CompiledProgram:
    """Compile a program to object code. A search compiles its candidates here, so it times the code that users get.

    A program with scalar loops gets all of LLVM's optimizer, any other only the first half (`docs/codegen.md`). The
    vectorization of scalar loops can end LLVM's process or take forever, so it runs in a separate process. In either
    case, loops stay scalar, with a RuntimeWarning.

    Args:
        apart: compile in a separate process; False in processes that may end, whose parent limits the time.
        timeout: the seconds that LLVM may take in a separate process.

    Raises:
        ArgumentError: `apart` is neither true nor false.
        CompileError: LLVM rejects the text (a defect of the emitter, or an edited text), or takes longer than
            `timeout`.
        TargetError: LLVM has no back end for the target.
    """
    check_program(program)
    check_flag("apart", apart)
    prepare(program.foreign, program.target)
    started = time.perf_counter()
    code = _translated(program, "object", apart=apart, timeout=timeout)
    return program.compiled(code, time.perf_counter() - started)


def assembly(program: Program) -> str:
    """Return the machine code as assembly text."""
    return _translated(program, "assembly").decode()


def optimized_ir(program: Program) -> str:
    """Return LLVM assembly after the optimizer, before instruction selection."""
    return _translated(program, "ir").decode()


def _translated(program: Program, form: llvm.Form, *, apart: bool = True, timeout: float = COMPILE_SECONDS) -> bytes:
    """Run the passes that the program needs, or fewer if LLVM does not survive them."""
    target = check_program(program).target
    target_machine(target)
    arguments = program.ll, llvm.TargetMachine(target.triple, target.cpu, target.features), form
    with _rejections(program):
        if not apart:
            return llvm.translate_or_end(*arguments, "all" if program.scalar_loops else "simplification")
        from pegbox.codegen.runtime import isolation  # slow to import; builders do without it

        if program.scalar_loops:
            try:
                return isolation.translate_apart(*arguments, "all", timeout=timeout)
            except llvm.ProcessDied as death:
                warnings.warn(
                    f"{program.name}: LLVM fails to vectorize its scalar loops, which stay scalar ({death})",
                    RuntimeWarning,
                    stacklevel=4,
                )
        return isolation.translate_apart(*arguments, "simplification", timeout=timeout)


@contextmanager
def _rejections(program: Program) -> Iterator[None]:
    try:
        yield
    except llvm.OutOfTime as error:
        where = f" (written out: the loops {', '.join(program.written_out)})" if program.written_out else ""
        raise CompileError(
            f"{program.name}: LLVM takes longer than {error.seconds:g} s for {program.instructions:,} instructions, up "
            f"to {program.longest_block:,} of them without a branch{where}; unroll fewer loops, lower "
            "auto_unroll_max_step, compute long expressions in several stages, or allow more time: "
            "pegbox.build(..., timeout=SECONDS)"
        ) from None
    except MeasureError as error:
        raise CompileError(f"{program.name}: LLVM runs in a separate process, and {error}") from error
    except RuntimeError as error:
        raise CompileError(f"{program.name}: LLVM rejects the program: {str(error).strip()[:2000]}") from error
