"""Lowered functions to machine code through LLVM.

Names are imported when they are first used, and llvmlite when it is needed: the processes that compile candidates do
without the emitter and NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.codegen.emission import emit
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

__getattr__ = on_demand(
    __name__,
    {
        "ArgSpec": "pegbox.codegen.program",
        "CompiledProgram": "pegbox.codegen.program",
        "Kernel": "pegbox.codegen.kernel",
        "Program": "pegbox.codegen.program",
        "RuntimeModule": "pegbox.codegen.runtime_module",
        "Target": "pegbox.codegen.target",
        "TimeEvaluator": "pegbox.codegen.time_evaluator",
        "TimeResult": "pegbox.codegen.time_evaluator",
        "assembly": "pegbox.codegen.machine",
        "build": "pegbox.codegen.kernel",
        "build_module": "pegbox.codegen.runtime_module",
        "c_header": "pegbox.codegen.export",
        "compile_program": "pegbox.codegen.machine",
        "emit": "pegbox.codegen.emission",
        "load": "pegbox.codegen.kernel",
        "optimized_ir": "pegbox.codegen.machine",
        "warm_up": "pegbox.codegen.machine",
        "write_object": "pegbox.codegen.export",
        "write_shared_library": "pegbox.codegen.export",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
