"""`tvm.autotvm`: templates, tuners, measuring and logs, by AutoTVM's names.

A task is a task of pegbox, a space and a configuration are pegbox's, and a log is a file of pegbox's records.
"""

from __future__ import annotations

from pegbox.plugins.tvm.absence import names

_HERE = "pegbox.plugins.tvm.autotvm"
_NAMES = {
    "callback": (),
    "measure": ("LocalBuilder", "LocalRunner", "MeasureErrorNo", "MeasureInput", "MeasureResult", "measure_option"),
    "record": ("apply_history_best",),
    "task": (),
    "task.space": ("ConfigSpace",),
    "task.task": ("create", "get_config", "template"),
    "tuner": (),
}
"""The names by the modules that they are at home in."""

_HOME = {
    name.rpartition(".")[2]: f"{_HERE}.{module}"
    for module, names in _NAMES.items()
    for name in (*names, *([] if "." in module else [module]))
}

__getattr__ = names(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(_HOME)
