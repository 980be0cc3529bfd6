"""Finding blocks and loops in the program that a schedule works on."""

from __future__ import annotations

from collections.abc import Callable

from pegbox.checks import check_text
from pegbox.errors import ScheduleError
from pegbox.loops.nodes import Block, BlockRealize, For
from pegbox.schedule.errors import refuse
from pegbox.schedule.state.base import ScheduleBase
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import lookup
from pegbox.schedule.tree import blocks_below

ROOT = "root"  # the whole function as a block; TVM's name for it


class Lookup(ScheduleBase):
    """Questions; none of them changes anything or is recorded."""

    def get_block(self, name: str, func_name: str | None = None) -> BlockRef:
        """The block of that name. "root" stands for the whole function, where no block is called so.

        Args:
            func_name: the function of the module to look in, which the schedule works on from now on.

        Raises:
            ScheduleError: the program has none.
        """
        check_text("get_block: name", name, error=ScheduleError)
        if func_name is not None and func_name != self._name:
            self.work_on(func_name)
        if name != ROOT:
            self.get(BlockRef(name))
        return BlockRef(name)

    def get_blocks(self) -> tuple[BlockRef, ...]:
        """Every block, in program order."""
        return tuple(map(BlockRef, self.tree.blocks))

    @lookup
    def get(self, ref: BlockRef | LoopRef | int) -> Block | For | int:
        """The node of the program that a block or loop stands for; of a sampled number, the number.

        Raises:
            ScheduleError: the program has no such block or loop.
        """
        if isinstance(ref, int):
            return int(ref)
        return self._loop(ref) if isinstance(ref, LoopRef) else self._block(ref).block

    @lookup
    def get_loops(self, block: BlockRef | str) -> tuple[LoopRef, ...]:
        """The loops around a block, outermost first."""
        return tuple(LoopRef(loop.var) for loop in self.tree.ancestors(self._block(block)))

    @lookup
    def get_loop(self, block: BlockRef | str, depth: int) -> LoopRef:
        """The `depth`-th loop around a block, 0 the outermost.

        Raises:
            ScheduleError: the block has fewer loops.
        """
        loops = self.get_loops(block)
        if not 0 <= depth < len(loops):
            name = self._block(block).block.name
            raise refuse(
                self.tree, f"block {name} has {len(loops)} loop(s), so no loop {depth}", "count from 0, outermost", name
            )
        return loops[depth]

    @lookup
    def get_child_blocks(self, block_or_loop: BlockRef | LoopRef | str) -> tuple[BlockRef, ...]:
        """The blocks below a loop, or inside of a block, in program order; without the blocks inside of those."""
        if isinstance(block_or_loop, LoopRef):
            return _names(blocks_below(self._loop(block_or_loop)))
        if self._is_root(block_or_loop):
            return self.get_blocks()
        return _names(blocks_below(self._block(block_or_loop).block.body))

    @lookup
    def get_producers(self, block: BlockRef | str) -> tuple[BlockRef, ...]:
        """The blocks that write what this one reads."""
        reads = {region.buffer for region in self._block(block).block.reads}
        return self._touching(lambda r: any(w.buffer in reads for w in r.block.writes), block)

    @lookup
    def get_consumers(self, block: BlockRef | str) -> tuple[BlockRef, ...]:
        """The blocks that read what this one writes."""
        writes = {region.buffer for region in self._block(block).block.writes}
        return self._touching(lambda r: any(x.buffer in writes for x in r.block.reads), block)

    @lookup
    def get_output_blocks(self, scope_block: BlockRef | str | None = None) -> tuple[BlockRef, ...]:
        """The blocks that write what the caller sees.

        Args:
            scope_block: look inside of this block, at what it writes to the outside; by default in the whole function.
        """
        if scope_block is None or self._is_root(scope_block):
            inner, seen = self.tree.blocks.values(), set(self.func.params)
        else:
            outer = self._block(scope_block).block
            inner, seen = {r.block.name: r for r in blocks_below(outer.body)}.values(), {w.buffer for w in outer.writes}
        return _names(r for r in inner if any(w.buffer in seen for w in r.block.writes))

    def _touching(self, test: Callable[[BlockRealize], bool], own: BlockRef | str) -> tuple[BlockRef, ...]:
        this = self._block(own)
        return tuple(BlockRef(n) for n, r in self.tree.blocks.items() if r is not this and test(r))

    def _is_root(self, block: BlockRef | str) -> bool:
        name = block.name if isinstance(block, BlockRef) else block
        if not isinstance(name, str):
            raise ScheduleError(f"{block!r} is not a block", "take one from get_block(name)")
        return name == ROOT and ROOT not in self.tree.blocks


def _names(realizes: object) -> tuple[BlockRef, ...]:
    return tuple(BlockRef(r.block.name) for r in realizes)  # type: ignore[attr-defined]
