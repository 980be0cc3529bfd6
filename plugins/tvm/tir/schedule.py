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

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """See `pegbox.tir.Schedule.get_block`. A decomposed reduction "C" keeps its name, and is "C_update" too."""
        blocks = {block.name for block in self.get_blocks()} if self.func_name is not None else set()
        base = name.removesuffix("_update")
        decomposed = name not in blocks and {base, f"{base}_init"} <= blocks
        return super().get_block(base if decomposed else name, func_name)

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
