"""Models: the tasks of a graph's nodes, the configurations that they run with, and the module that runs them all.

Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.model.model import Model, compile_model, extract_tasks, load_model
    from pegbox.model.model_task import ModelTask
    from pegbox.model.node_task import Argument, NodeTask

__all__ = ["Argument", "Model", "ModelTask", "NodeTask", "compile_model", "extract_tasks", "load_model"]

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
