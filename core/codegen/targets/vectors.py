"""Vectors of a target: their elements, the number that has to be under way at once, and tiles of them in registers."""

from __future__ import annotations

from pegbox.checks import check_instance
from pegbox.codegen.targets.target import Target
from pegbox.expr import dtypes

LATENCY = 8
"""The independent multiply-adds that keep two units busy, each of which takes four cycles."""


def lanes_of(target: Target, dtype: str, *others: str) -> int:
    """Count the elements of the widest of some types in a vector of the target."""
    check_instance("lanes_of: target", target, Target, "a pegbox.Target")
    return max(target.vector_bits // max(dtypes.BITS[dtypes.check(each)] for each in (dtype, *others)), 1)


def fits_registers(target: Target, rows: int, vectors: int) -> bool:
    """Decide if a reduction with `rows` × `vectors` accumulators runs in registers; a spill halves its speed.

    Each step loads a vector for each column of them and one element for each row, which is broadcast. Besides the
    accumulators it holds a row of vectors and one more value: the element, or, if instructions broadcast it themselves,
    a value that the scheduling of the next step has in flight.
    """
    return rows * vectors + vectors + 1 <= target.vector_registers
