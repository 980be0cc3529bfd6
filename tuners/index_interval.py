"""An interval of a space's indices, for tuners that search only a part of it (AutoTVM's `range_idx`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from pegbox.errors import ArgumentError
from pegbox.space import Config, ConfigSpace

Bounds: TypeAlias = "tuple[int, int]"

_WANTED = "the first and the last index, both included, as (100, 199), or the text '100-199'"


def index_range(space: ConfigSpace, given: str | Bounds) -> range:
    """Return the indices from the first to the last of `given`, inclusive.

    Raises:
        ArgumentError: `given` is not two integers in order, or the space has no such index.
    """
    parts = given.split("-") if isinstance(given, str) else given
    try:
        first, last = (int(part) if isinstance(part, str) else part.__index__() for part in parts)
    except (TypeError, ValueError, AttributeError):
        raise ArgumentError(f"range_idx={given!r}: give {_WANTED}") from None
    if not 0 <= first <= last < space.size:
        raise ArgumentError(f"range_idx={given!r}: the space has the indices 0 to {space.size - 1:,}; give {_WANTED}")
    return range(first, last + 1)


def configs_in(space: ConfigSpace, indices: Iterator[int]) -> Iterator[Config]:
    """Yield the valid configurations of indices, in order, without those whose canonical index differs."""
    for index in indices:
        config = space.get(index)
        if config.index == index and not space.violated(config):
            yield config


def shuffled(indices: range, rng: np.random.Generator) -> Iterator[int]:
    """Yield every index once, in random order, by Fisher and Yates' shuffle, which keeps only its swaps, no list."""
    moved: dict[int, int] = {}
    for left in range(len(indices), 0, -1):
        place = int(rng.integers(left))
        yield indices[moved.get(place, place)]
        moved[place] = moved.pop(left - 1, left - 1)
