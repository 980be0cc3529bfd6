"""Features of programs for cost models, computed for thousands of configurations at once."""

from __future__ import annotations

from functools import lru_cache

from pegbox.features.program import ProgramFeatures
from pegbox.task.task import Task

__all__ = ["ProgramFeatures", "program_features"]


@lru_cache(maxsize=16)
def program_features(task: Task) -> ProgramFeatures:
    """Return the features of a task's programs, made once and shared by all callers."""
    return ProgramFeatures(task)
