"""Memory plans: blocks that live at the same time do not overlap in one arena.

Source: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (MLSys 2020 workshop), "Greedy by
Size for Offset Calculation".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from pegbox.codegen.compiled import ALIGNMENT
from pegbox.expr import dtypes
from pegbox.graph.graph import Graph, Value


@dataclass(frozen=True)
class Block:
    """A piece of memory in use from one step of a program to another, inclusive."""

    nbytes: int
    first: int
    last: int

    @property
    def size(self) -> int:
        """The size in bytes, rounded up to the alignment."""
        return -(-self.nbytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Arena:
    """A memory plan.

    Attributes:
        offsets: the blocks' offsets in bytes, multiples of `ALIGNMENT`.
        nbytes: the size of the arena.
        bound: the largest sum of blocks at a step; no plan needs less.
    """

    offsets: tuple[int, ...]
    nbytes: int
    bound: int

    def __str__(self) -> str:
        more = f", {self.nbytes / self.bound - 1:.1%} more than the lower bound" if self.nbytes > self.bound else ""
        return f"arena of {self.nbytes:,} bytes; lower bound {self.bound:,}{more}"


_ORDERS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda block: (-block.size, block.first),
    lambda block: (-block.size * (block.last - block.first + 1), block.first),
    lambda block: (block.first, -block.size),
)
"""The orders in which to place blocks: the first comes from the source, the others are better for some programs."""


def plan_memory(blocks: Sequence[Block]) -> Arena:
    """Place blocks in an arena, each in the smallest gap that holds it; return the best plan of several orders."""
    bound = _bound(blocks)
    best: Arena | None = None
    for order in _ORDERS:
        offsets = _placed(blocks, sorted(range(len(blocks)), key=lambda number: order(blocks[number])))
        peak = max((at + block.size for at, block in zip(offsets, blocks, strict=True)), default=0)
        if best is None or peak < best.nbytes:
            best = Arena(tuple(offsets), peak, bound)
        if peak == bound:
            break
    assert best is not None
    return best


def value_bytes(value: Value) -> int:
    """Count the bytes of a value's array."""
    return prod(value.shape) * dtypes.nbytes(value.dtype)


def bytes_between_calls(graph: Graph) -> int:
    """Estimate the bytes that pass through the caches between two calls of a kernel of a graph.

    Weights are read once in each call of the model. Other values share places in the arena, so only those of the
    largest node are counted.
    """
    constants = graph.constants
    touched = ({*node.inputs, *node.outputs} for node in graph.nodes)
    sums = (sum(value_bytes(value) for value in values if value not in constants) for values in touched)
    return sum(map(value_bytes, constants)) + max(sums, default=0)


def _placed(blocks: Sequence[Block], order: Sequence[int]) -> list[int]:
    """Place the blocks in this order; return their offsets."""
    first, last, size = (np.array([getattr(block, name) for block in blocks]) for name in ("first", "last", "size"))
    # The placed blocks, by rising offset.
    placed = np.empty(len(blocks), np.int64)
    offsets = np.zeros(len(blocks), np.int64)
    for count, number in enumerate(order):
        beside = placed[:count]
        beside = beside[(first[beside] <= last[number]) & (last[beside] >= first[number])]
        offsets[number] = _smallest_gap(offsets[beside], offsets[beside] + size[beside], int(size[number]))
        place = np.searchsorted(offsets[placed[:count]], offsets[number])
        placed[place + 1 : count + 1] = placed[place:count]
        placed[place] = number
    return [int(at) for at in offsets]


def _smallest_gap(
    starts: np.ndarray[tuple[int], np.dtype[np.int64]], ends: np.ndarray[tuple[int], np.dtype[np.int64]], size: int
) -> int:
    """Find the offset of the smallest gap for `size` bytes between blocks by rising start, else the end of all."""
    reached = np.concatenate([np.zeros(1, np.int64), np.maximum.accumulate(ends)])
    gaps = starts - reached[:-1]
    fitting = np.flatnonzero(gaps >= size)
    return int(reached[fitting[np.argmin(gaps[fitting])]] if len(fitting) else reached[-1])


def _bound(blocks: Sequence[Block]) -> int:
    change: dict[int, int] = {}
    for block in blocks:
        change[block.first] = change.get(block.first, 0) + block.size
        change[block.last + 1] = change.get(block.last + 1, 0) - block.size
    return int(max(np.cumsum([change[step] for step in sorted(change)]), default=0))
