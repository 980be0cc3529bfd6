"""Speeds and times of kernels as text: GFLOP/s, or GB/s for computations without arithmetic."""

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


def format_seconds(seconds: float) -> str:
    """A cost with a unit that keeps it readable."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"


def format_cost(cost: float, unit: str) -> str:
    """A cost with its unit: seconds as `format_seconds` writes them, any other as a number."""
    if unit == "s":
        return format_seconds(cost)
    number = f"{cost:,.0f}" if cost == round(cost) < 1e15 else f"{cost:.6g}"
    return f"{number} {unit}".rstrip()
