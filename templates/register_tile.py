"""Register tiles: how many elements a target's vectors hold, and which tiles of accumulators its registers take.

A tile is `rows` × `vectors` accumulators. Each step of the reduction loads a vector for each column of them and one
element for each row, which is broadcast.
"""

from __future__ import annotations

from pegbox.codegen.target import Target
from pegbox.expr.dtypes import BITS

LATENCY = 8  # independent multiply-adds that keep two units busy, each of which takes four cycles
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28)
VECTORS = (1, 2, 3, 4, 6)


def lanes_of(target: Target, dtype: str) -> int:
    """Elements in a vector of the target."""
    return max(target.vector_bits // BITS[dtype], 1)


def fits(target: Target, rows: int, vectors: int) -> bool:
    """Does a step of the reduction run in the target's registers, without a spill?

    Besides the accumulators it holds the operands of which there are fewer; the others are read from memory, one at a
    time. An element that is broadcast takes a register of its own where no instruction broadcasts what it reads (all
    but AVX-512).
    """
    broadcast = 0 if target.vector_bits == 512 else 1
    return rows * vectors + min(rows, vectors) + broadcast <= target.vector_registers


def is_balanced(rows: int, vectors: int) -> bool:
    """Are there at most five loads for four multiply-adds?"""
    return 4 * (rows + vectors) <= 5 * rows * vectors
