"""Strided loads by transposition: what lanes read far apart is read as rows, and turned around in registers.

`for j in unrolled: for l in vectorized: out[..., l] = a[l * stride + j]` asks for one element of every row at a time.
Gathering them is as slow as scalar loads. Here lane l's row is loaded as a vector of as many elements as there are lanes,
and the square of them is transposed by shuffles; the next j finds loads and shuffles already made (instructions with
equal operands are written once), so each element costs log2(lanes) / lanes shuffles.
"""

from __future__ import annotations

from collections.abc import Callable

from pegbox.codegen.frame import Frame
from pegbox.codegen.index import Index, value_range
from pegbox.codegen.lltypes import int_vector, register
from pegbox.expr.nodes import Buffer


def corner(frame: Frame, buffer: Buffer, where: Index) -> int | None:
    """The constant part of the first row's address, for lanes a stride apart; None where rows may leave the buffer."""
    offsets = where.offsets
    if where.vector is not None or offsets is None:
        return None
    count, stride = len(offsets), offsets[1] - offsets[0]
    if stride < count or count & (count - 1) or any(o != offsets[0] + k * stride for k, o in enumerate(offsets)):
        return None
    first = where.const + offsets[0]
    start = first - first % count
    bounds = value_range(frame, Index(start, where.terms, None, None))
    if bounds is None or bounds[0] < 0 or bounds[1] + (count - 1) * (stride + 1) >= buffer.size:
        return None
    return start


def column(frame: Frame, dtype: str, count: int, number: int, row: Callable[[int], str]) -> str:
    """Column `number` of the square of `count` rows; `row` loads one.

    Joining vectors m and m + count / 2 element by element rotates the bits of an element's place (vector, element) by
    one; after log2(count) such steps rows and columns have changed places.
    """
    ty = register(dtype, count)
    half = count // 2
    joins = [
        int_vector(tuple(lane // 2 + side * half + lane % 2 * count for lane in range(count)), 32) for side in (0, 1)
    ]

    def vector(step: int, number: int) -> str:
        if step == 0:
            return row(number)
        a, b = (vector(step - 1, number // 2 + part) for part in (0, half))
        return frame.op(f"shufflevector {ty} {a}, {ty} {b}, <{count} x i32> {joins[number % 2]}")

    return vector(count.bit_length() - 1, number)
