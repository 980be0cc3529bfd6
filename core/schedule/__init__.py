"""Schedules: `Schedule` edits a program step by step, and `Trace` records the steps.

`Root`, `Inline` and `At` are the places at which stages of `pegbox.te` are computed.
"""

from pegbox.schedule.schedule import Schedule as Schedule
from pegbox.schedule.state.handles import BlockRef as BlockRef
from pegbox.schedule.state.handles import BlockRV as BlockRV
from pegbox.schedule.state.handles import LoopRef as LoopRef
from pegbox.schedule.state.handles import LoopRV as LoopRV
from pegbox.schedule.state.step import Reference as Reference
from pegbox.schedule.state.step import Step as Step
from pegbox.schedule.state.trace import Drawn as Drawn
from pegbox.schedule.state.trace import LoopAt as LoopAt
from pegbox.schedule.state.trace import Trace as Trace
from pegbox.schedule.te.program import shown_sizes as shown_sizes
from pegbox.schedule.te.program import variables_of as variables_of
from pegbox.schedule.te.stage_base import At as At
from pegbox.schedule.te.stage_base import Inline as Inline
from pegbox.schedule.te.stage_base import Root as Root
