"""The shape of a nest and of blocks: add_unit_loop, loop_partition, reorder_block_iter_var."""

from __future__ import annotations

from pegbox.schedule.base import ScheduleBase


class ReshapePrimitives(ScheduleBase):
    """Loops and block variables anew."""
