"""Speeds of kernels as text: GFLOP/s, or GB/s for computations without arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pegbox.compute.tensor import Tensor


def bytes_of(arguments: Iterable[Tensor]) -> float:
    """The bytes that a kernel has to move at least once: of each input that it reads and each output that it writes."""
    return float(sum(t.buffer.nbytes for t in arguments))


def format_speed(seconds: float, *, flop: float = 0.0, bytes_moved: float = 0.0) -> str:
    """ "92.1 GFLOP/s", or "11.3 GB/s" of a call without arithmetic; empty where neither is known or it never ran."""
    work, unit = (flop, "GFLOP/s") if flop else (bytes_moved, "GB/s")
    if not work or not 0 < seconds < math.inf:
        return ""
    rate = work / seconds / 1e9
    return f"{rate:.1f} {unit}" if rate >= 0.1 or flop else f"{rate:.2g} {unit}"
