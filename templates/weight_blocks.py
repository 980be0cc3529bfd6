"""Blocks of weights that were packed ahead, each of which is prefetched while the one before is multiplied.

In a model, other data has passed through the caches since the last call, so weights come from memory.
"""

from __future__ import annotations

from pegbox.codegen import Target

FEW_RESULTS = 256
"""The most rows of a product, or pixels of a convolution, for which it matters how fast weights come from memory."""

_PARTS = 8
"""The fewest blocks of which nearly all are prefetched: the first one is not."""


def next_fits(block: int, target: Target) -> bool:
    """Decide if the second cache holds a block of so many bytes and the next one."""
    return 2 * block <= target.caches.l2


def is_small(block: int, whole: int) -> bool:
    """Decide if a block is so small a part of the weights that nearly all of them are prefetched."""
    return _PARTS * block <= whole
