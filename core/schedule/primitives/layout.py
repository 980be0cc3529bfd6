"""Other layouts of buffers and blocks: reindex, transform_layout, pad_einsum."""

from __future__ import annotations

from pegbox.schedule.base import ScheduleBase


class LayoutPrimitives(ScheduleBase):
    """Other index orders for the same elements."""
