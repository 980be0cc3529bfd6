"""Code generation: lowered functions to machine code through LLVM.

Names are imported when they are first used, and llvmlite when it is needed: the processes that compile candidates do
without the emitter and NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.codegen.emitter.emit import emit
    from pegbox.codegen.program import ArgSpec, CompiledProgram, Program
    from pegbox.codegen.runtime.export import c_header, check_export, write_object, write_shared_library
    from pegbox.codegen.runtime.kernel import Kernel, build, load
    from pegbox.codegen.runtime.library import load_library
    from pegbox.codegen.runtime.machine import assembly, compile_program, optimized_ir, warm_up
    from pegbox.codegen.runtime.runtime_module import RuntimeModule, build_module
    from pegbox.codegen.runtime.sized_kernel import SizedKernel
    from pegbox.codegen.runtime.time_evaluator import TimeEvaluator, TimeResult
    from pegbox.codegen.targets.target import Target

__all__ = [
    "ArgSpec",
    "CompiledProgram",
    "Kernel",
    "Program",
    "RuntimeModule",
    "SizedKernel",
    "Target",
    "TimeEvaluator",
    "TimeResult",
    "assembly",
    "build",
    "build_module",
    "c_header",
    "check_export",
    "compile_program",
    "emit",
    "load",
    "load_library",
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
        "Kernel": "pegbox.codegen.runtime.kernel",
        "Program": "pegbox.codegen.program",
        "RuntimeModule": "pegbox.codegen.runtime.runtime_module",
        "SizedKernel": "pegbox.codegen.runtime.sized_kernel",
        "Target": "pegbox.codegen.targets.target",
        "TimeEvaluator": "pegbox.codegen.runtime.time_evaluator",
        "TimeResult": "pegbox.codegen.runtime.time_evaluator",
        "assembly": "pegbox.codegen.runtime.machine",
        "build": "pegbox.codegen.runtime.kernel",
        "build_module": "pegbox.codegen.runtime.runtime_module",
        "c_header": "pegbox.codegen.runtime.export",
        "check_export": "pegbox.codegen.runtime.export",
        "compile_program": "pegbox.codegen.runtime.machine",
        "emit": "pegbox.codegen.emitter.emit",
        "load": "pegbox.codegen.runtime.kernel",
        "load_library": "pegbox.codegen.runtime.library",
        "optimized_ir": "pegbox.codegen.runtime.machine",
        "warm_up": "pegbox.codegen.runtime.machine",
        "write_object": "pegbox.codegen.runtime.export",
        "write_shared_library": "pegbox.codegen.runtime.export",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
