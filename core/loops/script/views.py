"""Views: buffers that scripts declare over the memory of others, `T.Buffer((16384,), data=A.data)`.

The IR has one buffer for each memory, so the reader replaces views: their indices become indices of the buffer below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from pegbox.expr import build
from pegbox.expr.bounds import Ranges, bounds
from pegbox.expr.nodes import Buffer, Const, Expr
from pegbox.expr.simplify import simplify

Box = tuple[tuple[Expr, int], ...]


@dataclass(frozen=True, slots=True)
class Data:
    """The memory of a buffer: `A.data`, or the result of `T.allocate`."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class View:
    """A view: another shape of a buffer's elements, in their order in memory, from the first one on."""

    name: str
    shape: tuple[int, ...]
    buffer: Buffer

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    def below(self, box: Box, ranges: Ranges) -> Box | None:
        """Find the box of the buffer for a box of neighbours in the view; None if they do not form a box there."""
        counts = [count for _, count in box]
        if any(count != 1 for count in counts[:-1]):
            return None
        place = build.as_expr(0)
        for (lo, _), extent in zip(box, self.shape, strict=True):
            place = build.add(build.mul(place, build.index(extent)), lo)
        indices = _digits(simplify(place, ranges), self.buffer.shape, ranges)
        return _run(indices, counts[-1] if counts else 1, self.buffer.shape, ranges)


def _digits(place: Expr, shape: Sequence[int], ranges: Ranges) -> list[Expr]:
    """Return the indices of the element at a place in memory."""
    found: list[Expr] = []
    for number, extent in enumerate(shape):
        digit = build.floordiv(place, build.index(prod(shape[number + 1 :])))
        found.append(simplify(build.floormod(digit, build.index(extent)) if number else digit, ranges))
    return found


def _run(indices: Sequence[Expr], count: int, shape: Sequence[int], ranges: Ranges) -> Box | None:
    """Return a box of `count` neighbours from an element on: a part of a row, or whole rows."""
    extents = [1] * len(shape)
    for number in reversed(range(len(shape))):
        first, extent = indices[number], shape[number]
        between = bounds(first, ranges)
        if count <= 1 or (between is not None and between[1] + count <= extent) or (number == 0 and len(shape) == 1):
            extents[number] = count
            return tuple(zip(indices, extents, strict=True))
        if count % extent or not (isinstance(first, Const) and first.integer == 0):
            return None
        extents[number], count = extent, count // extent
    return None if count > 1 else tuple(zip(indices, extents, strict=True))
