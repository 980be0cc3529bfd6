"""`tvm.tir.schedule`: the schedule, what it refers to, its trace."""

from __future__ import annotations

from pegbox import tir
from pegbox.errors import ScheduleError as ScheduleError
from pegbox.plugins.tvm.absence import names
from pegbox.tir import BlockRV as BlockRV
from pegbox.tir import LoopRV as LoopRV
from pegbox.tir import Trace as Trace

__getattr__ = names(__name__)


class Schedule(tir.Schedule):
    """pegbox's; blocks that are moved get no loops of a single iteration unless a script asks for them, as in TVM."""

    def compute_at(
        self, block: BlockRV | str, loop: LoopRV | int, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """See `pegbox.tir.Schedule.compute_at`."""
        super().compute_at(block, loop, preserve_unit_loops, index)

    def reverse_compute_at(
        self, block: BlockRV | str, loop: LoopRV | int, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """See `pegbox.tir.Schedule.reverse_compute_at`."""
        super().reverse_compute_at(block, loop, preserve_unit_loops, index)
