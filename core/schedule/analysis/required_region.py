"""Required region: the ranges of block variables that consumers need at a given place."""

from __future__ import annotations

from dataclasses import dataclass

from pegbox.expr.affine import Linear, constant
from pegbox.expr.bounds import Ranges, linear_bounds
from pegbox.expr.digits import digits_of
from pegbox.expr.equal import same
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.visit import free_vars
from pegbox.loops.access.interval import SymbolicInterval, digits_interval, hull
from pegbox.loops.nodes import Block, BlockRealize, Region
from pegbox.schedule.analysis import boxes
from pegbox.schedule.analysis.region_cover import read_conditions
from pegbox.schedule.tree import Tree


@dataclass(frozen=True, slots=True)
class Span:
    """The values of a block variable, `lo + loop` for `loop` in `range(extent)`, and the guards that they need."""

    lo: Linear
    extent: int
    guard_low: bool = False
    guard_high: bool = False


def span(needed: SymbolicInterval | None, extent: int, ranges: Ranges, *, most: bool = False) -> Span:
    """Return the part of the domain `range(extent)` that an interval covers; the whole domain for None.

    Args:
        most: never return more than the interval; otherwise, an interval as long as the domain may become the whole
            domain.
    """
    if needed is None or (needed.width + 1 >= extent and not (most and not needed.lo.is_const)):
        return Span(constant(0), extent)
    if needed.lo.is_const:
        first, last = max(needed.lo.const, 0), min(needed.lo.const + needed.width, extent - 1)
        # An index that is never valid (all of it is guarded): a loop has at least one iteration.
        return Span(constant(first), last - first + 1) if first <= last else Span(constant(0), 1)
    between = linear_bounds(needed.lo, ranges)
    low = between is None or between[0] < 0
    high = between is None or between[1] + needed.width >= extent
    return Span(needed.lo, needed.width + 1, low, high)


def common_conditions(readers: list[BlockRealize], fixed: set[Var], ranges: Ranges) -> list[Expr]:
    """List the conditions on outer loops alone under which all readers read: if one fails, nothing is needed."""
    first, *others = (list(read_conditions(r, ranges)) for r in readers)
    return [
        part
        for part in first
        if free_vars(part) <= fixed and all(any(same(part, p) for p in parts) for parts in others)
    ]


def needed_spans(tree: Tree, block: Block, readers: list[BlockRealize], fixed: set[Var]) -> dict[Var, Span]:
    """Compute the values that the readers need of each variable that indexes the block's writes."""
    domains = {it.var: it.extent for it in block.iters if not it.is_reduce}
    spans: dict[Var, Span] = {}
    read = {region.buffer for reader in readers for region in reader.block.reads}
    for region in block.writes:
        if region.buffer not in read:
            continue  # no reader reads this buffer: any part of it suffices
        found = [box for r in readers for box in boxes(tree, r, r.block.reads, region.buffer, fixed)]
        hulls = list(map(hull, zip(*found, strict=True)))
        for dim, (lo, count) in enumerate(region.box):
            if not isinstance(lo, Var) or lo not in domains or count != 1:
                continue
            wanted = span(hulls[dim], domains[lo], tree.ranges)
            known = spans.get(lo)
            # Several outputs, or one variable in two dimensions: if their ranges differ, the whole domain is needed.
            spans[lo] = wanted if known is None or known == wanted else span(None, domains[lo], tree.ranges)
        for var, digits in digits_of([lo for lo, _ in region.box]).items():
            if var in domains and all(count == 1 for _, count in region.box):
                needed = {dim: hulls[dim] for dim, _ in digits}
                agreed = digits_interval(digits, needed) if len(block.writes) == 1 and var not in spans else None
                spans[var] = span(agreed, domains[var], tree.ranges)
        if len(block.writes) > 1:  # another output's indices need not cover everything that is needed
            spans |= {var: span(None, domains[var], tree.ranges) for var in _composite(region) if var in domains}
    return spans


def _composite(region: Region) -> set[Var]:
    """Return the variables that occur in an index with others."""
    inside = {var for lo, _ in region.box for var in free_vars(lo)}
    return inside - {lo for lo, count in region.box if isinstance(lo, Var) and count == 1}
