"""Vectors of a target: how many elements each has, and how many have to be under way at once."""

from __future__ import annotations

from pegbox.checks import check_instance
from pegbox.codegen.targets.target import Target
from pegbox.expr import dtypes

LATENCY = 8  # independent multiply-adds that keep two units busy, each of which takes four cycles


def lanes_of(target: Target, dtype: str) -> int:
    """Elements in a vector of the target."""
    check_instance("lanes_of: target", target, Target, "a pegbox.Target")
    return max(target.vector_bits // dtypes.BITS[dtypes.check(dtype)], 1)
