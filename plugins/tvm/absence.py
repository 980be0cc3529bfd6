"""The names of TVM that are not here, each with the reason and the remedy: one table for modules, names and options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from pegbox.checks import near_names
from pegbox.errors import ArgumentError, PegboxError
from pegbox.hooks import on_demand

_PACKAGE = "pegbox.plugins.tvm"

_REASONS = {
    # The parts of TVM
    "a model is a file of ONNX: pegbox.load_model, tune_model and compile_model (docs/from-tvm.md)": """
        relay relax contrib.graph_executor contrib.graph_runtime contrib.debugger contrib.pipeline_executor
        autotvm.graph_tuner autotvm.apply_graph_best autotvm.ApplyGraphBest autotvm.TaskExtractEnv autotvm.get_workload
        autotvm.extract_from_program autotvm.extract_from_multiple_program autotvm.task.topi_integration
        autotvm.task.relay_integration auto_scheduler.extract_tasks auto_scheduler.relay_integration
        auto_scheduler.is_auto_scheduler_enabled auto_scheduler.remove_index_check auto_scheduler.rewrite_compute_body
        auto_scheduler.rewrite_tensor_shape driver.tvmc tvmc parser runtime.vm runtime.relax_vm runtime.profiler_vm
        runtime.executor runtime.graph_executor runtime.params runtime.disco script.relax autotvm.testing
        auto_scheduler.testing contrib.onnx contrib.codegen_onnx contrib.tflite_runtime contrib.coreml_runtime
        contrib.mxnet contrib.torch contrib.tf_op contrib.relay_viz contrib.pipeline_executor_build contrib.cuda_graph
        contrib.cu_graph contrib.target contrib.msc contrib.tedd contrib.imagenet_classes ir.adt
        target.compilation_config target.virtual_device
    """,
    "search with auto_scheduler, over the same kind of sketches, or with autotvm": "meta_schedule dlight",
    "lowering runs pegbox's own passes; change the program before it, with tir.Schedule": """
        arith instrument transform ir.transform ir.instrument tir.transform tir.usmp tir.analysis tir.stmt_functor
        te.schedule.InferBound te.schedule.ScheduleOps
    """,
    "candidates run on this machine; a runner plugin may run them elsewhere (docs/write-a-runner.md)": """
        rpc contrib.rpc micro autotvm.RPCRunner autotvm.request_remote auto_scheduler.RPCRunner
        auto_scheduler.LocalRPCMeasureContext
        contrib.popen_pool contrib.micro
    """,
    "code is generated for CPUs, by LLVM: Target('llvm')": """
        cl mtl vpi ext_dev hexagon webgpu contrib.nvcc contrib.rocm contrib.cublas contrib.cudnn contrib.cutlass
        contrib.xcode contrib.ndk contrib.hexagon contrib.emcc target.adreno target.bifrost target.cuda target.hexagon
        target.mali target.metal target.opencl target.rocm target.vulkan
        contrib.cublaslt contrib.cusparse contrib.miopen contrib.rocblas contrib.hipblas contrib.hipcc contrib.mps
        contrib.spirv contrib.thrust contrib.tvmjs contrib.emscripten contrib.stackvm contrib.ethosu contrib.gemmini
        contrib.sdaccel contrib.cuda contrib.composable_kernel contrib.adreno_recording
    """,
    "name the processor, as in Target('llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72')": """
        target.arm_cpu target.riscv_cpu target.rasp target.list_tags target.list_kinds target.tag
        target.detect_target target.x86
    """,
    "objects and types are Python's own: tuples, dicts, strings": """
        Object register_object register_extension container DataType DataTypeCode runtime.DataType runtime.Object
        runtime.String runtime.ShapeTuple runtime.PackedFunc ir.Array ir.Map ir.Attrs ir.Node ir.Range ir.Type
        ir.PrimType ir.TensorType ir.PointerType ir.FuncType
        runtime.container runtime.object runtime.object_generic runtime.packed_func runtime.script_printer
        runtime.support runtime.name_transforms ir name_supply attrs datatype target.datatype
    """,
    "tvm.register_func and tvm.get_global_func are the functions": "_ffi ffi base _api_internal",
    "pegbox has no library of its own; pegbox.__version__ is its version": "libinfo support _pyversion rust",
    "te and tir have the names, tvm.nd the arrays": """
        api make ndarray schedule tensor tag expr expr_functor stmt ir_pass ir_builder ir_functor intrin tensor_intrin
    """,
    "tvm.build compiles a program, and tvm.lower shows it": "driver build_module codegen module target.codegen",
    "tvm.transform.PassContext takes the options": "build_config target.build_config",
    "tvm.target.Target is the class": "target.target",
    "tvm.ir.register_intrin_lowering and tvm.ir.register_op_attr are the functions": "ir.op target.intrin",
    "write a function for each target": "generic target.generic target.generic_func",
    "results say how much of the machine's peak a kernel reaches (docs/results.md)": "utils contrib.peak",
    "time_evaluator times a kernel": "runtime.profiling runtime.debugger",
    "the commands are pegbox's (docs/cli.md), and candidates run on this machine": "exec",
    "pegbox reads the scripts (docs/script.md): tvm.script.ir_module, tvm.script.tir, tvm.script.from_source": "script",
    "tvm.contrib.utils has tempdir": "contrib.util",
    "Python's library does it: urllib, tarfile, pickle": """
        contrib.download contrib.tar contrib.pickle_memoize contrib.binutil
    """,
    "kernels take arrays that support DLPack: NumPy's, torch's, JAX's": "dlpack contrib.dlpack",
    "pickle keeps schedules, and func.script() is the text of a program": "ir.save_json ir.load_json",
    "decorators of pytest do it": "testing",
    # topi, te, tir
    "TVM's schedules of single processors are not in pegbox; topi.generic.schedule_... is a plain one, and "
    "pegbox.create_task(workload, space='sketch') searches a fast one": "topi.x86 topi.cuda topi.arm_cpu",
    "compute the reference with NumPy": "topi.testing topi_testing",
    "write the operator with te.compute": "topi",
    "write the computation with te.compute, or call a library in te.extern (docs/compute.md)": """
        contrib hybrid autodiff operator te.extern_primfunc te.hybrid te.gradient te.autodiff
        te.TensorComputeOp te.HybridOp
    """,
    "kernels print nothing; make the stage an output": "te.trace",
    "kernels are compiled for each set of sizes": "te.SpecializedCondition",
    "te has the names: te.Schedule, te.ComputeOp, te.placeholder": """
        te.schedule te.tensor te.operation te.tensor_intrin te.tag
    """,
    "tir.Schedule transforms layouts": "te.AXIS_SEPARATOR",
    "operators and functions make expressions: a + b, te.maximum(a, b), te.all(a, b)": """
        tir.Add tir.Sub tir.Mul tir.Div tir.Mod tir.FloorDiv tir.FloorMod tir.Min tir.Max tir.EQ tir.NE tir.LT tir.LE
        tir.GT tir.GE tir.And tir.Or tir.Let
    """,
    "schedule.trace holds the steps of a schedule, and schedule.mod is its program": "tir.schedule",
    "programs are pegbox.loops' (docs/script.md)": "tir",
    # autotvm
    "an untuned template runs with its fallback; autotvm.apply_history_best chooses another": """
        autotvm.DispatchContext autotvm.FallbackContext autotvm.ApplyConfig autotvm.clear_fallback_cache
        autotvm.task.dispatcher
    """,
    "configurations are pegbox's (docs/spaces.md)": "autotvm.ConfigEntity",
    "cfg.is_fallback says that nothing was tuned": "autotvm.FallbackConfigEntity",
    "config_space.space_map holds the knobs, which are pegbox's (docs/spaces.md)": "autotvm.task.space",
    "write one function that computes and schedules, with @autotvm.template": """
        autotvm.register_topi_compute autotvm.register_topi_schedule autotvm.TaskTemplate autotvm.MissingTask
    """,
    "records hold a fingerprint of the task": """
        autotvm.attach_code_hash autotvm.attach_code_hash_to_arg autotvm.task.code_hash
    """,
    "arguments of templates are numbers, text, and tuples of them": """
        autotvm.serialize_args autotvm.deserialize_args autotvm.args_to_workload
    """,
    "task.flop counts the operations; cfg.add_flop adds to them": "autotvm.compute_flop autotvm.FlopCalculationError",
    "autotvm.apply_history_best has the best of a log": "autotvm.task.ApplyHistoryBest",
    "autotvm.measure has the names": "autotvm.measure.measure autotvm.measure.measure_methods",
    "a runner plugin runs candidates in its own way (docs/write-a-runner.md)": "autotvm.measure",
    "autotvm.tuner has the names": """
        autotvm.tuner.tuner autotvm.tuner.ga_tuner autotvm.tuner.index_based_tuner autotvm.tuner.xgboost_tuner
        autotvm.tuner.droplet_tuner
    """,
    "write a class with fit and predict (docs/write-a-cost-model.md)": """
        autotvm.tuner.model_based_tuner autotvm.tuner.sa_model_optimizer autotvm.tuner.xgboost_cost_model
        autotvm.tuner.metric autotvm.tuner.XGBTuner.optimizer auto_scheduler.PythonBasedModel auto_scheduler.cost_model
    """,
    "a log is a file of records: autotvm.callback.log_to_file writes it, and pegbox's commands read it": """
        autotvm.record autotvm.database autotvm.callback
    """,
    "pegbox.features computes the features of programs (docs/features.md)": "autotvm.feature auto_scheduler.feature",
    "pegbox has experience of its own; autotvm.apply_history_best reads your logs": "autotvm.tophub",
    "the logger is logging.getLogger('autotvm')": "autotvm.env autotvm.GLOBAL_SCOPE",
    "it is a helper of TVM's own code": """
        autotvm.utils autotvm.util auto_scheduler.utils auto_scheduler.derive_similarity_tag
    """,
    # auto_scheduler
    "sketches come from pegbox's rules; a plugin may add rules (docs/sketch.md)": """
        auto_scheduler.PreloadCustomSketchRule auto_scheduler.loop_state
    """,
    "auto_scheduler.SketchPolicy is the policy": """
        auto_scheduler.SearchPolicy auto_scheduler.SearchCallback auto_scheduler.make_search_policies
    """,
    "auto_scheduler.search_task has the names": "auto_scheduler.auto_schedule",
    "tvm.build compiles a schedule without a search": "auto_scheduler.EmptyPolicy",
    "the target has the numbers: Target('llvm -mcpu=... -num-cores 4')": """
        auto_scheduler.HardwareParams auto_scheduler.SearchTask.hardware_params
    """,
    "pegbox's spaces pack operands: see pack_weights in docs/sketch.md": """
        auto_scheduler.LayoutRewriteOption auto_scheduler.get_shape_from_rewritten_layout
        auto_scheduler.SearchTask.layout_rewrite_option
    """,
    "give the arrays to the task: SearchTask(task_inputs={name: array})": """
        auto_scheduler.SearchTask auto_scheduler.register_task_input_check_func auto_scheduler.prepare_input_map
        auto_scheduler.prepare_runner_args auto_scheduler.register_task_input_buffer
        auto_scheduler.get_task_input_buffer auto_scheduler.TASK_INPUT_BUFFER_TABLE
    """,
    "auto_scheduler.load_best_record reads the best of a log, and task.apply_best schedules it": """
        auto_scheduler.ApplyHistoryBest auto_scheduler.ApplyHistoryBestOrSample auto_scheduler.DispatchContext
        auto_scheduler.dispatcher
    """,
    "register_workload takes functions; import the module with them where they are needed": """
        auto_scheduler.workload_registry
    """,
    "the records of a search hold every trial; a TaskSchedulerCallback may write more": """
        auto_scheduler.LogEstimatedLatency
    """,
    # Options
    "pegbox's tuner decides it (docs/tuners.md)": """
        autotvm.tuner auto_scheduler.SketchPolicy auto_scheduler.TaskScheduler auto_scheduler.XGBModel
    """,
    "pegbox measures in its own way (docs/measuring.md)": """
        LocalBuilder LocalRunner auto_scheduler.measure auto_scheduler.measure_record Module.time_evaluator
    """,
    "the library holds the kernels alone": "Module.export_library",
    "lowering is always the same": "PassContext",
}
"""The names, and options of functions, by the reason: a name answers for all that is below it, unless that has its own.

A name of a package answers in each of its modules: "autotvm.RPCRunner" for "autotvm.measure.RPCRunner".
"""

_ELSE = "docs/from-tvm.md lists the names that are"


class NotHere(PegboxError, ImportError):
    """A module or name of TVM's that is not here; an ImportError, so that `from ... import` shows its message."""


class NoAttribute(PegboxError, AttributeError):
    """A name of TVM's that is not an attribute here; `hasattr` is False."""


def _reason(name: str) -> str:
    """Return the reason for a name, "autotvm.tophub"; empty where the table has none."""
    reasons = {each: reason for reason, names in _REASONS.items() for each in names.split()}
    parts = name.split(".")
    parents = [".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]
    return next((reasons[each] for each in (name, f"{parts[0]}.{parts[-1]}", *parents) if each in reasons), "")


def _absence(name: str) -> str:
    return f"tvm.{name} is not here: {_reason(name) or _ELSE}"


def refuse(owner: str, options: Mapping[str, Any]) -> None:
    """Raise `ArgumentError` for options of TVM's that have no meaning here; None is taken for none."""
    for name, value in options.items():
        if value is not None:
            raise ArgumentError(f"{owner}({name}={value!r}): {_reason(f'{owner}.{name}') or _ELSE}; leave it out")


class _Finder(MetaPathFinder):
    """A finder for the modules of this package, each of which then answers for TVM's names that are not in it."""

    def find_spec(self, fullname: str, path: Any, _target: object = None) -> ModuleSpec | None:
        if not fullname.startswith(f"{_PACKAGE}."):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None:
            raise NotHere(_absence(fullname.removeprefix(f"{_PACKAGE}.")))
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            vars(module).setdefault("__getattr__", names(fullname))

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def watch_imports() -> None:
    """Let absent names, and imports of absent modules such as `tvm.relay`, give the reason."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _is_offered(name: str, value: object) -> bool:
    """Decide if a name of a module is one that users import, not another module or Python's own."""
    own = str(getattr(value, "__module__", _PACKAGE)).startswith("pegbox")
    return own and not name.startswith("_") and not isinstance(value, ModuleType)


def names(package: str, homes: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Make the `__getattr__` of a module of this package.

    Args:
        homes: the names in each of its modules, which are imported when they are first used.
    """
    places = {name: f"{package}.{module}" for module, listed in (homes or {}).items() for name in listed.split()}
    found = on_demand(package, places)
    module = vars(sys.modules[package])
    module.setdefault("__path__", [])  # so that Python asks the finder for modules below it
    if homes:
        module["__dir__"] = lambda: sorted({*places, *({"__version__"} & module.keys())})

    def get(name: str) -> Any:
        dotted = f"{package.removeprefix(_PACKAGE)}.{name}".removeprefix(".")
        if name not in places and not name.startswith("__") and _reason(dotted):
            raise NoAttribute(_absence(dotted))
        if name not in places:
            known = sorted(each for each in dir(sys.modules[package]) if _is_offered(each, module.get(each)))
            raise AttributeError(f"module {package!r} has no attribute {name!r}{near_names(name, known)}")
        return found(name)

    return get
