"""Blocks of blocks, and blocks that one machine instruction computes: blockize, tensorize."""

from __future__ import annotations

from pegbox.schedule.base import ScheduleBase, primitive
from pegbox.schedule.blockized import blockized, fresh_block, nest_below
from pegbox.schedule.handles import BlockRef, LoopRef


class TensorizePrimitives(ScheduleBase):
    """Nests become single blocks."""

    @primitive(moves=False)
    def blockize(self, loop: LoopRef) -> BlockRef:
        """Make one block of a loop and all that is inside of it. Gives the new block, `NAME_o`.

        The loops outside now move whole tiles. The block that was there stands inside of the new one, with its name;
        primitives on it and on its loops go on working there. A reduction starts in a nest of its own, `NAME_init`.

        Before `blockize(i_1)`::

            for i_0 in range(4):
                for j_0 in range(2):
                    for i_1 in range(8):
                        for j_1 in range(16):
                            block C:
                                vi = spatial(32, i_0 * 8 + i_1)
                                vj = spatial(32, j_0 * 16 + j_1)
                                C[vi, vj] = A[vi, vj] * 2.0

        After::

            for i_0 in range(4):
                for j_0 in range(2):
                    block C_o:
                        vi_o = spatial(4, i_0)
                        vj_o = spatial(2, j_0)
                        reads A[vi_o * 8:vi_o * 8 + 8, vj_o * 16:vj_o * 16 + 16]
                        writes C[vi_o * 8:vi_o * 8 + 8, vj_o * 16:vj_o * 16 + 16]
                        for i_1 in range(8):
                            for j_1 in range(16):
                                block C:
                                    vi = spatial(32, vi_o * 8 + i_1)
                                    vj = spatial(32, vj_o * 16 + j_1)
                                    C[vi, vj] = A[vi, vj] * 2.0

        Raises:
            ScheduleError: several blocks are below the loop, the loops inside do not make whole tiles of the block's
                variables, a predicate depends on them, or one of them binds spatial and reduce variables of a reduction.
        """
        target = self._loop(loop)
        what = f"blockize({target.var.name})"
        _, realize = nest_below(self.tree, target, what)
        name = fresh_block(self.tree, f"{realize.block.name}_o")
        self._set(self.tree.replace(target, blockized(self.tree, target, name, what)))
        return BlockRef(name)
