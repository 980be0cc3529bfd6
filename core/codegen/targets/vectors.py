"""Vectors of a target: how many elements each has, and how many have to be under way at once."""

from __future__ import annotations

from pegbox.codegen.targets.target import Target
from pegbox.expr.dtypes import BITS

LATENCY = 8  # independent multiply-adds that keep two units busy, each of which takes four cycles


def lanes_of(target: Target, dtype: str) -> int:
    """Elements in a vector of the target."""
    return max(target.vector_bits // BITS[dtype], 1)
