"""The check of a kernel's results: outputs are poisoned before the first run and compared with the NumPy reference.

Guard bands, bytes of a known value before and behind an array, show writes outside of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pegbox.expr import dtypes

Array = npt.NDArray[Any]

POISON_BYTE = 0xA5

BAND_BYTES = 4096
"""The length of each band: 64 vectors of 512 bits. As a whole page it leaves every array at the place in its page, and
in its cache line, that NumPy's memory has."""

_CHUNK = 1 << 14


@dataclass(frozen=True)
class Tolerance:
    """A float is right when it is within `atol + rtol * |expected|`; integers and bools must be equal if `atol` < 1."""

    rtol: float
    atol: float

    @classmethod
    def of(
        cls, expected: Sequence[Array], *, flop: float, rtol: float | None = None, atol: float | None = None
    ) -> Tolerance:
        """Make a tolerance for these reference outputs, unless the caller gives one.

        A sum of K products in another order differs by about eps * sqrt(K) times the size of the result: the errors
        of K roundings add up as a random walk. K is taken from the work per output element. The factor 16 covers the
        largest of millions of elements; a kernel that forgets a single term is still far outside.
        """
        floats = [array for array in expected if _is_float(array) and array.size]
        if not floats:
            return cls(rtol or 0.0, atol or 0.0)
        eps = max(dtypes.EPSILON[str(array.dtype)] for array in floats)
        elements = sum(array.size for array in expected)
        length = math.sqrt(max(1.0, flop / (2.0 * elements)))
        scale = max(0.05, max(_rms(array) for array in floats))
        return cls(
            rtol=eps * 16 * max(4.0, length) if rtol is None else rtol,
            atol=eps * 16 * length * scale if atol is None else atol,
        )


def _is_float(array: Array) -> bool:
    # The kind of an extension type such as bfloat16 is not "f".
    return dtypes.is_float(str(array.dtype))


def poison(array: Array) -> None:
    """Fill an output with values that no kernel would leave behind by luck: NaN, or bytes 0xA5 for integers."""
    if _is_float(array):
        array.fill(np.nan)
    else:
        _bytes(array).fill(POISON_BYTE)


def difference(name: str, got: Array, expected: Array, tolerance: Tolerance) -> str | None:
    """Describe the wrong elements of `got`: their number, the worst, and its place; None if all are right."""
    if _is_float(got):
        if _clearly_close(got, expected, tolerance):
            return None
        wrong, error = _wrong_floats(got, expected, tolerance)
    else:
        wrong, error = _wrong_integers(got, expected, tolerance)
    if not wrong.any():
        return None
    error = np.where(wrong, error, -1.0)
    place = np.unravel_index(int(np.argmax(np.where(np.isnan(error), np.inf, error))), got.shape)
    where = ", ".join(str(int(index)) for index in place)
    found, wanted = _shown(got, place), _shown(expected, place)
    allowed = tolerance.atol + tolerance.rtol * _magnitude(expected[place])
    largest = float(error[place])
    return (
        f"{np.count_nonzero(wrong)} of {got.size} elements of output {name!r} are wrong; the worst is at [{where}]: "
        f"{found} instead of {wanted}"
        + (" (never written)" if math.isnan(largest) and not math.isnan(_magnitude(expected[place])) else "")
        + (f", an error of {largest:.3g} where {allowed:.3g} is allowed" if math.isfinite(largest) else "")
    )


class GuardedArray:
    """An array between two guard bands, in memory of its own; `array` is what kernels get."""

    __slots__ = ("_memory", "array")

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        kind = dtypes.numpy_dtype(dtype)
        nbytes = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        self._memory = np.empty(nbytes + 2 * BAND_BYTES, np.uint8)
        self.array: Array = self._memory[BAND_BYTES : BAND_BYTES + nbytes].view(kind).reshape(tuple(shape))
        self.restore()

    def overrun(self) -> str:
        """Count the bytes of the bands that were written to, and say how far away; empty where none were."""
        before, behind = (np.flatnonzero(band != POISON_BYTE) for band in self._bands())
        found = []
        if before.size:
            found.append(f"{before.size} bytes before it were written, the first at {before[0] - BAND_BYTES}")
        if behind.size:
            found.append(f"{behind.size} bytes behind it were written, the last at +{behind[-1] + 1}")
        return " and ".join(found)

    def restore(self) -> None:
        """Fill the bands with their value again."""
        for band in self._bands():
            band.fill(POISON_BYTE)

    def _bands(self) -> tuple[Array, Array]:
        return self._memory[:BAND_BYTES], self._memory[len(self._memory) - BAND_BYTES :]


def same_bytes(array: Array, pristine: Array) -> bool:
    """Decide whether two contiguous arrays hold the same bytes (NaNs included)."""
    a, b = _bytes(array), _bytes(pristine)
    words = a.size - a.size % 8
    if (a[words:] != b[words:]).any():
        return False
    x, y = a[:words].view(np.uint64), b[:words].view(np.uint64)
    return all(np.array_equal(x[start : start + _CHUNK], y[start : start + _CHUNK]) for start in _chunks(x))


def _clearly_close(got: Array, expected: Array, tolerance: Tolerance) -> bool:
    """Decide whether every element is strictly within the tolerance; infinities and NaNs are left to a closer look.

    This is on the path of every trial, so it works in pieces that stay in the cache.
    """
    g, e = got.reshape(-1), expected.reshape(-1)
    kind = _compared_as(got)
    with np.errstate(all="ignore"):
        for start in _chunks(g):
            a: npt.NDArray[np.floating] = g[start : start + _CHUNK].astype(kind, copy=False)
            b: npt.NDArray[np.floating] = e[start : start + _CHUNK].astype(kind, copy=False)
            if not (np.abs(a - b) < np.abs(b) * kind(tolerance.rtol) + kind(tolerance.atol)).all():
                return False
    return True


def _compared_as(array: Array) -> type[np.float32] | type[np.float64]:
    """Choose the type to compare in: single for half precision, whose own arithmetic would round the error away."""
    return np.float64 if array.dtype == np.float64 else np.float32


def _chunks(array: Array) -> range:
    return range(0, array.size, _CHUNK)


def _wrong_floats(
    got: Array, expected: Array, tolerance: Tolerance
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.floating]]:
    kind = _compared_as(got)
    g: npt.NDArray[np.floating] = got.astype(kind, copy=False)
    e: npt.NDArray[np.floating] = expected.astype(kind, copy=False)
    with np.errstate(all="ignore"):
        error = np.abs(g - e)
        wrong = ~(error <= np.abs(e) * kind(tolerance.rtol) + kind(tolerance.atol))
        if wrong.any():
            # Infinities of one sign subtract to NaN, and NaN is right where NaN is expected.
            wrong &= ~((g == e) | (np.isnan(g) & np.isnan(e)))
            # An infinite allowance would accept anything where an infinity is expected.
        wrong |= np.isinf(e) & (g != e)
    return wrong, error


def _wrong_integers(
    got: Array, expected: Array, tolerance: Tolerance
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.floating]]:
    if got.dtype.kind == "b":
        got, expected = got.view(np.uint8), expected.view(np.uint8)
    wrong = np.asarray(got != expected)
    if not wrong.any():
        return wrong, np.zeros(got.shape)
    error = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    if tolerance.atol >= 1:
        wrong &= error > tolerance.atol
    return wrong, error


def _bytes(array: Array) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _rms(array: Array) -> float:
    values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    return math.sqrt(float(np.mean(finite * finite))) if finite.size else 0.0


def _magnitude(value: object) -> float:
    return abs(float(value))  # type: ignore[arg-type]


def _shown(array: Array, place: tuple[np.intp, ...]) -> str:
    value = array.view(np.uint8)[place] if array.dtype.kind == "b" else array[place]
    return f"{value:.7g}" if array.dtype.kind == "f" else str(value)
