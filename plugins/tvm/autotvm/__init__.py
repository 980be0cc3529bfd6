"""`tvm.autotvm`: templates, tuners, measuring and records, by AutoTVM's names."""

from __future__ import annotations

from typing import Any

from pegbox.exports import on_demand

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

_RELAY = "belongs to Relay, which is not here: tune each operator's template as a task of its own"
_ABSENT = {
    "apply_fixed_config": _RELAY,
    "apply_graph_best": _RELAY,
    "database": "is not here: logs are files of records (autotvm.callback.log_to_file)",
    "feature": "is not here: features of programs are in pegbox.features",
    "graph_tuner": _RELAY,
    "tophub": "was a server of logs of Relay's templates; pegbox's tuners have experience of their own",
}

_get = on_demand(__name__, _HOME)


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        raise AttributeError(f"autotvm.{name} {_ABSENT[name]}")
    return _get(name)
