"""Random decisions that a trace remembers: tile sizes, categories, places."""

from __future__ import annotations

from pegbox.schedule.base import ScheduleBase


class SamplingPrimitives(ScheduleBase):
    """Random decisions."""
