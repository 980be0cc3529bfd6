"""Region cover: whether the part of a buffer that a block writes covers what another block reads."""

from __future__ import annotations

from collections.abc import Set

from pegbox.expr.affine import constant
from pegbox.expr.bounds import Ranges
from pegbox.expr.build import add, conjuncts
from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Var
from pegbox.loops.access.interval import SymbolicInterval, index_interval, relaxation
from pegbox.loops.access.written_box import Box, box_of
from pegbox.loops.nodes import BlockRealize, Region
from pegbox.schedule.analysis import reduce_values, variables
from pegbox.schedule.analysis.digit_loops import apart
from pegbox.schedule.analysis.write_cover import fills
from pegbox.schedule.tree import Tree


def written_box(tree: Tree, producer: BlockRealize, buffer: Buffer, standing: Set[Var]) -> Box | None:
    """Compute the box of `buffer` that `producer` writes while the `standing` loops do not move;

    None if it is not a box.
    """
    running = {x.var for x in tree.ancestors(producer)} - standing
    found = _written_box(producer, buffer, running, tree.ranges)
    digits = apart(producer, running, tree.ranges) if found is None else None
    return found if digits is None else _written_box(digits[0], buffer, *digits[1:])


def _written_box(producer: BlockRealize, buffer: Buffer, running: Set[Var], ranges: Ranges) -> Box | None:
    region = next(w for w in producer.block.writes if w.buffer is buffer)
    digits = {dim: Var("element") for dim, (_, count) in enumerate(region.box) if count > 1}
    if digits and not fills(producer.block, region):
        return None
    running = running | set(digits.values())
    ranges = {**ranges, **{var: (0, region.box[dim][1] - 1) for dim, var in digits.items()}}
    box = tuple((add(lo, digits[dim]) if dim in digits else lo, 1) for dim, (lo, _) in enumerate(region.box))
    return box_of(producer, Region(buffer, box), running, ranges)


def covers_reads(tree: Tree, producer: BlockRealize, buffer: Buffer, user: BlockRealize) -> bool:
    """Within one iteration of the loops that both stand in: has the producer made all that the user reads?

    False also when that cannot be shown.
    """
    around = {x.var for x in tree.ancestors(user)}
    shared = {x.var for x in tree.ancestors(producer) if x.var in around}
    if not any(tree.ranges[v][1] > 0 for v in shared):
        return True
    if any(tree.ranges[v][1] > 0 for v in variables(reduce_values(producer)) & shared):
        return False
    return makes_all(tree, producer, buffer, user, shared)


def makes_all(
    tree: Tree, producer: BlockRealize, buffer: Buffer, user: BlockRealize, standing: Set[Var] = frozenset()
) -> bool:
    """Does the producer make all elements that the user reads while some loops around both do not move?

    False also when that cannot be shown.
    """
    made = written_box(tree, producer, buffer, standing)
    if made is None:
        return False
    known = conjuncts(user.predicate)
    if not all(any(same(c, k) for k in known) for c in made.conditions):
        return False
    running = {x.var for x in tree.ancestors(user)} - standing
    relax = relaxation(running, tree.ranges, user.predicate)
    for region in user.block.reads:
        if region.buffer is buffer:
            for dim, (lo, count) in enumerate(region.box):
                if not within(index_interval(lo, user, relax, count), made.intervals[dim], buffer.shape[dim]):
                    return False
    return True


def within(needed: SymbolicInterval | None, made: SymbolicInterval, extent: int) -> bool:
    """Is what is needed of a dimension, as far as it lies in the buffer, a part of what is made?"""
    if made.covers(extent):
        return True
    if needed is None:
        return False
    lo, width = needed.lo, needed.width
    if lo.is_const:
        # Reads outside of the buffer are guarded in the body.
        first, last = max(lo.const, 0), min(lo.const + width, extent - 1)
        lo, width = constant(first), max(last - first, 0)
    gap = lo.minus(made.lo)
    return gap.is_const and gap.const >= 0 and gap.const + width <= made.width
