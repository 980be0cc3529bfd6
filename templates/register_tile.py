"""Register tiles: the elements of a target's vectors, and the tiles of accumulators that fit its registers.

A tile is `rows` × `vectors` accumulators. Each step of the reduction loads a vector for each column of them and one
element for each row, which is broadcast.
"""

from __future__ import annotations

from pegbox.codegen.targets.target import Target
from pegbox.codegen.targets.vectors import LATENCY, lanes_of

__all__ = ["BODY", "LATENCY", "ROWS", "VECTORS", "fits", "is_balanced", "lanes_of", "step_cost"]

BODY = 128  # multiply-adds in the innermost loop's body; more only costs compile time and instruction cache
ROWS = (*range(1, 15), 16, 20, 24, 28)
VECTORS = (1, 2, 3, 4, 5, 6)


def fits(target: Target, rows: int, vectors: int) -> bool:
    """Does a step of the reduction run in the target's registers, without a spill, which halves the speed?

    Besides the accumulators it holds a row of vectors and one more value: an element that is broadcast, or what
    scheduling of the next step has in flight where instructions broadcast what they read.
    """
    return rows * vectors + vectors + 1 <= target.vector_registers


def step_cost(rows: int, vectors: int) -> float:
    """Half cycles that a step of the reduction takes, with two multiply-adds and two loads a cycle.

    Loads cost a tenth more than they would where nothing else got in their way, and with few accumulators their latency
    shows beyond what it would at best: so it was measured, from 3 to 12 accumulators, on a Zen 5 limited to AVX2.
    """
    return max(rows * vectors, 1.1 * (rows + vectors), 0.8 * LATENCY + 0.36 * rows * vectors)


def is_balanced(rows: int, vectors: int) -> bool:
    """Are there more multiply-adds than loads?"""
    return rows * vectors > rows + vectors
