"""`tvm.autotvm.tuner.droplet_tuner`: coordinate descent."""

from __future__ import annotations

from typing import Any

from pegbox.plugins.tvm.autotvm.env import warn_of_option
from pegbox.plugins.tvm.autotvm.task.task import Task
from pegbox.plugins.tvm.autotvm.tuner.built_in import BuiltInTuner


class DropletTuner(BuiltInTuner):
    """pegbox's `droplet`; `pvalue` is the significance level of a step."""

    spec = "droplet"

    def __init__(self, task: Task, start_position: Any = None, pvalue: float | None = None) -> None:
        if start_position is not None:
            warn_of_option("DropletTuner(start_position=)", "a descent begins at the best of a few random ones")
        super().__init__(task, pvalue=pvalue)
