"""Code generation: lowered functions to machine code through LLVM.

Names are imported on first use, and llvmlite only when it is needed: the processes that compile candidates need neither
the emitter nor NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.codegen.compiled import ArgSpec, CompiledProgram
    from pegbox.codegen.emitter.emit import emit
    from pegbox.codegen.emitter.unroll import STEP_LANES
    from pegbox.codegen.emitter.vectorized_loops import MAX_VECTORS
    from pegbox.codegen.program import MOST_STRAIGHT, Program
    from pegbox.codegen.runtime.checked_call import aligned_copy
    from pegbox.codegen.runtime.export import (
        c_header,
        check_export,
        link_shared_library,
        write_object,
        write_shared_library,
    )
    from pegbox.codegen.runtime.kernel import Kernel, build, load
    from pegbox.codegen.runtime.library import load_library
    from pegbox.codegen.runtime.machine import assembly, compile_program, optimized_ir, warm_up
    from pegbox.codegen.runtime.openmp import has_openmp
    from pegbox.codegen.runtime.roof_kernels import LEAST_BYTES
    from pegbox.codegen.runtime.runtime_module import RuntimeModule, build_module
    from pegbox.codegen.runtime.sized_kernel import SizedKernel
    from pegbox.codegen.runtime.time_evaluator import TimeEvaluator, TimeResult
    from pegbox.codegen.targets.cores import usable_cores
    from pegbox.codegen.targets.cpus import LINE
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
    "EMULATED", "LATENCY", "LEAST_BYTES", "LINE", "MAX_VECTORS", "MOST_STRAIGHT", "STEP_LANES", "TARGET_OPTIONS",
    "ArgSpec", "CompiledProgram", "Kernel", "Program", "RuntimeModule", "SizedKernel", "Target", "TimeEvaluator",
    "TimeResult", "aligned_copy", "architecture", "assembly", "build", "build_module", "c_header", "check_export",
    "compile_program", "cpu_features", "cpu_flags", "cpu_model", "cpu_name", "emit", "fits_registers", "has_llvm",
    "has_openmp", "lanes_of", "link_shared_library", "llvm_version", "load", "load_library", "missing_features",
    "optimized_ir", "target_of", "usable_cores", "warm_up", "write_object", "write_shared_library",
]  # fmt: skip

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
