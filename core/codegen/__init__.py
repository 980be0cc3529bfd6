"""Code generation: lowered functions to machine code through LLVM.

Names are imported when they are first used, and llvmlite when it is needed: the processes that compile candidates do
without the emitter and NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import by_name, on_demand

if TYPE_CHECKING:
    from pegbox.codegen.emitter.emit import emit
    from pegbox.codegen.emitter.strip_mining import MAX_VECTORS
    from pegbox.codegen.emitter.unroll import STEP_LANES
    from pegbox.codegen.program import MOST_STRAIGHT, ArgSpec, CompiledProgram, Program
    from pegbox.codegen.runtime.export import c_header, check_export, write_object, write_shared_library
    from pegbox.codegen.runtime.kernel import Kernel, build, load
    from pegbox.codegen.runtime.library import load_library
    from pegbox.codegen.runtime.machine import assembly, compile_program, optimized_ir, warm_up
    from pegbox.codegen.runtime.openmp import has_openmp
    from pegbox.codegen.runtime.peak import LEAST_BYTES
    from pegbox.codegen.runtime.runtime_module import RuntimeModule, build_module
    from pegbox.codegen.runtime.sized_kernel import SizedKernel
    from pegbox.codegen.runtime.time_evaluator import TimeEvaluator, TimeResult
    from pegbox.codegen.targets.cores import usable_cores
    from pegbox.codegen.targets.features import missing_features
    from pegbox.codegen.targets.host import (
        EMULATED,
        architecture,
        cpu_features,
        cpu_flags,
        cpu_model,
        cpu_name,
        has_llvm,
        llvm_version,
    )
    from pegbox.codegen.targets.target import TARGET_OPTIONS, Target, target_of
    from pegbox.codegen.targets.vectors import LATENCY, fits_registers, lanes_of

__all__ = [
    "EMULATED", "LATENCY", "LEAST_BYTES", "MAX_VECTORS", "MOST_STRAIGHT", "STEP_LANES", "TARGET_OPTIONS", "ArgSpec",
    "CompiledProgram", "Kernel", "Program", "RuntimeModule", "SizedKernel", "Target", "TimeEvaluator", "TimeResult",
    "architecture", "assembly", "build", "build_module", "c_header", "check_export", "compile_program",
    "cpu_features", "cpu_flags", "cpu_model", "cpu_name", "emit", "fits_registers", "has_llvm", "has_openmp",
    "lanes_of", "llvm_version", "load", "load_library", "missing_features", "optimized_ir", "target_of",
    "usable_cores", "warm_up", "write_object", "write_shared_library",
]  # fmt: skip

_NAMES = {
    "pegbox.codegen.emitter.emit": "emit",
    "pegbox.codegen.emitter.strip_mining": "MAX_VECTORS",
    "pegbox.codegen.emitter.unroll": "STEP_LANES",
    "pegbox.codegen.program": "MOST_STRAIGHT ArgSpec CompiledProgram Program",
    "pegbox.codegen.runtime.export": "c_header check_export write_object write_shared_library",
    "pegbox.codegen.runtime.kernel": "Kernel build load",
    "pegbox.codegen.runtime.library": "load_library",
    "pegbox.codegen.runtime.machine": "assembly compile_program optimized_ir warm_up",
    "pegbox.codegen.runtime.openmp": "has_openmp",
    "pegbox.codegen.runtime.peak": "LEAST_BYTES",
    "pegbox.codegen.runtime.runtime_module": "RuntimeModule build_module",
    "pegbox.codegen.runtime.sized_kernel": "SizedKernel",
    "pegbox.codegen.runtime.time_evaluator": "TimeEvaluator TimeResult",
    "pegbox.codegen.targets.cores": "usable_cores",
    "pegbox.codegen.targets.features": "missing_features",
    "pegbox.codegen.targets.host": (
        "EMULATED architecture cpu_features cpu_flags cpu_model cpu_name has_llvm llvm_version"
    ),
    "pegbox.codegen.targets.target": "TARGET_OPTIONS Target target_of",
    "pegbox.codegen.targets.vectors": "LATENCY fits_registers lanes_of",
}

__getattr__ = on_demand(__name__, by_name(_NAMES))


def __dir__() -> list[str]:
    return __all__
