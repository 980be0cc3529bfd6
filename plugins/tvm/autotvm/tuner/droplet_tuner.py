"""`tvm.autotvm.tuner.droplet_tuner`: coordinate descent."""

from __future__ import annotations

from typing import Any

from pegbox.plugins.tvm.autotvm.task.task import Task
from pegbox.plugins.tvm.autotvm.tuner.built_in import BuiltInTuner
from pegbox.plugins.tvm.notice import means_nothing


class DropletTuner(BuiltInTuner):
    """pegbox's `droplet`; `pvalue` is the significance level of a step."""

    spec = "droplet"

    def __init__(self, task: Task, start_position: Any = None, pvalue: float | None = None) -> None:
        if start_position is not None:
            means_nothing("DropletTuner(start_position=)", "a descent begins at the best of a few random ones")
        super().__init__(task, pvalue=pvalue)
