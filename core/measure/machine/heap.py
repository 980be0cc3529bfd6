"""The heap of a process that times NumPy: freed memory stays with the process, as in a long-running one."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
"""The parameters of glibc's mallopt(3)."""
_KEPT = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1}
_USUAL = {_MMAP_MAX: 65536, _TRIM_THRESHOLD: 128 << 10, _MMAP_THRESHOLD: 128 << 10}


@contextlib.contextmanager
def kept_heap() -> Iterator[None]:
    """Run the body with a malloc that returns nothing to the system, if malloc is glibc's.

    In a young process, malloc returns large blocks as soon as they are freed. Each temporary array of a NumPy program
    then costs a page fault for every 4 KiB, in every call, and the program takes twice its time or more. It depends on
    the blocks that the process freed before (mallopt(3), M_MMAP_THRESHOLD): a process that has run for a while keeps
    large blocks.
    """
    mallopt: Callable[[int, int], int] = getattr(ctypes.CDLL(None), "mallopt", lambda parameter, value: 0)
    for parameter, value in _KEPT.items():
        mallopt(parameter, value)
    try:
        yield
    finally:
        for parameter, value in _USUAL.items():
            mallopt(parameter, value)
