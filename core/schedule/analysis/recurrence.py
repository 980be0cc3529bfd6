"""Recurrences in a scheduled program: blocks that read earlier rows must still find them after each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from pegbox.errors import ScheduleError
from pegbox.expr.affine import Linear, linear
from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Compare, Expr, Var
from pegbox.expr.visit import free_vars
from pegbox.loops.access.recurrence import CarriedRead, Rows, in_order, is_update, reduces_in_order, rows_of
from pegbox.loops.nodes import Block, BlockRealize, For
from pegbox.schedule.analysis import is_ordered
from pegbox.schedule.analysis.region_cover import reads_inside, written_box
from pegbox.schedule.tree import Tree


def read_rows(tree: Tree, carried: CarriedRead) -> Rows | None:
    """Return the rows of a carried read; None if it cannot be shown that everything read was computed before."""
    rows = rows_of(carried)
    if rows is None:
        return None
    count = 1 + max((n for n, loop in enumerate(carried.shared) if loop.var in rows.loops), default=-1)
    fixed = {loop.var for loop in carried.shared[:count]}
    written = written_box(tree, carried.writer, carried.buffer, fixed)
    if written is None or not reads_inside(tree, carried.reader, carried.buffer, written, fixed, apart_from=rows.dim):
        return None
    lows = (i.lo for dim, i in enumerate(written.intervals) if dim != rows.dim)
    return None if any(free_vars(term) & set(rows.loops) for lo in lows for term in lo.terms) else rows


def check_rows(before: Tree, after: Tree) -> None:
    """Check that reads of earlier rows find them after a step that has moved a block or its loops.

    Raises:
        ScheduleError: a read may come before its row is written.
    """
    known = {_place(before, carried) for carried in before.carried}
    together = {_names(carried) for carried in before.carried if carried.shared}
    for carried in after.carried:
        if is_update(carried) or _place(after, carried) in known:
            continue
        if not carried.shared and _names(carried) not in together:
            continue
        if not carried.shared or read_rows(after, carried) is None:
            writer, reader = carried.writer.block.name, carried.reader.block.name
            raise ScheduleError(
                f"{reader} reads rows of {carried.buffer.name} that {writer} makes in earlier iterations; it cannot be "
                "shown that they would be there by then",
                "let the loops over the rows run in order, around the loops over the elements of a row",
                *(mark for mark in dict.fromkeys((writer, reader)) if mark in before.blocks),
            )


def check_all_rows(tree: Tree) -> None:
    """Check that all reads of earlier rows are in the loops over these rows.

    Raises:
        ScheduleError: a read comes before the whole nest that computes the rows.
    """
    for carried in tree.carried:
        if not carried.shared:
            writer, reader = carried.writer.block.name, carried.reader.block.name
            raise ScheduleError(
                f"{reader} reads rows of {carried.buffer.name} before {writer} makes the first one",
                f"compute {reader} in the loop over the rows, or inline it",
                reader,
                writer,
            )


def check_ordered(tree: Tree) -> None:
    """Check that reductions whose steps keep their order run them in order.

    Raises:
        ScheduleError: a reduction may run its steps in another order.
    """
    for name, realize in tree.blocks.items():
        if is_ordered(realize.block) and not reduces_in_order(realize, tree.ancestors(realize)):
            raise ScheduleError(
                f"the reduction of {name} is ordered; it cannot be shown that its steps would run in their order",
                "keep the parts of a reduce axis, and several such axes, in the order of the computation; do not fuse "
                "them",
                name,
            )


def _names(carried: CarriedRead) -> tuple[str, str]:
    return carried.writer.block.name, carried.reader.block.name


def _place(tree: Tree, carried: CarriedRead) -> tuple[object, ...]:
    """Return a key for two bound blocks and the loops around them."""
    ends = (carried.writer, carried.reader)
    return carried.buffer, *((id(end), *(loop.var for loop in tree.ancestors(end))) for end in ends)


def check_carrying(tree: Tree, loop: For) -> None:
    """Check that no concurrent iteration of a loop computes rows from the rows of another one."""
    for carried in tree.carried:
        if loop not in carried.shared or is_update(carried):
            continue
        rows = rows_of(carried)
        if rows is None or loop.var in rows.loops:
            writer, reader = carried.writer.block.name, carried.reader.block.name
            raise ScheduleError(
                f"{loop.var.name} cannot be {loop.kind.in_words}: {reader} reads elements of {carried.buffer.name} "
                f"that {writer} makes in earlier iterations",
                "leave the loops over the rows serial; take one over another axis, before it is fused with theirs",
                loop.var,
                *dict.fromkeys((writer, reader)),
            )


def free_of_rows(tree: Tree) -> set[str]:
    """Return the blocks whose only reads of their own output are of earlier rows."""
    own = [c for c in tree.carried if c.reader is c.writer and not is_update(c)]
    good = {c.writer.block.name for c in own if read_rows(tree, c) is not None}
    return good - {c.writer.block.name for c in own if read_rows(tree, c) is None}


def is_next_row(around: Sequence[For], row: Linear, count: int, conditions: Iterable[Expr]) -> bool:
    """Decide if each iteration of the loops needs one row, the successor of the previous iteration's row.

    Args:
        around: the loops, outermost first.
        row: the first row of an iteration, and how many it needs.
        conditions: the conditions under which an iteration needs a row; if one holds, it must have held for all earlier
            rows.
    """
    counting = [loop for loop in around if loop.var in row.terms]
    rows = {loop.var for loop in counting}
    steady = all(not free_vars(part) & rows or _held_before(part, rows) for part in conditions)
    return count == 1 and row.terms.keys() == rows and in_order(row, counting) and steady


def _held_before(condition: Expr, rows: Set[Var]) -> bool:
    """Decide if a condition is an upper bound of each loop over rows."""
    if not isinstance(condition, Compare) or condition.op not in ("lt", "le"):
        return False
    tested = linear(condition.a).add(linear(condition.b), -1)
    return all(c >= 0 if t in rows else not free_vars(t) & rows for t, c in tested.terms.items())


def finds_own_rows(tree: Tree, name: str) -> bool:
    """Decide if all earlier rows that a block reads of its own output have been computed."""
    own = [c for c in tree.carried if c.reader is c.writer and c.writer.block.name == name]
    return all(read_rows(tree, carried) is not None for carried in own)


def cells_without_place(tree: Tree, realize: BlockRealize) -> set[str]:
    """Return the blocks that read rows of a block, come before it, and still have to be moved into its loops."""
    return {c.reader.block.name for c in tree.carried if c.writer is realize and not c.shared}


def carried_variables(block: Block) -> set[Var]:
    """Return the variables of a block in whose direction an element depends on other elements of the output."""
    found: set[Var] = set()
    for write in block.writes:
        for region in block.reads:
            if region.buffer is write.buffer:
                for (at, _), (lo, count) in zip(write.box, region.box, strict=True):
                    if count != 1 or not same(at, lo):
                        found |= free_vars(at)
    return found


def later_writers(tree: Tree, realize: BlockRealize, buffers: Iterable[Buffer]) -> set[str]:
    """Return the blocks that write buffers of a block only after it: it reads values of earlier iterations."""
    names = list(tree.blocks)
    rank = names.index(realize.block.name)
    return {w.block.name for b in buffers for w in tree.writers(b) if names.index(w.block.name) >= rank}
