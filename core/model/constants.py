"""The constants of a module: packed for its kernels, equal ones once, in one piece of memory."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.codegen.compiled import ALIGNMENT
from pegbox.codegen.runtime.checked_call import aligned_bytes


class Constants:
    """A growing set of arrays with their places."""

    def __init__(self) -> None:
        self._nbytes = 0
        self._arrays: list[tuple[int, NDArray[np.uint8]]] = []
        self._alike: dict[tuple[int, int], list[tuple[int, NDArray[np.uint8]]]] = {}

    def add(self, array: NDArray[Any]) -> int:
        """Return the offset of an array's bytes, which an earlier array with equal bytes shares."""
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        alike = self._alike.setdefault((content.nbytes, zlib.crc32(content.data)), [])
        for offset, known in alike:
            if np.array_equal(known, content):
                return offset
        offset = self._nbytes
        alike.append((offset, content))
        self._arrays.append((offset, content))
        self._nbytes += -(-content.nbytes // ALIGNMENT) * ALIGNMENT
        return offset

    def bytes(self) -> NDArray[np.uint8]:
        """Join all arrays into one."""
        made = aligned_bytes(self._nbytes)
        made[:] = 0
        for offset, content in self._arrays:
            made[offset : offset + content.nbytes] = content
        return made
