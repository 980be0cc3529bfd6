"""Random walks over the valid rows of one component of a space.

The Metropolis algorithm (Metropolis et al. 1953) for the uniform distribution: a random move is taken if it leads to a
valid row, so that a long walk forgets where it began. Walks are for components whose valid rows are too rare to draw
and too many to list.
"""

from __future__ import annotations

import numpy as np

from pegbox.space.digits import Digits
from pegbox.space.structure import Component, Structure


def walk(structure: Structure, component: Component, rows: Digits, rng: np.random.Generator, *, sweeps: int) -> Digits:
    """Take random walks from the valid canonical `rows`, and return their ends: as many valid canonical rows, with the
    other columns as they were.

    A walk tries `sweeps` moves for each column of the component.
    """
    for _ in range(sweeps * len(component.columns)):
        moved = revive(structure, rows, _moved(structure, component, rows, rng), rng)
        valid = structure.holds(moved, component.constraints)
        rows = np.where(valid[:, None], moved, rows)
    return rows


def _moved(structure: Structure, component: Component, rows: Digits, rng: np.random.Generator) -> Digits:
    """Return the rows with one random column of the component, or two, at random digits.

    Two, because constraints such as a * b == c allow no move of a single one.
    """
    moved, n = rows.copy(), len(rows)
    for share in (1.0, 0.5):
        taken = np.flatnonzero(rng.random(n) < share)
        columns = rng.choice(component.column_array, len(taken))
        moved[taken, columns] = structure.random_digits(columns, rng)
    return structure.canonical(moved)


def revive(structure: Structure, before: Digits, after: Digits, rng: np.random.Generator) -> Digits:
    """Give the knobs of `after` that did not exist `before` random values, since always the first would be a bias."""
    if not structure.conditions:
        return after
    fresh = structure.random(len(after), rng)
    return structure.canonical(np.where(structure.active(before), after, fresh))
