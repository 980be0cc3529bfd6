"""Region cover: whether the part of a buffer that a block writes covers what another block reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod

from pegbox.expr.affine import Linear, constant, linear
from pegbox.expr.bounds import Ranges
from pegbox.expr.build import add, conjuncts
from pegbox.expr.equal import same
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Buffer, Compare, Const, Expr, Var
from pegbox.expr.simplify import simplified_linear
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.access.interval import Relaxation, SymbolicInterval, index_interval, relaxation
from pegbox.loops.nodes import BlockRealize, Region
from pegbox.schedule.analysis import reduce_values, variables
from pegbox.schedule.analysis.digit_loops import apart
from pegbox.schedule.analysis.write_cover import fills
from pegbox.schedule.tree import Tree


@dataclass(frozen=True, slots=True)
class Box:
    """Per dimension the indices that are written, each of them, as far as they lie in the buffer.

    `conditions` speak of the standing loops only: where one fails nothing is written at all.
    """

    intervals: Sequence[SymbolicInterval]
    conditions: Sequence[Expr]


def written_box(tree: Tree, producer: BlockRealize, buffer: Buffer, standing: Set[Var]) -> Box | None:
    """What `producer` writes of `buffer` while the `standing` loops stand still; None where that is not a box."""
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
    region = Region(buffer, box)
    relax = relaxation(running, ranges, producer.predicate)
    intervals = _apart(producer, region, relax) or _filled(producer, region, relax)
    if intervals is None:
        return None
    moved = [var for i in intervals for var in i.moved_by]
    values = dict(zip((it.var for it in producer.block.iters), producer.values, strict=True))
    whole = [
        (simplified_linear(values[lo], ranges), extent)
        for (lo, _), extent in zip(region.box, buffer.shape, strict=True)
        if isinstance(lo, Var) and lo in values
    ]
    used = [relax.caps[n][0] for i in intervals for n in i.capped]
    conditions = []
    for part in conjuncts(producer.predicate):
        loops = free_vars(part)
        if _is_border(part, whole, used) or (loops <= running and not loops & set(moved)):
            continue  # the buffer's own end, a cap that shaped the box, or the tail of a reduce loop
        if loops & running:
            return None
        conditions.append(part)
    return Box(intervals, conditions)


def _intervals(producer: BlockRealize, region: Region, relax: Relaxation) -> list[SymbolicInterval] | None:
    found = [index_interval(lo, producer, relax) for lo, _ in region.box]
    known = [i for i in found if i is not None]
    return known if len(known) == len(found) else None


def _apart(producer: BlockRealize, region: Region, relax: Relaxation) -> list[SymbolicInterval] | None:
    """Intervals that make a box because each running loop moves one of them, which then takes each of its values."""
    found = _intervals(producer, region, relax)
    moved = [var for i in found or () for var in i.moved_by]
    return found if found and all(i.exact for i in found) and len(set(moved)) == len(moved) else None


def _filled(producer: BlockRealize, region: Region, relax: Relaxation) -> list[SymbolicInterval] | None:
    """Intervals that make a box because the running loops write as many different elements as it has.

    So do the digits of a fused loop. What a predicate cuts off does not count: the caller asks whether that matters.
    """
    found = _intervals(producer, region, Relaxation(relax.running, relax.ranges))
    if found is None:
        return None
    moved = frozenset[Var]().union(*(i.moved_by for i in found))
    if prod(relax.ranges[v][1] + 1 for v in moved) != prod(i.width + 1 for i in found):
        return None
    bound = dict(zip((it.var for it in producer.block.iters), producer.values, strict=True))
    indices = [substitute(lo, bound) for lo, _ in region.box]
    standing = set(relax.ranges) - relax.running
    return found if moved <= determined(indices, standing, relax.ranges) else None


def _is_border(part: Expr, whole: Sequence[tuple[Linear, int]], used: Sequence[Mapping[Expr, int]]) -> bool:
    """Does a part of a predicate only say that a written index (`whole`, with extents) lies inside the buffer?"""
    if not (isinstance(part, Compare) and isinstance(part.b, Const)):
        return False
    gap = linear(part.a).add(constant(part.b.whole), -1)
    if part.op == "lt":
        return linear(part.a).terms in used or any(gap == form.add(constant(n), -1) for form, n in whole)
    return part.op == "ge" and any(gap.terms == form.terms and gap.const >= form.const for form, _ in whole)


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
    made = written_box(tree, producer, buffer, shared)
    if made is None:
        return False
    known = conjuncts(user.predicate)
    if not all(any(same(c, k) for k in known) for c in made.conditions):
        return False
    running = around - shared
    relax = relaxation(running, tree.ranges, user.predicate)
    for region in user.block.reads:
        if region.buffer is buffer:
            for dim, (lo, count) in enumerate(region.box):
                if not _within(index_interval(lo, user, relax, count), made.intervals[dim], buffer.shape[dim]):
                    return False
    return True


def _within(needed: SymbolicInterval | None, made: SymbolicInterval, extent: int) -> bool:
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
