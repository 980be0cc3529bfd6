"""Blocks of blocks, and blocks that one machine instruction computes: blockize, tensorize."""

from __future__ import annotations

from pegbox.schedule.base import ScheduleBase


class TensorizePrimitives(ScheduleBase):
    """Nests become single blocks."""
