"""Taking a reduction apart into partial results and their sum: rfactor."""

from __future__ import annotations

from pegbox.schedule.base import ScheduleBase


class RfactorPrimitives(ScheduleBase):
    """Partial results."""
