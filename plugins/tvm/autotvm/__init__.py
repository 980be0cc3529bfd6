"""`tvm.autotvm`: templates, tuners, measuring and logs, by AutoTVM's names.

A task is a task of pegbox, a space and a configuration are pegbox's, and a log is a file of pegbox's records.
"""

from __future__ import annotations

from pegbox.plugins.tvm.absence import names

_NAMES = {
    "callback": "callback",
    "measure": "measure LocalBuilder LocalRunner MeasureErrorNo MeasureInput MeasureResult measure_option",
    "record": "record apply_history_best",
    "task": "task",
    "task.space": "ConfigSpace",
    "task.task": "create get_config template",
    "tuner": "tuner",
}
"""The names by the modules that they are at home in."""

__getattr__ = names(__name__, _NAMES)
