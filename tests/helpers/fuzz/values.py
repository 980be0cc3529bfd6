"""Contents of input arrays, and the comparison of results with NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.dtypes import lowest
from pegbox.expr import dtypes

Array = NDArray[Any]

SMALL, SPECIAL, ANY = "small", "special", "any"
"""Integers of small magnitude, also as floats; these with NaN, infinities and -0.0 between; all numbers of the type."""

_TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


def contents(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], kind: str) -> Array:
    """An array of one of the three kinds."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    found = rng.integers(lowest(dtype, 4), 5, shape).astype(dtypes.numpy_dtype(dtype))
    if kind == SMALL:
        return found
    if kind == ANY:
        width = dtypes.nbytes(dtype)
        anything = rng.integers(0, 256, (*shape, width), np.uint8).view(found.dtype).reshape(shape)
        found = np.where(rng.random(shape) < 0.4, anything, found)
    remarkable = np.array(_remarkable(dtype, kind), found.dtype)
    if not remarkable.size:
        return found
    return np.where(rng.random(shape) < 0.25, rng.choice(remarkable, shape), found)


def _remarkable(dtype: str, kind: str) -> list[Any]:
    """Numbers at which arithmetic behaves otherwise than between them."""
    if not dtypes.is_float(dtype):
        low, high = dtypes.value_range(dtype)
        return [low, low + 1, high, high - 1, high // 2 + 1] if kind == ANY else []
    special = [np.nan, np.inf, -np.inf, -0.0]
    if kind == SPECIAL:
        return special
    first, last = dtypes.EXPONENTS[dtype]
    epsilon = dtypes.EPSILON[dtype]
    largest, smallest = 2.0**last * (2 - epsilon), 2.0**first
    subnormal = smallest * epsilon
    limits = [
        float(sign * limit) for bits in (8, 16, 32, 64) for limit in (2 ** (bits - 1), 2**bits) for sign in (1, -1)
    ]
    found = [*special, largest, -largest, smallest, -smallest, subnormal, 3 * subnormal, -subnormal, 0.5, 1.5, -2.5,
             127.5, 255.5, 1 + epsilon, *(limit for limit in limits if abs(limit) <= largest)]  # fmt: skip
    return found


def difference(got: Array, want: Array, *, exact: bool, signed_zeros: bool) -> str | None:
    """The first elements that differ: bit by bit (but for the payloads of NaNs) or within the tolerance of the type."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    with np.errstate(invalid="ignore", over="ignore"):  # NaNs that signal
        same = _same(got, want, exact=exact, signed_zeros=signed_zeros)
    if np.all(same):
        return None
    where = [tuple(map(int, at)) for at in np.argwhere(~np.atleast_1d(same))]
    shown = [f"  {list(at)}: {np.atleast_1d(got)[at]!r} instead of {np.atleast_1d(want)[at]!r}" for at in where[:8]]
    return "\n".join([f"{len(where)} of {got.size} elements differ:", *shown])


def _same(got: Array, want: Array, *, exact: bool, signed_zeros: bool) -> Array:
    if not dtypes.is_float(str(got.dtype)):
        return np.asarray(got == want)
    a, b = got.astype("float64"), want.astype("float64")
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if signed_zeros:
        same &= np.isnan(a) | (np.signbit(a) == np.signbit(b))
    if not exact:
        margin = _TOLERANCE[str(got.dtype)] * max(1.0, np.abs(b[np.isfinite(b)]).max(initial=0))
        same |= np.abs(a - b) <= margin
    return same
