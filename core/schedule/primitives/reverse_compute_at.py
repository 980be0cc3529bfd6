"""Moving a consumer to where its values are produced: epilogues, and the write-back after a cache_write."""

from __future__ import annotations

from typing import cast

from pegbox.schedule.primitives.compute_at import ROOT
from pegbox.schedule.rewrites.reverse_compute_at import Move
from pegbox.schedule.state.base import ScheduleBase
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive


class ReverseComputeAtPrimitives(ScheduleBase):
    """Consumers move to their producers."""

    @primitive
    def reverse_compute_at(
        self, block: BlockRef | str, loop: LoopRef | int, preserve_unit_loops: bool = True, index: int = -1
    ) -> None:
        """Compute a consumer inside a loop of its producer: each time exactly what has just become ready.

        The block gets new loops, one for each spatial variable in order, then one for each reduce variable.

        Args:
            loop: also -1, which leaves the block where it is.
            preserve_unit_loops: keep loops of a single iteration, so that there are the same loops for every shape.
            index: the place among the statements of the loop: -1 the last one that is legal, -2 the first, or a
                number from 0.

        Before `reverse_compute_at("C", i_0)`::

            for i_0 in range(4):
                for i_1 in range(8):
                    block B: vi = i_0 * 8 + i_1
            for i in range(32):
                block C: vi = i, reads B[vi]

        After::

            for i_0 in range(4):
                for i_1 in range(8):
                    block B: vi = i_0 * 8 + i_1
                for i in range(8):
                    block C: vi = i_0 * 8 + i, reads B[vi]

        Raises:
            ScheduleError: no producer is inside the loop, a reduce loop of one is outside (its results are partial
                there), other iterations make a part of what the block reads, or a consumer runs earlier.
        """
        realize = self._block(block)
        if isinstance(loop, LoopRef) or loop != ROOT:
            move = Move(self.tree, realize, self._loop(cast("LoopRef", loop)))
            self._set(move.done(index, unit_loops=preserve_unit_loops))
