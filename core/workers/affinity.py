"""Affinity: the cores that a thread may run on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence


def affinity_mask() -> tuple[int, ...]:
    """Return the numbers of the cores that the calling thread may run on, ascending."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def pin(cores: Sequence[int], *, thread: int = 0) -> None:
    """Confine a thread, by default the calling one (and threads it starts later), to `cores`.

    Without effect where that is impossible, or the thread has ended.
    """
    if cores and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, cores)


@contextlib.contextmanager
def confined(cores: Sequence[int]) -> Iterator[None]:
    """Confine the calling thread to `cores` for the body of a `with`, then restore its mask."""
    before = affinity_mask()
    pin(cores)
    try:
        yield
    finally:
        pin(before)
