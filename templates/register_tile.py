"""Register tiles of templates: their sizes, their loops, and the cost of a step of the reduction in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from pegbox import te
from pegbox.codegen import LATENCY, Target

BODY = 128  # multiply-adds in the innermost loop's body; more only costs compile time and instruction cache
ROWS = (*range(1, 15), 16, 20, 24, 28)
VECTORS = (1, 2, 3, 4, 5, 6)
WIDE_BITS = 512
"""The width in bits from which half a vector takes less time than the whole: a core may compute halves singly."""


def write_out(stage: te.Stage, lanes: te.IterVar, unrolled: Iterable[te.IterVar]) -> None:
    """Vectorize the loop over lanes, and unroll the others of a tile."""
    stage.vectorize(lanes)
    for loop in unrolled:
        stage.unroll(loop)


def computed_extent(target: Target, lanes: int, extent: int) -> int:
    """Round an extent up to whole vectors of so many lanes; the last one may be half of a wide vector."""
    unit = lanes // 2 if target.vector_bits >= WIDE_BITS else lanes
    return -(-extent // unit) * unit


def is_first_name(order: str, orders: Sequence[str], left: Collection[str]) -> bool:
    """Decide if an order of loops is the first among equivalent ones with only the `left` loops.

    Two loops over one dimension equal a single one if no other is between them.
    """
    kept = [[letter for letter, _ in groupby(filter(left.__contains__, each))] for each in orders]
    place = orders.index(order)
    return kept.index(kept[place]) == place


def step_cost(rows: int, vectors: int) -> float:
    """Estimate the half cycles of a step of the reduction, with two multiply-adds and two loads a cycle.

    Loads cost a tenth more than undisturbed ones, and with few accumulators their latency matters more than at best, as
    was measured, from 3 to 12 accumulators, on a Zen 5 limited to AVX2.
    """
    return max(rows * vectors, 1.1 * (rows + vectors), 0.8 * LATENCY + 0.36 * rows * vectors)


def is_balanced(rows: int, vectors: int) -> bool:
    """Decide if a tile has more multiply-adds than loads."""
    return rows * vectors > rows + vectors
