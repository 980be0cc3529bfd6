"""Where and how a buffer is kept: set_scope, storage_align, double buffers."""

from __future__ import annotations

from pegbox.schedule.base import ScheduleBase


class StoragePrimitives(ScheduleBase):
    """Properties of intermediate buffers."""
