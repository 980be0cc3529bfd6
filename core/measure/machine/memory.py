"""The memory limit of a worker process."""

from __future__ import annotations

import contextlib
import os

_LEAST = 1 << 30


def memory_share(*, workers: int = 1) -> int:
    """Compute the bytes for each of `workers` processes: three quarters of the memory together, at least 1 GiB each.

    The memory is the machine's, or the control group's if that is less (containers).
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max") as file:
        total = min(total, int(file.read()))
    return max(_LEAST, total * 3 // 4 // workers)
