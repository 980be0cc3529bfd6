"""Blocks of weights packed ahead, each prefetched while the one before is multiplied.

In a model, other data passes through the caches between calls, so weights come from memory.
"""

from __future__ import annotations

from pegbox.codegen import Target

FEW_RESULTS = 256
"""The most rows of a product, or pixels of a convolution, for which the speed of reading weights matters."""

_PARTS = 8
"""The smallest number of blocks for nearly all to be prefetched, since the first one is not."""


def next_fits(block: int, target: Target) -> bool:
    """Decide if the second cache holds a block of so many bytes and the next one."""
    return 2 * block <= target.caches.l2


def is_small(block: int, whole: int) -> bool:
    """Decide if a block is so small a part of the weights that nearly all of them are prefetched."""
    return _PARTS * block <= whole
