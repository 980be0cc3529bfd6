"""Uniform samples: every valid configuration is as likely as any other.

`space.sample` draws digits, so that a configuration in which knobs do not exist comes as often as there are digits
which mean it. Tuners may like that; a sample that stands for its space must not have it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pegbox.space import ConfigSpace, Digits
from pegbox.space.enumeration import valid_rows
from pegbox.space.knob import Floats
from pegbox.space.sampling import draw

LISTED = 1 << 20
"""Spaces of more valid configurations than this are drawn from, not listed."""

_BATCH = 4096
_DRY_BATCHES = 64
"""So many batches in a row without a new configuration end the drawing."""


def uniform_order(space: ConfigSpace, seed: int) -> Iterator[Digits]:
    """All valid configurations in a random order, in blocks; of a large space, distinct ones until they get rare.

    The order depends on the space and the seed alone, so that whoever goes through it again finds the same beginning.
    Only where less than one in thousands of the combinations is valid, and these are too many to list, are some
    likelier than others: those that a search with random choices finds.
    """
    rng = np.random.default_rng(seed)
    count = space.num_valid()
    if count is not None and count <= LISTED:
        if count:
            yield rng.permutation(valid_rows(space.structure))
        return
    yield from _drawn(space, rng)


def _drawn(space: ConfigSpace, rng: np.random.Generator) -> Iterator[Digits]:
    seen: set[bytes] = set()
    dry = 0
    while dry < _DRY_BATCHES:
        rows = np.ascontiguousarray(draw(space.structure, _BATCH, rng))
        accepted = rng.random(len(rows)) * _digits_meaning(space, rows) < 1.0
        found = {row.tobytes(): row for row in rows[accepted]}
        fresh = [row for key, row in found.items() if key not in seen]
        seen.update(found)
        dry = 0 if fresh else dry + 1
        if fresh:
            yield np.array(fresh)


def _digits_meaning(space: ConfigSpace, rows: Digits) -> Floats:
    """How many rows of digits mean the same as each of these: those of knobs that do not exist may be anything."""
    exist = space.structure.active(rows)
    return np.asarray(np.where(exist, 1.0, space.structure.sizes).prod(axis=1), dtype=np.float64)
