"""`CacheFlush`: other memory that passes through the caches before a call is timed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

MOST = 64 << 20
"""Bytes, more than most last-level caches hold."""


class CacheFlush:
    """Memory that is written between calls, which pushes the arrays of kernels out of the caches.

    Args:
        nbytes: its size, at most `MOST`. Less than a cache holds leaves that cache as it would be after a program that
            has touched as much.
    """

    def __init__(self, nbytes: int = MOST) -> None:
        self._size = min(nbytes, MOST)

    @cached_property
    def memory(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The memory, whose pages exist since the first call."""
        return np.zeros(self._size // 8, np.int64)

    def __call__(self) -> None:
        """Write all of it."""
        np.add(self.memory, 1, out=self.memory)
