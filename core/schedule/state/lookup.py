"""Look-up of blocks and loops in the program of a schedule."""

from __future__ import annotations

from collections.abc import Callable

from pegbox.checks import check_text
from pegbox.errors import ScheduleError
from pegbox.expr.dtypes import integer
from pegbox.loops.module import ENTRY
from pegbox.loops.nodes import Block, BlockRealize, For
from pegbox.schedule.errors import shown
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import lookup, primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import blocks_below
from pegbox.shown import value_text

ROOT = "root"  # TVM's name for the whole function as a block


@primitive(any_block=True)
def work_on(sch: ScheduleState, func_name: str) -> None:
    """Choose the function of the module that is scheduled from now on. Changes to the others are kept.

    Raises:
        ScheduleError: the module has no function of that name.
    """
    sch.switch_to(func_name)


@lookup
def extent(sch: ScheduleState, loop: LoopRef) -> int:
    """Return the number of iterations of a loop."""
    return sch.find_loop(loop).extent


def remove_rv(_sch: ScheduleState, _ref: BlockRef | LoopRef | int) -> None:
    """Do nothing: references and drawn numbers are plain values, and a schedule has no table of them."""


def get_block(sch: ScheduleState, name: str, func_name: str | None = None) -> BlockRef:
    """Find the block of that name. "root" is the whole function, unless a block has this name.

    Args:
        func_name: the function of the module to look in, which the schedule works on from now on ("main" also means the
            only one).

    Raises:
        ScheduleError: the program has none.
    """
    check_text("get_block: name", name, error=ScheduleError)
    if func_name is not None:
        check_text("get_block: func_name", func_name, error=ScheduleError)
    if func_name is not None and func_name != sch.func_name and not (func_name == ENTRY and len(sch.mod) == 1):
        work_on(sch, func_name)
    if name != ROOT:
        get(sch, BlockRef(name))
    return BlockRef(name)


def get_blocks(sch: ScheduleState) -> tuple[BlockRef, ...]:
    """List every block, in program order."""
    return tuple(map(BlockRef, sch.tree.blocks))


@lookup
def get(sch: ScheduleState, ref: BlockRef | LoopRef | int) -> Block | For | int:
    """Find the node of a block or loop in the program; for a sampled number, return the number.

    Raises:
        ScheduleError: the program has no such block or loop.
    """
    if isinstance(ref, int):
        return int(ref)
    return sch.find_loop(ref) if isinstance(ref, LoopRef) else sch.find_block(ref).block


@lookup
def get_loops(sch: ScheduleState, block: BlockRef | str) -> tuple[LoopRef, ...]:
    """List the loops around a block, outermost first."""
    return tuple(LoopRef(loop.var) for loop in sch.tree.ancestors(sch.find_block(block)))


@lookup
def get_loop(sch: ScheduleState, block: BlockRef | str, depth: int) -> LoopRef:
    """Find the `depth`-th loop around a block; 0 is the outermost.

    Raises:
        ScheduleError: the block has fewer loops.
    """
    loops = get_loops(sch, block)
    number = integer(depth)
    if number is None or not 0 <= number < len(loops):
        name = sch.find_block(block).block.name
        raise ScheduleError(
            f"block {name} has {len(loops)} loop(s), so no loop {value_text(depth)}",
            "count from 0, outermost",
            name,
            program=shown(sch.tree, (name,)),
        )
    return loops[number]


@lookup
def get_child_blocks(sch: ScheduleState, block_or_loop: BlockRef | LoopRef | str) -> tuple[BlockRef, ...]:
    """List the blocks below a loop, or inside a block, in program order, without the blocks inside those."""
    if isinstance(block_or_loop, LoopRef):
        return _names(blocks_below(sch.find_loop(block_or_loop)))
    if _is_root(sch, block_or_loop):
        return get_blocks(sch)
    return _names(blocks_below(sch.find_block(block_or_loop).block.body))


@lookup
def get_producers(sch: ScheduleState, block: BlockRef | str) -> tuple[BlockRef, ...]:
    """List the blocks that write the buffers that this one reads."""
    reads = {region.buffer for region in sch.find_block(block).block.reads}
    return _touching(sch, lambda r: any(w.buffer in reads for w in r.block.writes), block)


@lookup
def get_consumers(sch: ScheduleState, block: BlockRef | str) -> tuple[BlockRef, ...]:
    """List the blocks that read the buffers that this one writes."""
    writes = {region.buffer for region in sch.find_block(block).block.writes}
    return _touching(sch, lambda r: any(x.buffer in writes for x in r.block.reads), block)


@lookup
def get_output_blocks(sch: ScheduleState, scope_block: BlockRef | str | None = None) -> tuple[BlockRef, ...]:
    """List the blocks that write the outputs.

    Args:
        scope_block: look inside this block, at its outputs; by default in the whole function.
    """
    if scope_block is None or _is_root(sch, scope_block):
        inner, seen = sch.tree.blocks.values(), set(sch.func.params)
    else:
        outer = sch.find_block(scope_block).block
        inner, seen = {r.block.name: r for r in blocks_below(outer.body)}.values(), {w.buffer for w in outer.writes}
    return _names(r for r in inner if any(w.buffer in seen for w in r.block.writes))


def _touching(sch: ScheduleState, test: Callable[[BlockRealize], bool], own: BlockRef | str) -> tuple[BlockRef, ...]:
    this = sch.find_block(own)
    return tuple(BlockRef(n) for n, r in sch.tree.blocks.items() if r is not this and test(r))


def _is_root(sch: ScheduleState, block: BlockRef | str) -> bool:
    name = block.name if isinstance(block, BlockRef) else block
    if not isinstance(name, str):
        raise ScheduleError(f"{value_text(block)} is not a block", "take one from get_block(name)")
    return name == ROOT and ROOT not in sch.tree.blocks


def _names(realizes: object) -> tuple[BlockRef, ...]:
    return tuple(BlockRef(r.block.name) for r in realizes)  # type: ignore[attr-defined]
