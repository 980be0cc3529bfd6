"""`tvm.autotvm`: templates, tuners, measuring and records, by AutoTVM's names."""

from __future__ import annotations

from pegbox.plugins.tvm.absence import names

_HERE = "pegbox.plugins.tvm.autotvm"
_HOME = {
    "ConfigEntity": f"{_HERE}.task.space",
    "ConfigSpace": f"{_HERE}.task.space",
    "DispatchContext": f"{_HERE}.task.dispatcher",
    "FallbackContext": f"{_HERE}.task.dispatcher",
    "GLOBAL_SCOPE": f"{_HERE}.env",
    "LocalBuilder": f"{_HERE}.measure.measure_methods",
    "LocalRunner": f"{_HERE}.measure.measure_methods",
    "MeasureErrorNo": f"{_HERE}.measure.measure",
    "MeasureInput": f"{_HERE}.measure.measure",
    "MeasureResult": f"{_HERE}.measure.measure",
    "RPCRunner": f"{_HERE}.measure.measure_methods",
    "apply_history_best": f"{_HERE}.history",
    "callback": f"{_HERE}.tuner",
    "create": f"{_HERE}.task.task",
    "env": f"{_HERE}.env",
    "get_config": f"{_HERE}.task.task",
    "measure": f"{_HERE}.measure",
    "measure_option": f"{_HERE}.measure.measure_methods",
    "record": f"{_HERE}.record",
    "register_topi_compute": f"{_HERE}.task.task",
    "register_topi_schedule": f"{_HERE}.task.task",
    "task": f"{_HERE}.task",
    "template": f"{_HERE}.task.task",
    "tuner": f"{_HERE}.tuner",
    "utils": f"{_HERE}.utils",
}

__getattr__ = names(__name__, _HOME)
