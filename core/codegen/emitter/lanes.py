"""Lanes of a vectorized loop: the loop variable's value in each lane, and the pattern of the lanes' addresses."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, TypeAlias

from pegbox.expr.nodes import Var

Offsets: TypeAlias = tuple[int, ...]  # one number per lane


class Lanes:
    """One vector's worth of a vectorized loop: `count` lanes, and per loop variable the lane's value of it."""

    __slots__ = ("_scaled", "count", "values")

    def __init__(self, count: int, values: dict[Var, Offsets]) -> None:
        self.count = count
        self.values = values
        self._scaled: dict[tuple[Var, int], Offsets] = {}

    def scaled(self, var: Var, coef: int) -> Offsets | None:
        """coef * var in every lane; None when the variable is not one of the vectorized loop."""
        key = (var, coef)
        found = self._scaled.get(key)
        if found is None:
            values = self.values.get(var)
            if values is None:
                return None
            found = self._scaled[key] = tuple([coef * value for value in values])
        return found


class Chunk(NamedTuple):
    """What an expression is emitted for: some lanes, of which `mask` (an i1 vector in a register) tells the live ones.

    `lanes` None is scalar code; `mask` None means that every lane is live.
    """

    lanes: Lanes | None
    mask: str | None

    @property
    def width(self) -> int:
        """Number of lanes; 0 for scalar code."""
        return self.lanes.count if self.lanes is not None else 0


SCALAR = Chunk(None, None)


class Pattern(NamedTuple):
    """How lanes spread from the smallest address: `offsets` start at 0 somewhere; `base` is what was taken off.

    dense: lane i at i. span: largest offset. distinct: no two lanes meet.
    """

    base: int
    offsets: Offsets | None  # None: every lane at the same place
    dense: bool
    span: int
    distinct: bool


@cache
def pattern(offsets: Offsets) -> Pattern:
    low = min(offsets)
    rest = tuple(offset - low for offset in offsets)
    span = max(rest)
    if span == 0:
        return Pattern(low, None, False, 0, len(offsets) == 1)
    return Pattern(low, rest, rest == tuple(range(len(rest))), span, len(set(rest)) == len(rest))


def split_lanes(extents: list[int], variables: list[Var], width: int) -> list[Lanes]:
    """Cut perfectly nested vectorized loops (outer first) into vectors of at most `width` lanes.

    The rest that does not fill a vector is cut into powers of two, which have registers of their own.
    """
    total = 1
    for extent in extents:
        total *= extent
    pieces: list[Lanes] = []
    start = 0
    while start < total:
        count = min(width, 1 << ((total - start).bit_length() - 1))
        pieces.append(Lanes(count, _values(extents, variables, range(start, start + count))))
        start += count
    return pieces


def _values(extents: list[int], variables: list[Var], lanes: range) -> dict[Var, Offsets]:
    values: dict[Var, Offsets] = {}
    stride = 1
    for extent, var in zip(reversed(extents), reversed(variables), strict=True):
        values[var] = tuple(lane // stride % extent for lane in lanes)
        stride *= extent
    return values
