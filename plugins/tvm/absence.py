"""Names of TVM's that are not here, and what there is instead."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.abc import MetaPathFinder
from typing import Any

from pegbox.errors import PegboxError
from pegbox.exports import on_demand

_PACKAGE = "pegbox.plugins.tvm"
_RELAY = "it belongs to Relay; tune each operator as a task of its own"
_TYPES = "types are strings here: A.dtype == 'float32'"
_OBJECTS = "objects of pegbox are Python's: tuples, dicts, strings"
_CPUS = "pegbox makes code for CPUs only, with LLVM: Target('llvm')"
_PASSES = "lowering runs no passes of others; change the program before, with tir.Schedule"
_RPC = "kernels are measured on this machine; a runner of your own may measure elsewhere (docs/write-a-runner.md)"
_OPERATIONS = "operations here are PlaceholderOp, ComputeOp, ScanOp and ExternOp"
_BOUNDS = "lower the schedule and read the extents of its loops: tvm.lower(s, args, simple_mode=True)"
_KNOBS = "cfg.space_map holds the knobs of pegbox, which have len() and entities"
_LEARNED = "the model is a plugin of pegbox; write one of your own (docs/write-a-cost-model.md)"
_FEATURES = "pegbox.features computes the features of programs (docs/features.md)"
_TRACE = "schedule.trace holds the steps of a tir.Schedule, which can be printed, saved and replayed"
_PROGRAM = "a schedule checks each step itself; schedule.mod is the program"
_HELPER = "a helper of AutoTVM's own code, without a counterpart"

_ABSENT: Mapping[str, Mapping[str, str]] = {
    "": {
        "simplification is a part of building expressions; bounds come from the loops": "arith",
        "it schedules for GPUs; search with auto_scheduler": "dlight",
        "search with auto_scheduler, over the same kind of sketches, or with autotvm": "meta_schedule",
        _TYPES: "DataType DataTypeCode",
        _OBJECTS: "Object register_object register_extension container",
        _CPUS: "cl mtl vpi ext_dev hexagon webgpu",
        _PASSES: "instrument",
        "programs are read by tvm.script.from_source": "parser",
        "pegbox.__version__ and tvm.__version__ say what this is": "support info_mem",
        "write the kernels as object files, mod.save('kernel.o'), and link them": "micro",
        "pegbox takes operators, one by one; make tasks of them with autotvm or auto_scheduler": "relax relay",
        "kernels run on this machine; mod.export_library('kernel.so') makes a file that can be copied": "rpc",
    },
    "contrib": {
        "it runs models of Relay; a kernel is called with its arrays: mod(a, b, c)": (
            "graph_executor graph_runtime debugger pipeline_executor"
        ),
        _CPUS: "nvcc rocm cublas cudnn cutlass xcode ndk hexagon emcc",
        "write the computation with te, or call a library with te.extern (docs/compute.md)": (
            "mkl sort random torch tflite_runtime"
        ),
        "arrays of NumPy are passed as they are; others have a method that makes them one": "dlpack",
        "pickle keeps schedules and tasks": "pickle_memoize",
        _RPC: "rpc",
    },
    "te": {_OPERATIONS: "TensorComputeOp HybridOp"},
    "te.operation": {_OPERATIONS: "TensorComputeOp HybridOp"},
    "te.tensor": {_OPERATIONS: "TensorComputeOp HybridOp"},
    "te.schedule": {_BOUNDS: "InferBound ScheduleOps"},
    "autotvm": {
        _RELAY: "graph_tuner apply_graph_best",
        "logs are files of records, which autotvm.callback.log_to_file writes": "database",
        _FEATURES: "feature",
        "pegbox has experience of its own; apply_history_best reads your logs": "tophub",
    },
    "autotvm.task": {
        _RELAY: (
            "ApplyGraphBest TaskExtractEnv get_workload extract_from_program extract_from_multiple_program "
            "topi_integration relay_integration"
        ),
        "records hold a fingerprint of the task instead": "attach_code_hash attach_code_hash_to_arg code_hash",
    },
    "autotvm.task.task": {"@autotvm.template makes templates of functions": "TaskTemplate MissingTask"},
    "autotvm.task.space": {
        _KNOBS: "TransformSpace SplitSpace ReorderSpace AnnotateSpace OtherOptionSpace",
        "cfg.axis(extent) makes the axes of a space": "Axis",
    },
    "autotvm.task.dispatcher": {_RELAY: "ApplyGraphBest"},
    "autotvm.measure": {_HELPER: "executor"},
    "autotvm.measure.measure_methods": {"code is made for CPUs only": "set_cuda_target_arch"},
    "autotvm.tuner": {_LEARNED: "model_based_tuner sa_model_optimizer xgboost_cost_model", _HELPER: "metric"},
    "autotvm.record": {"lines are records of pegbox (docs/measuring.md); AutoTVM's 0.2 is read": "AUTOTVM_LOG_VERSION"},
    "autotvm.utils": {_HELPER: "EmptyContext get_rank sample_ints pool_map get_func_name"},
    "autotvm.env": {_HELPER: "reset_global_scope"},
    "auto_scheduler": {_FEATURES: "feature"},
    "auto_scheduler.dispatcher": {"a query without a record gives None": "FallbackContext"},
    "auto_scheduler.measure": {
        "files of kernels are made by export_library": "BuildFunc",
        "pegbox draws the inputs of a kernel (docs/measuring.md); SearchTask(task_inputs=...) gives others": (
            "prepare_input_map prepare_runner_args"
        ),
    },
    "auto_scheduler.relay_integration": {_RELAY: "TracingMode TracingEnvironment auto_schedule_topi"},
    "auto_scheduler.task_scheduler": {"TaskScheduler.tune makes them": "make_search_policies"},
    "auto_scheduler.workload_registry": {
        "import the module that registers the workloads": "save_workload_func_registry load_workload_func_registry",
    },
    "ir.transform": {
        _PASSES: "Pass Sequential ModulePass module_pass function_pass PassInfo PrintIR",
    },
    "runtime": {
        _TYPES: "DataType DataTypeCode",
        _OBJECTS: "Object ObjectGeneric ObjectTypes String ShapeTuple PackedFunc",
        _CPUS: "vpi",
        "a kernel is called with its arrays": "vmobj system_lib ModuleImporter",
        "time_evaluator(...) gives the times of a kernel": "Report",
    },
    "testing": {
        "decorators of pytest do the same": (
            "fixture parametrize_targets uses_gpu requires_package known_failing_targets skip_if_32bit"
        ),
    },
    "target": {
        _CPUS: ("adreno bifrost cuda hexagon intel_graphics mali metal opencl rocm stm32 vta vulkan"),
        "name the machine: Target('llvm -mtriple=riscv64-linux-gnu')": "riscv_cpu",
        "processors have names: Target('llvm -mcpu=cortex-a72')": "rasp list_tags tag list_kinds",
        "functions for each target are Python's: ask target.mcpu": "generic_func override_native_generic_func",
        "kernels run on this machine": "VirtualDevice",
    },
    "ir": {
        "pickle keeps schedules, and func.script() programs as text": "save_json load_json make_node",
        _PASSES: "instrument",
        _OBJECTS: "Array Map Attrs Node Range",
        _TYPES: "Type PrimType TensorType PointerType TupleType FuncType",
        "two programs are compared by structural_equal": "structural_hash",
        "errors name the line of the script": "Span SourceName",
    },
    "tir": {
        "tvm.lower and tvm.build run pegbox's own passes": "transform usmp",
        "operators and functions make expressions: a + b, te.maximum(a, b), a < b, te.all(a, b)": (
            "Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or Let"
        ),
        "loops make vectors: vectorize one; scripts have T.Ramp and T.Broadcast": (
            "Ramp Broadcast Shuffle vectorlow vectorhigh vectorcombine"
        ),
        "expressions have no bits; powers of two do: x * 2**n, x // 2**n, x % 2**n": (
            "shift_left shift_right bitwise_and bitwise_or bitwise_xor bitwise_not"
        ),
        "what is known of sizes comes from the loops; leave it out": "likely assume undef",
        "te.comm_reducer and te.sum are in te": "comm_reducer Reduce",
        "vectors have the lanes that a loop has; a target says how many there are: target.vector_bits": "vscale",
    },
    "tir.analysis": {"a task counts its operations: task.flop": "estimate_tir_flops"},
    "tir.schedule": {
        _TRACE: "Instruction InstructionKind",
        "the values that a schedule draws are plain numbers": "ExprRV RAND_VAR_TYPE",
        _PROGRAM: "BlockScope DepKind Dependency StmtSRef ScheduleState ScheduleDebugMask analysis",
    },
}


class NotHere(PegboxError, ImportError):
    """A name of TVM's that pegbox has not; an ImportError, so that `from ... import` shows what it says."""


class _Absent(MetaPathFinder):
    """Says of the modules of TVM's that are not here what there is instead, after Python has found none."""

    def find_spec(self, fullname: str, _path: object, _target: object = None) -> None:
        home, _, name = fullname.removeprefix(_PACKAGE).removeprefix(".").rpartition(".")
        if fullname.startswith(f"{_PACKAGE}.") and (remedy := absences(home).get(name)):
            raise NotHere(f"{'.'.join(filter(None, ['tvm', home, name]))} is not here: {remedy}")


def watch_imports() -> None:
    """Let `import tvm.relay` say what there is instead, as `tvm.relay` does."""
    if not any(isinstance(finder, _Absent) for finder in sys.meta_path):
        sys.meta_path.append(_Absent())


def absences(home: str) -> dict[str, str]:
    """The names of a module of TVM, such as "autotvm.task", that are not here, with their remedies."""
    return {name: remedy for remedy, names in _ABSENT.get(home, {}).items() for name in names.split()}


def names(package: str, homes: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """The `__getattr__` of a module of `pegbox.plugins.tvm`: names that are at home elsewhere, and what is not here."""
    home = package.removeprefix(_PACKAGE).removeprefix(".")
    remedies, found = absences(home), None if homes is None else on_demand(package, homes)

    def get(name: str) -> Any:
        if name in remedies:
            raise NotHere(f"{'.'.join(filter(None, ['tvm', home, name]))} is not here: {remedies[name]}")
        if found is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return found(name)

    return get
