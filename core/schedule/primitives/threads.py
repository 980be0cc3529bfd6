"""Loops bound to thread axes: bind."""

from __future__ import annotations

from pegbox.schedule.base import ScheduleBase


class ThreadPrimitives(ScheduleBase):
    """Loops become thread axes."""
