"""`tvm.auto_scheduler`: search without a template, by Ansor's names, over the space generator `sketch`.

    @auto_scheduler.register_workload
    def matmul(N, K, M): ...

    task = auto_scheduler.SearchTask(func=matmul, args=(512, 512, 512), target="llvm")
    task.tune(auto_scheduler.TuningOptions(64, measure_callbacks=[auto_scheduler.RecordToFile("matmul.json")]))
    schedule, args = task.apply_best("matmul.json")

A task is a task of pegbox over sketches, a state one of its configurations, and a log a file of pegbox's records.
"""

from __future__ import annotations

from pegbox.plugins.tvm.absence import names

_NAMES = {
    "compute_dag": "compute_dag ComputeDAG",
    "measure": "measure LocalBuilder LocalRunner MeasureInput MeasureResult",
    "measure_record": ("measure_record RecordReader RecordToFile load_best load_best_record load_records save_records"),
    "search_policy": "search_policy PreloadMeasuredStates RandomModel SketchPolicy XGBModel",
    "search_task": "search_task SearchTask TuningOptions auto_schedule create_task",
    "task_scheduler": "task_scheduler TaskScheduler",
    "workload_registry": "workload_registry make_workload_key register_workload",
}
"""The names by the modules that they are at home in."""

__getattr__ = names(__name__, _NAMES)
