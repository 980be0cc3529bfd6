"""Lanes of a vectorized loop: the loop variable's value in each lane, and the pattern of the lanes' addresses."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import NamedTuple, TypeAlias

from pegbox.expr.nodes import Var

Offsets: TypeAlias = tuple[int, ...]  # one number per lane


class Lanes:
    """A vector of a vectorized loop: `count` lanes, and the value of each loop variable in each."""

    __slots__ = ("_scaled", "count", "values")

    def __init__(self, count: int, values: dict[Var, Offsets]) -> None:
        self.count = count
        self.values = values
        self._scaled: dict[tuple[Var, int], Offsets] = {}

    def scaled(self, var: Var, coef: int) -> Offsets | None:
        """Compute coef * var in every lane; None for variables of other loops."""
        key = (var, coef)
        found = self._scaled.get(key)
        if found is None:
            values = self.values.get(var)
            if values is None:
                return None
            found = self._scaled[key] = tuple([coef * value for value in values])
        return found


class Chunk(NamedTuple):
    """The lanes that an expression is emitted for; `mask` (an i1 vector in a register) marks the live ones.

    `lanes` is None in scalar code; `mask` is None if every lane is live. Lanes outside `kept` must not change memory;
    `kept` is None if only guards (`If.guard`) exclude lanes.
    """

    lanes: Lanes | None
    mask: str | None
    kept: str | None = None

    @property
    def width(self) -> int:
        """The number of lanes; 0 for scalar code."""
        return self.lanes.count if self.lanes is not None else 0


SCALAR = Chunk(None, None)


class Pattern(NamedTuple):
    """The places of lanes, as `offsets` from the smallest one, `base`.

    dense: lane i is at i. span: the largest offset. distinct: no two lanes coincide.
    """

    base: int
    offsets: Offsets | None  # None: every lane is at the same place
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

    The remainder that does not fill a vector is cut into powers of two, for which registers exist.
    """
    total = prod(extents)
    pieces: list[Lanes] = []
    start = 0
    while start < total:
        count = min(width, 1 << ((total - start).bit_length() - 1))
        values: dict[Var, Offsets] = {}
        stride = 1
        for extent, var in zip(reversed(extents), reversed(variables), strict=True):
            values[var] = tuple(lane // stride % extent for lane in range(start, start + count))
            stride *= extent
        pieces.append(Lanes(count, values))
        start += count
    return pieces
