"""Strided loads by transposition: rows are loaded as vectors and transposed in registers.

`for j in unrolled: for l in vectorized: out[..., l] = a[l * stride + j]` reads one element of every row at a time.
Gathering them is as slow as scalar loads. Here lane l's row is loaded as a vector of as many elements as there are
lanes (or fewer if more would leave the buffer), and the block of rows is transposed by shuffles. The next j finds loads
and shuffles already made (instructions with equal operands are written once), so a vector of a square block costs
log2(lanes) shuffles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pegbox.codegen.emitter.frame import Frame
from pegbox.codegen.emitter.index import Index, value_range
from pegbox.codegen.emitter.lltypes import int_vector, register
from pegbox.expr import dtypes
from pegbox.expr.nodes import Buffer

_PART_BYTES = 16
"""The bytes within which shuffles of x86 move elements; other shuffles move such blocks as a whole."""


class LaneRows(NamedTuple):
    """A row for each lane: the constant part of the first row's address, elements between rows, elements in a row."""

    start: int
    stride: int
    width: int


def rows_of(frame: Frame, buffer: Buffer, where: Index) -> LaneRows | None:
    """Find rows with the lanes' elements in one column; None if strides differ, or if rows may leave the buffer."""
    offsets = where.offsets
    if where.vector is not None or offsets is None:
        return None
    count, stride = len(offsets), offsets[1] - offsets[0]
    if stride < count or count & (count - 1) or any(o != offsets[0] + k * stride for k, o in enumerate(offsets)):
        return None
    bounds = value_range(frame, Index(0, where.terms, None, None), here=True)
    if bounds is None:
        return None
    first, width = where.const + offsets[0], count
    while width > 1:
        start = first - first % width
        if bounds[0] + start >= 0 and bounds[1] + start + (count - 1) * stride + width <= buffer.size:
            return LaneRows(start, stride, width)
        width //= 2
    return None


def column(frame: Frame, dtype: str, count: int, width: int, number: int, row: Callable[[int], str]) -> str:
    """Emit column `number` of a block of `count` rows of `width` elements; `row` loads one.

    Interleaving vectors m and m + half rotates the bits of an element's place (vector, element) by one; after
    log2(count) such steps, rows and columns are swapped. Vectors shorter than the result become longer with each step;
    after that, each pair gives two vectors.

    Vectors with several parts of 16 bytes are interleaved inside the parts, and the parts are sorted afterwards, pair
    by pair, into even and odd ones. Each of these shuffles is one instruction on x86. A shuffle that moves elements
    between parts takes three with AVX2, and five times as long in LLVM.
    """
    part = min(count, _PART_BYTES // dtypes.nbytes(dtype)) if width == count else count
    parts, steps = count // part, part.bit_length() - 1
    growing = count.bit_length() - width.bit_length()

    def joined(step: int, number: int, first: int) -> str:
        if step == 0:
            return row(first + number)
        if step <= growing:
            vectors, size, pair, half, length = count >> (step - 1), width << (step - 1), number, 0, width << step
        else:
            vectors, size, pair, half, length = min(part, width), count, number // 2, number % 2 * (part // 2), count
        picks = [p - p % part + half + p % part // 2 + p % 2 * size for p in range(length)]
        a, b = (joined(step - 1, pair + other, first) for other in (0, vectors // 2))
        return _shuffled(frame, dtype, size, a, b, picks)

    def sorted_parts(step: int, place: int) -> str:
        if step == 0:
            return joined(steps, number % part, place * part)
        odd, pair = divmod(place, parts // 2)
        picks = [start + p for start in range(odd * part, 2 * count, 2 * part) for p in range(part)]
        a, b = (sorted_parts(step - 1, 2 * pair + other) for other in (0, 1))
        return _shuffled(frame, dtype, count, a, b, picks)

    return sorted_parts(parts.bit_length() - 1, number // part)


def _shuffled(frame: Frame, dtype: str, size: int, a: str, b: str, picks: list[int]) -> str:
    ty = register(dtype, size)
    return frame.op(f"shufflevector {ty} {a}, {ty} {b}, <{len(picks)} x i32> {int_vector(tuple(picks), 32)}")
