"""Digits of a config, one small number per knob, and the mixed-radix index that they form.

The first knob varies fastest. An index is a Python int, so that no space is too large for it; whole arrays of
configs stay arrays of digits, of shape (configs, knobs) and type int64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pegbox.errors import SpaceError
from pegbox.shown import value_text

Digits: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Finding: TypeAlias = Callable[[Digits], Mask]
"""The type of a function that finds some of the rows."""


def index_of(digits: Sequence[int], lengths: Sequence[int]) -> int:
    """Compute the index that the digits spell."""
    index = 0
    for digit, length in zip(reversed(digits), reversed(lengths), strict=True):
        index = index * length + digit
    return index


def digits_of(index: int, lengths: Sequence[int]) -> tuple[int, ...]:
    """Return the digits of an index in [0, product of the lengths)."""
    digits = []
    for length in lengths:
        index, digit = divmod(index, length)
        digits.append(digit)
    return tuple(digits)


def row_keys(rows: Digits, lengths: Sequence[int]) -> NDArray[np.generic]:
    """Return one sortable key per row; keys are equal exactly if the rows are."""
    if math.prod(lengths) < 1 << 62:
        return np.asarray(rows @ strides(lengths))
    packed = np.ascontiguousarray(rows)
    return packed.view(np.dtype((np.void, packed.itemsize * packed.shape[1]))).reshape(-1)


def strides(lengths: Sequence[int]) -> Digits:
    """Compute the step of each digit in the index; only for spaces whose indices fit int64."""
    steps = [1]
    for length in lengths:
        steps.append(steps[-1] * length)
    return np.array(steps[:-1], dtype=np.int64)


def first_of_each(rows: Digits, lengths: Sequence[int]) -> NDArray[np.intp]:
    """Find the first occurrence of every distinct row, ascending."""
    if not rows.shape[1]:
        return np.arange(min(1, len(rows)))
    return np.sort(np.unique(row_keys(rows, lengths), return_index=True)[1])


def checked_rows(rows: object, num_knobs: int) -> Digits:
    """Return the argument as an int64 array of shape (n, num_knobs).

    Raises:
        SpaceError: the shape is wrong, or the type is not an integer type.
    """
    try:
        array = np.asarray(rows)
    except (TypeError, ValueError, OverflowError):  # lists of different lengths, or nested too deep
        raise SpaceError(f"digits={value_text(rows)}: give an integer array, one row for each config") from None
    if array.ndim != 2 or array.shape[1] != num_knobs or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise SpaceError(
            f"digits must be an integer array of shape (configs, {num_knobs}), one column per knob; "
            f"got shape {array.shape} of {array.dtype}"
        )
    return array.astype(np.int64)
