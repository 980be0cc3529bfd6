"""Schedules: `Schedule` edits a program step by step, `Trace` is what it did."""

from pegbox.schedule.handles import BlockRef as BlockRef
from pegbox.schedule.handles import BlockRV as BlockRV
from pegbox.schedule.handles import LoopRef as LoopRef
from pegbox.schedule.handles import LoopRV as LoopRV
from pegbox.schedule.schedule import Schedule as Schedule
from pegbox.schedule.trace import Drawn as Drawn
from pegbox.schedule.trace import LoopAt as LoopAt
from pegbox.schedule.trace import Step as Step
from pegbox.schedule.trace import Trace as Trace
