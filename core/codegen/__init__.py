"""Lowered functions to machine code through LLVM. Nothing here imports llvmlite before it is needed."""

from pegbox.codegen.emit import emit
from pegbox.codegen.kernel import Kernel, build, load
from pegbox.codegen.machine import assembly, compile_program, optimized_ir
from pegbox.codegen.program import ArgSpec, CompiledProgram, Program
from pegbox.codegen.target import Target

__all__ = [
    "ArgSpec",
    "CompiledProgram",
    "Kernel",
    "Program",
    "Target",
    "assembly",
    "build",
    "compile_program",
    "emit",
    "load",
    "optimized_ir",
]
