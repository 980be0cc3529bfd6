"""Register tiles: the accumulators of a reduction that fit a target's registers.

A tile is `rows` × `vectors` accumulators. Each step of the reduction loads a vector for each column of them and one
element for each row, which is broadcast.
"""

from __future__ import annotations

from pegbox.codegen.targets.target import Target


def fits_registers(target: Target, rows: int, vectors: int) -> bool:
    """Does a step of the reduction run in the target's registers, without a spill, which halves the speed?

    Besides the accumulators it holds a row of vectors and one more value: an element that is broadcast, or what
    scheduling of the next step has in flight where instructions broadcast what they read.
    """
    return rows * vectors + vectors + 1 <= target.vector_registers
