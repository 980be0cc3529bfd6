"""Vectors of a target: their elements, the number that must be in flight at once, and tiles of them in registers."""

from __future__ import annotations

from pegbox.checks import check_instance
from pegbox.codegen.targets.target import Target
from pegbox.expr import dtypes

LATENCY = 8
"""The number of independent multiply-adds that keep two units with a latency of four cycles busy."""


def lanes_of(target: Target, dtype: str, *others: str) -> int:
    """Count the elements of the widest of some dtypes in a vector of the target."""
    check_instance("lanes_of: target", target, Target, "a pegbox.Target")
    return max(target.vector_bits // max(dtypes.BITS[dtypes.check(each)] for each in (dtype, *others)), 1)


def fits_registers(target: Target, rows: int, vectors: int) -> bool:
    """Decide if a reduction with `rows` × `vectors` accumulators runs in registers; a spill halves its speed.

    Each step loads a vector for each column of accumulators, and for each row one element, which is broadcast. Besides
    the accumulators, it holds a row of vectors and one more value: the element, or, if instructions broadcast it
    themselves, a value in flight for the next step.
    """
    return rows * vectors + vectors + 1 <= target.vector_registers
