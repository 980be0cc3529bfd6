"""`tvm.tir.schedule`: the schedule, what it refers to, its trace."""

from __future__ import annotations

from pegbox.errors import ScheduleError as ScheduleError
from pegbox.plugins.tvm.absence import names
from pegbox.tir import BlockRV as BlockRV
from pegbox.tir import LoopRV as LoopRV
from pegbox.tir import Schedule as Schedule
from pegbox.tir import Trace as Trace

__getattr__ = names(__name__)
