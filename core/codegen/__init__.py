"""Lowered functions to machine code through LLVM. Nothing here imports llvmlite before it is needed."""

from pegbox.codegen.emit import emit
from pegbox.codegen.export import c_header, write_object, write_shared_library
from pegbox.codegen.kernel import Kernel, build, load
from pegbox.codegen.machine import assembly, compile_program, optimized_ir, warm_up
from pegbox.codegen.program import ArgSpec, CompiledProgram, Program
from pegbox.codegen.runtime_module import RuntimeModule, build_module
from pegbox.codegen.target import Target
from pegbox.codegen.time_evaluator import TimeEvaluator, TimeResult

__all__ = [
    "ArgSpec",
    "CompiledProgram",
    "Kernel",
    "Program",
    "RuntimeModule",
    "Target",
    "TimeEvaluator",
    "TimeResult",
    "assembly",
    "build",
    "build_module",
    "c_header",
    "compile_program",
    "emit",
    "load",
    "optimized_ir",
    "warm_up",
    "write_object",
    "write_shared_library",
]
