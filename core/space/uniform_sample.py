"""Uniform samples: every valid configuration is as likely as any other.

`space.sample` draws digits, so that a configuration in which knobs do not exist comes as often as there are digits that
mean it. That suits tuners, but not a sample that represents its space.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pegbox.space import ConfigSpace, Digits
from pegbox.space.enumeration import component_rows, valid_rows
from pegbox.space.knob import Floats
from pegbox.space.sampling import LIST_BUDGET, redraw, uniform
from pegbox.space.structure import Component, Structure

LISTED = 1 << 20
"""The largest number of valid configurations that are listed; those of larger spaces are drawn."""

_BATCH = 4096
_DRY_BATCHES = 64
"""Drawing ends after this many batches in a row without a new configuration."""


def uniform_order(space: ConfigSpace, seed: int) -> Iterator[Digits]:
    """Yield all valid configurations in a random order, in blocks; for a large space, distinct ones until they get
    rare.

    The order depends on the space and the seed alone, so that a second pass has the same beginning. There are two
    exceptions. If less than one in thousands of the combinations is valid, and these are too many to list, those that a
    search with random choices finds are likelier. And a choice that less than one in thousands of the combinations of
    digits mean, with more knobs under it than any other, comes less often than it should.
    """
    rng = np.random.default_rng(seed)
    count, structure = space.num_valid(), space.structure
    if count is not None and count <= LISTED:
        if count:
            yield rng.permutation(valid_rows(structure))
        return
    evenly = [_drawn_evenly(structure, component, rng) for component in structure.components if component.gates]
    seen: set[bytes] = set()
    dry = 0
    while dry < _DRY_BATCHES:
        blocks = [next(blocks) for blocks in evenly]
        rows = _ungated(structure, min(map(len, blocks), default=_BATCH), rng)
        for block in blocks:
            rows += block[: len(rows)]
        found = {row.tobytes(): row for row in np.ascontiguousarray(rows)}
        fresh = [row for key, row in found.items() if key not in seen]
        seen.update(found)
        dry = 0 if fresh else dry + 1
        if fresh:
            yield np.array(fresh)


def _ungated(structure: Structure, n: int, rng: np.random.Generator) -> Digits:
    """Draw valid rows of the components whose knobs all exist; zeros in the columns of the others."""
    rows = structure.random(n, rng)
    for component in structure.components:
        if component.gates:
            rows[:, component.column_array] = 0
        elif component.constraints:
            redraw(structure, component, rows, np.flatnonzero(~structure.holds(rows, component.constraints)), rng)
    return rows


def _drawn_evenly(structure: Structure, component: Component, rng: np.random.Generator) -> Iterator[Digits]:
    """Yield blocks of canonical valid rows of a component, zeros in other columns, each row equally likely.

    Rows of digits are drawn, and kept with a probability inverse to the number of rows that mean the same
    configuration.
    """
    everything = component_rows(structure, component, LIST_BUDGET)
    while everything is not None and len(everything):
        yield everything[rng.integers(0, len(everything), _BATCH)]
    first = [_valid(structure, component, rng) for _ in range(_DRY_BATCHES)]
    meanings = [_digits_meaning(structure, component, rows) for rows in first]
    least = min((meaning.min() for meaning in meanings if len(meaning)), default=None)
    while least is None:
        rows = np.zeros((_BATCH, len(structure.lengths)), dtype=np.int64)
        redraw(structure, component, rows, np.arange(_BATCH), rng)
        yield rows
    while True:
        rows = first.pop() if first else _valid(structure, component, rng)
        kept = rows[rng.random(len(rows)) * _digits_meaning(structure, component, rows) < least]
        if len(kept):
            yield kept


def _valid(structure: Structure, component: Component, rng: np.random.Generator) -> Digits:
    rows = uniform(structure, component, _BATCH, rng)
    return rows[structure.holds(rows, component.constraints)]


def _digits_meaning(structure: Structure, component: Component, rows: Digits) -> Floats:
    """Count the rows of digits that mean the same as each of these: digits of knobs that do not exist may have any
    value.
    """
    columns = component.column_array
    exist = structure.active(rows)[:, columns]
    return np.asarray(np.where(exist, 1.0, structure.sizes[columns]).prod(axis=1), dtype=np.float64)
