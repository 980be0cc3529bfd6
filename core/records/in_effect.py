"""The records in effect: those of the innermost `apply_history_best`, in a module that loads nothing else."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pegbox.records.history import History

in_effect: ContextVar[History | None] = ContextVar("pegbox_history", default=None)
"""The history of the innermost block around the caller, in its thread or task. Machine code reads it, too."""
