"""Features of programs for cost models, computed for thousands of configurations at once."""

from __future__ import annotations

from functools import lru_cache

from pegbox.features.program import ProgramFeatures
from pegbox.task.task import Task

__all__ = ["ProgramFeatures", "program_features"]


@lru_cache(maxsize=16)
def program_features(task: Task) -> ProgramFeatures:
    """The features of a task's programs; made once, so that what was found out serves all who ask."""
    return ProgramFeatures(task)
