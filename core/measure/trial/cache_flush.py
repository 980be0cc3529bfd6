"""`CacheFlush`: other memory that passes through the caches before a call is timed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

MOST = 64 << 20
"""The largest number of bytes, more than most last-level caches hold."""


class CacheFlush:
    """Memory that is written between calls, which pushes the arrays of kernels out of the caches.

    Args:
        nbytes: the size of the memory, cut to `MOST`. A size below that of a cache leaves the cache in the state after
            a program that touches as much memory.
    """

    def __init__(self, nbytes: int = MOST) -> None:
        self._size = min(nbytes, MOST)

    @cached_property
    def memory(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The memory; its pages are allocated by the first write."""
        return np.zeros(self._size // 8, np.int64)

    def __call__(self) -> None:
        """Write the whole memory."""
        np.add(self.memory, 1, out=self.memory)
