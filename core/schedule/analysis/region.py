"""What a block variable has to run over, so that a block computes what its consumers need at a place."""

from __future__ import annotations

from dataclasses import dataclass

from pegbox.expr.affine import Linear, constant
from pegbox.expr.bounds import Ranges, linear_bounds
from pegbox.loops.intervals import Interval as Interval
from pegbox.loops.intervals import Relaxation as Relaxation
from pegbox.loops.intervals import caps_of as caps_of
from pegbox.loops.intervals import index_interval as index_interval
from pegbox.loops.intervals import interval as interval


@dataclass(frozen=True, slots=True)
class Span:
    """What a block variable has to run over: `lo + loop` for `loop` in `range(extent)`; is a guard needed?"""

    lo: Linear
    extent: int
    guard_low: bool = False
    guard_high: bool = False


def span(needed: Interval | None, extent: int, ranges: Ranges) -> Span:
    """The part of the domain `range(extent)` that an interval covers; the whole domain for None."""
    whole = Span(constant(0), extent)
    if needed is None or needed.width + 1 >= extent:
        return whole
    if needed.lo.is_const:
        first, last = max(needed.lo.const, 0), min(needed.lo.const + needed.width, extent - 1)
        # An index that is never valid (all of it is guarded): one iteration is the least that a loop can have.
        return Span(constant(first), last - first + 1) if first <= last else Span(constant(0), 1)
    between = linear_bounds(needed.lo, ranges)
    low = between is None or between[0] < 0
    high = between is None or between[1] + needed.width >= extent
    return Span(needed.lo, needed.width + 1, low, high)


def own_span(made: Interval, extent: int, ranges: Ranges) -> Span:
    """Exactly the interval, as far as it lies in the domain `range(extent)`: never more than that."""
    if made.lo.is_const:
        return span(made, extent, ranges)
    between = linear_bounds(made.lo, ranges)
    low = between is None or between[0] < 0
    high = between is None or between[1] + made.width >= extent
    return Span(made.lo, made.width + 1, low, high)
