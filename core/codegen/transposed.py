"""Strided loads by transposition: what lanes read far apart is read as rows, and turned around in registers.

`for j in unrolled: for l in vectorized: out[..., l] = a[l * stride + j]` asks for one element of every row at a time.
Gathering them is as slow as scalar loads. Here lane l's row is loaded as a vector of as many elements as there are
lanes (of fewer where more would leave the buffer), and the block of them is transposed by shuffles; the next j finds
loads and shuffles already made (instructions with equal operands are written once), so that an element of a square
costs log2(lanes) / lanes shuffles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pegbox.codegen.frame import Frame
from pegbox.codegen.index import Index, value_range
from pegbox.codegen.lltypes import int_vector, register
from pegbox.expr.nodes import Buffer


class Rows(NamedTuple):
    """A row for each lane: the constant part of the first one's address, elements between rows, elements of a row."""

    start: int
    stride: int
    width: int


def rows_of(frame: Frame, buffer: Buffer, where: Index) -> Rows | None:
    """Rows that have the lanes' elements in one column; None without a stride, or where rows may leave the buffer."""
    offsets = where.offsets
    if where.vector is not None or offsets is None:
        return None
    count, stride = len(offsets), offsets[1] - offsets[0]
    if stride < count or count & (count - 1) or any(o != offsets[0] + k * stride for k, o in enumerate(offsets)):
        return None
    bounds = value_range(frame, Index(0, where.terms, None, None))
    if bounds is None:
        return None
    first, width = where.const + offsets[0], count
    while width > 1:
        start = first - first % width
        if bounds[0] + start >= 0 and bounds[1] + start + (count - 1) * stride + width <= buffer.size:
            return Rows(start, stride, width)
        width //= 2
    return None


def column(frame: Frame, dtype: str, count: int, width: int, number: int, row: Callable[[int], str]) -> str:
    """Column `number` of a block of `count` rows of `width` elements; `row` loads one.

    To join vectors m and m + half element by element rotates the bits of an element's place (vector, element) by one;
    after log2(count) such steps rows and columns have changed places. Vectors that are shorter than the result grow by
    it; then each pair gives two vectors.
    """
    steps = count.bit_length() - 1
    growing = steps - (width.bit_length() - 1)

    def vector(step: int, number: int) -> str:
        if step == 0:
            return row(number)
        if step <= growing:
            sources, size, pair, start, length = count >> (step - 1), width << (step - 1), number, 0, width << step
        else:
            sources, size, pair, start, length = width, count, number // 2, number % 2 * count, count
        a, b = (vector(step - 1, pair + part) for part in (0, sources // 2))
        picks = tuple(place // 2 + place % 2 * size for place in range(start, start + length))
        ty = register(dtype, size)
        return frame.op(f"shufflevector {ty} {a}, {ty} {b}, <{length} x i32> {int_vector(picks, 32)}")

    return vector(steps, number)
