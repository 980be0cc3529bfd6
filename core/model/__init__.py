"""Models: the tasks of a graph's nodes, their configurations, and the module that runs them all.

Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.model.model import Model, compile_model, extract_tasks, load_model
    from pegbox.model.model_task import ModelTask
    from pegbox.model.module import Module
    from pegbox.model.node_task import Argument, NodeTask, generated_task
    from pegbox.model.result import ModelResult, TaskResult
    from pegbox.model.tuning import tune_model

__all__ = [
    "Argument", "Model", "ModelResult", "ModelTask", "Module", "NodeTask", "TaskResult", "compile_model",
    "extract_tasks", "generated_task", "load_model", "tune_model",
]  # fmt: skip

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
