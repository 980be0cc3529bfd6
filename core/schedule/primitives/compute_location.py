"""Primitives compute_at and reverse_compute_at."""

from __future__ import annotations

from typing import cast

from pegbox.errors import ScheduleError
from pegbox.loops.access.interval import SymbolicInterval
from pegbox.loops.nodes import BlockRealize, For
from pegbox.schedule.analysis import written_buffers
from pegbox.schedule.analysis.checks import check_no_lanes, check_only_writer
from pegbox.schedule.analysis.recurrence import carried_variables, cells_without_place, finds_own_rows, is_next_row
from pegbox.schedule.analysis.region_cover import written_box
from pegbox.schedule.analysis.required_region import common_conditions, needed_spans
from pegbox.schedule.primitives.inline import into_consumers
from pegbox.schedule.rewrites.placement import MOVE_FIRST, moved, nest
from pegbox.schedule.rewrites.reverse_compute_at import Move
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree

# Values that sample_compute_location returns in place of a loop.
ROOT, INLINE = -1, -2


@primitive
def compute_at(
    sch: ScheduleState, block: BlockRef | str, loop: LoopRef | int, preserve_unit_loops: bool = True, index: int = -1
) -> None:
    """Compute a producer inside a loop of its consumers, in each iteration only the region that is needed there.

    The block gets new loops, one for each spatial variable in order (also those with a single iteration), then one for
    each reduce variable; `get_loops` gives them. Its old loops are removed, with their annotations.

    Args:
        loop: a loop, or one of the numbers that `sample_compute_location` returns: -1 leaves the block where it is, -2
            inlines it.
        preserve_unit_loops: keep loops of a single iteration, so that there are the same loops for every shape.
        index: the position among the statements of the loop: -1 for the last legal one, -2 for the first, or a number
            from 0.

    Before `compute_at("B", i)`::

        for i in range(16):
            for j in range(8):
                block B: vi = i, vj = j
        for i in range(4):
            for j in range(8):
                block C: vi = i, vj = j, reads B[vi * 4:vi * 4 + 4, vj]

    After::

        for i in range(4):
            for i_1 in range(4):
                for j in range(8):
                    block B: vi = i * 4 + i_1, vj = j
            for j in range(8):
                block C: ...

    Raises:
        ScheduleError: the block writes a parameter and would not write all of it there, has a consumer outside the loop
            or has none, was decomposed, or reads values that are not ready there; or the position is not legal.
    """
    realize = sch.find_block(block)
    if isinstance(loop, LoopRef):
        sch.update(_compute_at(sch.tree, realize, sch.find_loop(loop), index, unit_loops=preserve_unit_loops))
    elif loop == INLINE:
        sch.update(into_consumers(sch.tree, realize))
    elif loop != ROOT:
        sch.find_loop(cast("LoopRef", loop))  # refuses what is not a loop


@primitive
def reverse_compute_at(
    sch: ScheduleState, block: BlockRef | str, loop: LoopRef | int, preserve_unit_loops: bool = True, index: int = -1
) -> None:
    """Compute a consumer inside a loop of its producer, in each iteration exactly the elements that just became ready.

    The block gets new loops, one for each spatial variable in order, then one for each reduce variable.

    Args:
        loop: a loop, or -1, which leaves the block where it is.
        preserve_unit_loops: keep loops of a single iteration, so that there are the same loops for every shape.
        index: the position among the statements of the loop: -1 for the last legal one, -2 for the first, or a number
            from 0.

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
        ScheduleError: no producer is inside the loop, a reduce loop of a producer is outside (its results are
            incomplete there), other iterations compute some elements that the block reads, or a consumer runs earlier.
    """
    realize = sch.find_block(block)
    if isinstance(loop, LoopRef) or loop != ROOT:
        move = Move(sch.tree, realize, sch.find_loop(cast("LoopRef", loop)))
        sch.update(move.done(index, unit_loops=preserve_unit_loops))


def _compute_at(tree: Tree, realize: BlockRealize, loop: For, index: int, *, unit_loops: bool) -> Tree:
    name = realize.block.name
    readers = _readers(tree, realize, loop)
    check_no_lanes(tree, loop, MOVE_FIRST, name)
    rest = Tree(tree.replace(realize, None))
    target = rest.loops[loop.var]
    readers = [rest.blocks[r.block.name] for r in readers]
    scopes = {buffer.scope for buffer in written_buffers(realize.block)}
    # Threads share the buffer: compute it for all of them.
    fixed = {x.var for x in (*rest.ancestors(target), target) if not any(map(x.kind.shares, scopes))}
    conditions = common_conditions(readers, fixed, rest.ranges)
    spans = needed_spans(rest, realize.block, readers, fixed)
    # A row needs all earlier rows, and everything that they were computed from.
    carried = carried_variables(realize.block) & spans.keys()
    around = (*rest.ancestors(target), target)
    ways = [spans] if all(is_next_row(around, spans[v].lo, spans[v].extent, conditions) for v in carried) else []
    for way in (*ways, {var: span for var, span in spans.items() if var not in carried}):
        new = nest(realize.block, way, conditions, unit_loops=unit_loops)
        after = moved(tree, rest, realize, loop, new, index)
        if not (carried and way is spans) or finds_own_rows(after, name):
            break
    _check_parameters(after, name)
    return after


def _check_parameters(after: Tree, name: str) -> None:
    """Check that all elements of a parameter are still computed: those that no consumer needs would keep old values."""
    producer = after.blocks[name]
    for buffer in written_buffers(producer.block):
        if buffer not in after.func.params:
            continue
        made = written_box(after, producer, buffer, set())
        if made is None or made.conditions or not all(map(SymbolicInterval.covers, made.intervals, buffer.shape)):
            raise ScheduleError(
                f"{name} writes the parameter {buffer.name}, all of which is "
                "needed, but there it would compute only the elements that its consumers read",
                "move its consumers instead, reverse_compute_at(consumer, loop of the producer), or leave "
                f"{buffer.name} out of the arguments",
                name,
            )


def _readers(tree: Tree, realize: BlockRealize, loop: For) -> list[BlockRealize]:
    """Return the consumers, all below the loop, in program order."""
    name, buffers = realize.block.name, written_buffers(realize.block)
    check_only_writer(tree, realize, buffers, "compute_at first, decompose_reduction after")
    early = cells_without_place(tree, realize)
    readers = [
        r
        for r in tree.blocks.values()
        if r is not realize and r.block.name not in early and any(x.buffer in buffers for x in r.block.reads)
    ]
    if not readers:
        remedy = "leave it where it is, or reverse_compute_at(it, loop of its producer)"
        raise ScheduleError(f"no block reads what {name} writes", remedy, name)
    outside = [r.block.name for r in readers if not tree.is_under(r, loop)]
    if outside:
        raise ScheduleError(
            f"{', '.join(outside)} needs {name} too, but is not inside {loop.var.name}",
            "attach to a loop around all consumers, or inline the block",
            loop.var,
            name,
            *outside,
        )
    return readers
