"""`tvm.auto_scheduler`: search without a template, by Ansor's names, over the space generator `sketch`.

    @auto_scheduler.register_workload
    def matmul(N, K, M): ...

    task = auto_scheduler.SearchTask(func=matmul, args=(512, 512, 512), target="llvm")
    task.tune(auto_scheduler.TuningOptions(64, measure_callbacks=[auto_scheduler.RecordToFile("matmul.json")]))
    schedule, args = task.apply_best("matmul.json")

Records are those of pegbox (docs/measuring.md): what reads them reads these.
"""

from __future__ import annotations

from pegbox.plugins.tvm.absence import names

_PACKAGE = "pegbox.plugins.tvm.auto_scheduler"

# One line a module: the names that are at home in it.
_NAMES = {
    "compute_dag": ("ComputeDAG", "LayoutRewriteOption", "get_shape_from_rewritten_layout"),
    "cost_model": ("RandomModel", "XGBModel"),
    "dispatcher": ("ApplyHistoryBest", "ApplyHistoryBestOrSample", "DispatchContext"),
    "loop_state": (),
    "measure": (
        "LocalBuilder",
        "LocalRPCMeasureContext",
        "LocalRunner",
        "MeasureInput",
        "MeasureResult",
        "RPCRunner",
        "register_task_input_check_func",
    ),
    "measure_record": ("RecordReader", "RecordToFile", "load_best", "load_best_record", "load_records", "save_records"),
    "relay_integration": (
        "extract_tasks",
        "is_auto_scheduler_enabled",
        "remove_index_check",
        "rewrite_compute_body",
        "rewrite_tensor_shape",
    ),
    "search_policy": ("EmptyPolicy", "PreloadCustomSketchRule", "PreloadMeasuredStates", "SketchPolicy"),
    "search_task": ("HardwareParams", "SearchTask", "TuningOptions", "auto_schedule", "create_task"),
    "task_scheduler": ("TaskScheduler",),
    "utils": (),
    "workload_registry": ("make_workload_key", "register_workload"),
}

_HOME = {name: f"{_PACKAGE}.{module}" for module, names in _NAMES.items() for name in (module, *names)}

__getattr__ = names(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(_HOME)
