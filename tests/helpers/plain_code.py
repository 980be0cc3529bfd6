"""Kernels without LLVM's optimizer, for tests that ask what a program computes: a tenth of the time.

Seven of eight programs are compiled as they were emitted, the others, by a hash of their text without the kernel's
name, as users get them: what is wrong with a program may show in either. Tests marked with `optimizer` get the
optimizer for all; so do processes that tests start, and what is printed as assembly. With PEGBOX_OPTIMIZE=1 in the
environment all programs get it. No process is started to compile in.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import replace
from functools import cache
from typing import Any

from llvmlite import binding as llvm
from stage import SECOND

from pegbox.codegen.compiled import COMPILE_SECONDS, CompiledProgram
from pegbox.codegen.program import Program
from pegbox.codegen.runtime import isolation, machine, masked_stores
from pegbox.codegen.runtime import llvm as runtime_llvm
from pegbox.codegen.runtime.foreign import prepare
from pegbox.errors import CompileError

_OPTIMIZED = 1 if SECOND else 8  # one program in so many

translate_apart = isolation.translate_apart
optimized = machine.compile_program
always_optimized = False


def install() -> None:
    """Make `build` and its kin compile most programs without the optimizer, and all in this process."""
    isolation.translate_apart = _translate_here

    def compile_program(program: Program, *, apart: bool = True, timeout: float = COMPILE_SECONDS) -> CompiledProgram:
        if always_optimized or not isinstance(program, Program) or is_drawn(program):
            return optimized(program, apart=apart, timeout=timeout)
        return unoptimized(program)

    machine.compile_program = compile_program


def _translate_here(*request: Any, timeout: float) -> bytes:
    return runtime_llvm.translate(*request)


def is_drawn(program: Program) -> bool:
    """Is it one of those that get the optimizer in any test?"""
    return zlib.crc32(unnamed(program).encode()) % _OPTIMIZED == 0


def unnamed(program: Program) -> str:
    """Return the text without the kernel's name: equal kernels are compiled in the same way."""
    return re.sub(rf"(@|; pegbox kernel ){re.escape(program.name)}(?=__timed|\b)", r"\1", program.ll)


def unoptimized(program: Program, *, level: int = 0) -> CompiledProgram:
    """Object code of the text as it is.

    Args:
        level: of the selection of instructions: 0 is LLVM's fastest, 3 that of optimized programs, four times slower.
    """
    prepare(program.foreign, program.target)
    target = program.target
    described = runtime_llvm.TargetMachine(target.triple, target.cpu, target.features)
    try:
        with runtime_llvm.parsed(program.ll, described) as module:
            repaired = masked_stores.without_single_lanes(module)
            if repaired is None:
                return program.compiled(_machine(described, level).emit_object(module), 0.0)
    except RuntimeError as error:
        raise CompileError(f"{program.name}: LLVM rejects the program: {error}") from error
    return unoptimized(replace(program, ll=repaired), level=level)


@cache
def _machine(described: runtime_llvm.TargetMachine, level: int) -> Any:
    """Return `llvm.target_machine` of the runtime with another level; tests may change what a target's features are."""
    return llvm.Target.from_triple(described.triple or llvm.get_process_triple()).create_target_machine(
        cpu=described.cpu, features=described.features, opt=level, reloc="pic", codemodel="default"
    )
