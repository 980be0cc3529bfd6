"""The box that a block writes while some loops run and the others are fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod

from pegbox.expr.affine import Linear, constant, linear
from pegbox.expr.bounds import Ranges
from pegbox.expr.build import conjuncts
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Compare, Const, Expr, Var
from pegbox.expr.simplify import simplified_linear
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.access.interval import Relaxation, SymbolicInterval, index_interval, relaxation
from pegbox.loops.nodes import BlockRealize, Region


@dataclass(frozen=True, slots=True)
class Box:
    """The indices that are written along each dimension, as far as they lie in the buffer.

    `conditions` are about the fixed loops only: where one fails nothing is written at all.
    """

    intervals: Sequence[SymbolicInterval]
    conditions: Sequence[Expr]


def box_of(producer: BlockRealize, region: Region, running: Set[Var], ranges: Ranges) -> Box | None:
    """Compute the box of single elements that a block writes while loops are `running`; None if it is not a box."""
    relax = relaxation(running, ranges, producer.predicate)
    intervals = _intervals(producer, region, relax)
    moved = [var for i in intervals or () for var in i.moved_by]
    # Intervals make a box if each running loop moves one of them, which then takes each of its values.
    if not intervals or not all(i.exact for i in intervals) or len(set(moved)) < len(moved):
        intervals = _filled(producer, region, relax)
    if intervals is None:
        return None
    moved = [var for i in intervals for var in i.moved_by]
    values = producer.bindings
    written = [
        (simplified_linear(values[lo], ranges), extent)
        for (lo, _), extent in zip(region.box, region.buffer.shape, strict=True)
        if isinstance(lo, Var) and lo in values
    ]
    used = [relax.caps[n][0] for i in intervals for n in i.capped]
    conditions = []
    for part in conjuncts(producer.predicate):
        loops = free_vars(part)
        if _is_border(part, written, used) or (loops <= running and not loops & set(moved)):
            continue  # the buffer's own end, a cap that shaped the box, or the tail of a reduce loop
        if loops & running:
            return None
        conditions.append(part)
    return Box(intervals, conditions)


def _intervals(producer: BlockRealize, region: Region, relax: Relaxation) -> list[SymbolicInterval] | None:
    found = [index_interval(lo, producer, relax) for lo, _ in region.box]
    known = [i for i in found if i is not None]
    return known if len(known) == len(found) else None


def _filled(producer: BlockRealize, region: Region, relax: Relaxation) -> list[SymbolicInterval] | None:
    """Find intervals that make a box because the running loops write as many distinct elements as it has, like the
    digits of a fused loop.

    Elements cut off by a predicate count as written; the caller checks borders.
    """
    found = _intervals(producer, region, Relaxation(relax.running, relax.ranges))
    if found is None:
        return None
    moved = frozenset[Var]().union(*(i.moved_by for i in found))
    if prod(relax.ranges[v][1] + 1 for v in moved) != prod(i.width + 1 for i in found):
        return None
    indices = [substitute(lo, producer.bindings) for lo, _ in region.box]
    return found if moved <= determined(indices, set(relax.ranges) - relax.running, relax.ranges) else None


def _is_border(part: Expr, written: Sequence[tuple[Linear, int]], used: Sequence[Mapping[Expr, int]]) -> bool:
    """Decide if a part of a predicate only keeps an index of `written`, with extents, inside the buffer."""
    if not (isinstance(part, Compare) and isinstance(part.b, Const)):
        return False
    gap = linear(part.a).add(constant(part.b.integer), -1)
    if part.op == "lt":
        return linear(part.a).terms in used or any(gap == form.add(constant(n), -1) for form, n in written)
    return part.op == "ge" and any(gap.terms == form.terms and gap.const >= form.const for form, _ in written)
