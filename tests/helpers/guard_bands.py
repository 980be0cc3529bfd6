"""Arrays with bytes before and behind them that nothing may write."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BAND = 256  # bytes: four cache lines, more than any vector
_FILL = 0xA5


class Banded:
    """A copy of an array, `array`, between two bands."""

    def __init__(self, array: Array) -> None:
        self._memory = np.full(array.nbytes + 2 * BAND, _FILL, np.uint8)
        self.array: Array = self._memory[BAND : BAND + array.nbytes].view(array.dtype).reshape(array.shape)
        self.array[...] = array

    def overwritten(self) -> list[int]:
        """The positions of bytes that were written outside: negative before the array, from 0 behind it."""
        before, behind = self._memory[:BAND] != _FILL, self._memory[BAND + self.array.nbytes :] != _FILL
        return [int(i) - BAND for i in np.flatnonzero(before)] + [int(i) for i in np.flatnonzero(behind)]
