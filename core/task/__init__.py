"""Templates, tasks, workloads and space generators, and costs in words.

Names are imported when they are first used, so that a command's help loads no schedules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.task.apply import handle
    from pegbox.task.config_view import ApplyingConfig, KnobValues, TemplateConfig
    from pegbox.task.dag import ComputeDAG
    from pegbox.task.group import TaskGroup, task_of, tasks_of
    from pegbox.task.speed_text import format_cost, format_speed
    from pegbox.task.task import Task, create_task
    from pegbox.task.template import Template
    from pegbox.task.workload import GeneratedTemplate, Space, SpaceGenerator, Workload, find_workload

__all__ = [
    "ApplyingConfig", "ComputeDAG", "GeneratedTemplate", "KnobValues", "Space", "SpaceGenerator",
    "Task", "TaskGroup", "Template", "TemplateConfig", "Workload", "create_task", "find_workload", "format_cost",
    "format_speed", "handle", "task_of", "tasks_of",
]  # fmt: skip

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
