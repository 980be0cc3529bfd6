"""Guard bands: bytes of a known value before and behind an array, which show writes outside of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pegbox.expr import dtypes
from pegbox.measure.trial.check import POISON_BYTE, Array

BAND_BYTES = 4096
"""The length of each band: 64 vectors of 512 bits. As a whole page it leaves every array at the place in its page, and
in its cache line, that NumPy's memory has."""


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
        """Say how many bytes of the bands were written to, and how far away; empty where none were."""
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
