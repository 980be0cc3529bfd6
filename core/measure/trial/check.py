"""The check of a kernel's results: outputs are poisoned before the first run and compared with the NumPy reference.

Guard bands, bytes of a known value before and after an array, reveal writes outside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pegbox.codegen.runtime.checked_call import aligned_bytes
from pegbox.expr import dtypes
from pegbox.task.accuracy import default_accuracy

Array = npt.NDArray[Any]

POISON_BYTE = 0xA5

BAND_BYTES = 4096
"""The length of each band in bytes: 64 vectors of 512 bits.

As a whole page, it keeps every array at its usual place within a page and a cache line.
"""

_CHUNK = 1 << 14


LEAST_MAGNITUDE = 1 / 64
"""The smallest magnitude of an output: if terms cancel, only their rounding errors are left."""


@dataclass(frozen=True)
class Tolerance:
    """A tolerance: a float is right if its error is at most `atol + rtol * |expected| + accuracy * magnitude`.

    `magnitude` is the largest magnitude in the output. Integers and bools must be equal if `atol` < 1.
    """

    rtol: float = 0.0
    atol: float = 0.0
    accuracy: float = 0.0

    @classmethod
    def of(
        cls,
        expected: Sequence[Array],
        *,
        flop: float,
        rtol: float | None = None,
        atol: float | None = None,
        accuracy: float | None = None,
    ) -> Tolerance:
        """Make the tolerance of a task with these reference outputs, from its accuracy or the caller's values.

        Args:
            rtol, atol: the caller's values; with both, the accuracy adds nothing.
            accuracy: the task's, if it declares one; else `default_accuracy`.
        """
        own = accuracy
        if own is None and (rtol is None or atol is None):
            types = [str(array.dtype) for array in expected if array.size]
            own = default_accuracy(types, flop=flop, elements=sum(array.size for array in expected))
        return cls(rtol or 0.0, atol or 0.0, own or 0.0)

    def absolute(self, magnitude: float) -> float:
        """Return the error allowed for any value in an output with that largest magnitude."""
        return self.atol + self.accuracy * magnitude


def _is_float(array: Array) -> bool:
    # An extension type such as bfloat16 does not have the kind "f".
    return dtypes.is_float(str(array.dtype))


def poison(array: Array) -> None:
    """Fill an output with values that no kernel would leave behind by luck: NaN, or bytes 0xA5 for integers."""
    if _is_float(array):
        array.fill(np.nan)
    else:
        _bytes(array).fill(POISON_BYTE)


def magnitude_of(array: Array) -> float:
    """Return the largest finite magnitude of an output of floats, or `LEAST_MAGNITUDE`; 1 for other types."""
    if not _is_float(array) or not array.size:
        return 1.0
    found = LEAST_MAGNITUDE
    kind = _compared_as(array)
    with np.errstate(all="ignore"):
        for piece in _pieces(array):
            values = np.abs(piece.astype(kind, copy=False))
            largest = float(values.max())
            if not math.isfinite(largest):
                largest = float(np.max(values, where=np.isfinite(values), initial=0.0))
            found = max(found, largest)
    return found


def largest_error(got: Array, expected: Array) -> float:
    """Return the largest difference of floats; NaN if some are infinite or NaN, which need a closer look.

    Every trial calls this, so it works in pieces that stay in the cache.
    """
    kind, found = _compared_as(got), 0.0
    with np.errstate(all="ignore"):
        for g, e in zip(_pieces(got), _pieces(expected), strict=True):
            a: npt.NDArray[np.floating] = g.astype(kind, copy=False)
            b: npt.NDArray[np.floating] = e.astype(kind, copy=False)
            error = float(np.abs(a - b).max())
            if not math.isfinite(error):
                return math.nan
            found = max(found, error)
    return found


def largest_finite_error(got: Array, expected: Array) -> float:
    """Return the largest difference among pairs of finite floats."""
    kind = _compared_as(got)
    g: npt.NDArray[np.floating] = got.astype(kind, copy=False)
    e: npt.NDArray[np.floating] = expected.astype(kind, copy=False)
    with np.errstate(all="ignore"):
        error = np.abs(g - e)
    return float(np.max(error, where=np.isfinite(error), initial=0.0))


def difference(
    name: str, got: Array, expected: Array, tolerance: Tolerance, *, magnitude: float | None = None
) -> str | None:
    """Describe the wrong elements of `got`: their number, the worst, and its place; None if all are right.

    Args:
        magnitude: the `magnitude_of` the expected output, if it is known.
    """
    scale = magnitude_of(expected) if magnitude is None else magnitude
    if _is_float(got):
        if got.size and largest_error(got, expected) <= tolerance.absolute(scale):
            return None
        wrong, error = _wrong_floats(got, expected, tolerance, scale)
    else:
        wrong, error = _wrong_integers(got, expected, tolerance)
    if not wrong.any():
        return None
    error = np.where(wrong, error, -1.0)
    place = np.unravel_index(int(np.argmax(np.where(np.isnan(error), np.inf, error))), got.shape)
    where = ", ".join(str(int(index)) for index in place)
    found, wanted = _shown(got, place), _shown(expected, place)
    allowed = tolerance.atol + tolerance.rtol * _magnitude(expected[place])
    if _is_float(got):
        allowed = tolerance.absolute(scale) + tolerance.rtol * _magnitude(expected[place])
    largest = float(error[place])
    return (
        f"{np.count_nonzero(wrong)} of {got.size} elements of output {name!r} are wrong; the worst is at [{where}]: "
        f"{found} instead of {wanted}"
        + (" (never written)" if math.isnan(largest) and not math.isnan(_magnitude(expected[place])) else "")
        + (f", an error of {largest:.3g} where {allowed:.3g} is allowed" if math.isfinite(largest) else "")
    )


class GuardedArray:
    """An array between two guard bands, in memory of its own; kernels get `array`.

    It begins at a cache line if `aligned`, else at the offset of NumPy's memory.
    """

    __slots__ = ("_memory", "array")

    def __init__(self, shape: Sequence[int], dtype: str, *, aligned: bool = False) -> None:
        kind = dtypes.numpy_dtype(dtype)
        nbytes = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        size = nbytes + 2 * BAND_BYTES
        self._memory = aligned_bytes(size) if aligned else np.empty(size, np.uint8)
        self.array: Array = self._memory[BAND_BYTES : BAND_BYTES + nbytes].view(kind).reshape(tuple(shape))
        self.restore()

    def overrun(self) -> str:
        """Describe the number of changed bytes in the bands and their distance; empty if none changed."""
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
    """Decide if two contiguous arrays hold the same bytes (NaNs included)."""
    a, b = _bytes(array), _bytes(pristine)
    words = a.size - a.size % 8
    if (a[words:] != b[words:]).any():
        return False
    x, y = a[:words].view(np.uint64), b[:words].view(np.uint64)
    return all(np.array_equal(x[start : start + _CHUNK], y[start : start + _CHUNK]) for start in _chunks(x))


def _compared_as(array: Array) -> type[np.float32] | type[np.float64]:
    """Choose the type to compare in: single for half precision, since half would round the error away."""
    return np.float64 if array.dtype == np.float64 else np.float32


def _chunks(array: Array) -> range:
    return range(0, array.size, _CHUNK)


def _pieces(array: Array) -> Iterator[Array]:
    flat = array.reshape(-1)
    return (flat[start : start + _CHUNK] for start in _chunks(flat))


def _wrong_floats(
    got: Array, expected: Array, tolerance: Tolerance, magnitude: float
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.floating]]:
    kind = _compared_as(got)
    g: npt.NDArray[np.floating] = got.astype(kind, copy=False)
    e: npt.NDArray[np.floating] = expected.astype(kind, copy=False)
    with np.errstate(all="ignore"):
        error = np.abs(g - e)
        wrong = ~(error <= np.abs(e) * kind(tolerance.rtol) + kind(tolerance.absolute(magnitude)))
        if wrong.any():
            # Equal infinities subtract to NaN, and NaN is right where NaN is expected.
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


def _magnitude(value: object) -> float:
    return abs(float(value))  # type: ignore[arg-type]


def _shown(array: Array, place: tuple[np.intp, ...]) -> str:
    value = array.view(np.uint8)[place] if array.dtype.kind == "b" else array[place]
    return f"{value:.7g}" if array.dtype.kind == "f" else str(value)
