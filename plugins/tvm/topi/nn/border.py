"""Borders around tensors, and gaps between their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pegbox import te
from pegbox.errors import ComputeError


def pad(
    data: te.Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    pad_value: float | te.Expr = 0.0,
    name: str = "PadInput",
    attrs: dict[str, Any] | None = None,
) -> te.Tensor:
    """A border of one value: `pad_before[d]` elements before axis d, and `pad_after[d]` (as many) behind it."""
    after = pad_before if pad_after is None else pad_after
    if not len(pad_before) == len(after) == data.ndim:
        raise ComputeError(f"pad: {list(pad_before)} and {list(after)} for the {data.ndim} axes of {data.name}")
    edge = te.cast(data.dtype, pad_value) if isinstance(pad_value, te.Expr) else te.const(pad_value, data.dtype)
    sides = list(zip(data.shape, pad_before, after, strict=True))

    def element(*at: te.Expr) -> te.Expr:
        tests = []
        for i, (extent, low, high) in zip(at, sides, strict=True):
            tests += [i >= low] * (low > 0) + [i < extent + low] * (high > 0)
        inside = data(*(i - low for i, (_, low, _) in zip(at, sides, strict=True)))
        return te.if_then_else(te.all(*tests), inside, edge) if tests else inside

    shape = tuple(extent + low + high for extent, low, high in sides)
    made = te.compute(shape, element, name=name, tag="injective,pad", attrs=attrs)
    return made


def dilate(
    data: te.Tensor, strides: Sequence[int], dilation_value: float = 0.0, name: str = "DilatedInput"
) -> te.Tensor:
    """Elements `strides[d]` apart along each axis, with one value between them."""
    if len(strides) != data.ndim:
        raise ComputeError(f"dilate: {len(strides)} strides for the {data.ndim} axes of {data.name}")

    def element(*at: te.Expr) -> te.Expr:
        there = te.all(*((i % s).equal(0) for i, s in zip(at, strides, strict=True) if s > 1))
        inside = data(*(i // s for i, s in zip(at, strides, strict=True)))
        return te.if_then_else(there, inside, te.const(dilation_value, data.dtype))

    shape = tuple((extent - 1) * s + 1 for extent, s in zip(data.shape, strides, strict=True))
    made = te.compute(shape, element, name=name, tag="injective,dilate")
    return made


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    """A number for both spatial axes, or one for each."""
    first, second = (value, value) if isinstance(value, int) else value
    return int(first), int(second)


def get_pad_tuple(padding: int | str | Sequence[int], kernel: Sequence[int]) -> tuple[int, int, int, int]:
    """A padding as (top, left, bottom, right).

    Args:
        padding: one number, (rows, columns), all four, or "VALID" (none) or "SAME" (as many outputs as inputs at a
            stride of 1).
        kernel: rows and columns of the filter, dilated.
    """
    if isinstance(padding, str):
        if padding not in ("VALID", "SAME"):
            raise ComputeError(f"padding={padding!r}: give numbers, 'VALID' or 'SAME'")
        rows, columns = (0, 0) if padding == "VALID" else (kernel[0] - 1, kernel[1] - 1)
        top, left = (rows + 1) // 2, (columns + 1) // 2
        return top, left, rows - top, columns - left
    if not isinstance(padding, int) and len(padding) == 4:
        top, left, bottom, right = map(int, padding)
        return top, left, bottom, right
    rows, columns = pair(padding)
    return rows, columns, rows, columns
