"""Sampling: random valid configs, drawn component by component.

Rejection first, because most spaces are mostly valid; where that finds too little, all valid rows of the component
are listed once and drawn from; where there are too many to list, backtracking in random order builds rows. Which
way is taken depends on the space and the seed alone, never on what was asked before: the same seed gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from pegbox.errors import SpaceError
from pegbox.space.constraint import BoundConstraint
from pegbox.space.digits import Digits, first_of_each
from pegbox.space.enumeration import OutOfBudget, Search, enumerated, search_order
from pegbox.space.structure import Component, Structure

LIST_BUDGET = 1 << 18
CONSTRUCT_BUDGET = 1 << 21
LISTING_BUDGET = 1 << 23
CONSTRUCT_WIDTH, CONSTRUCT_KEEP = 64, 16
"""Backtracking keeps this many partial rows at a time, and this many of the complete ones: kin are much alike."""


def sample(structure: Structure, n: int, rng: np.random.Generator) -> Digits:
    """Up to `n` distinct valid canonical rows; fewer only where the space has fewer.

    Raises:
        SpaceError: the space has no valid config.
    """
    if n <= 0:
        return np.zeros((0, len(structure.lengths)), dtype=np.int64)
    if structure.space.size <= max(1024, 4 * n):
        rows = _listed(structure, n, rng)
        if not len(rows):
            raise SpaceError(f"the space has no valid config; {_demands(structure.constraints)}")
        return rows
    rows = np.zeros((0, len(structure.lengths)), dtype=np.int64)
    while len(rows) < n:
        missing = n - len(rows)
        rows = _joined(structure, rows, draw(structure, missing + missing // 4 + 8, rng))
        if 4 * (n - len(rows)) > 3 * missing:
            # Mostly repetitions: few valid configs are left, so list them.
            return _joined(structure, rows, _listed(structure, n, rng))[:n]
    return rows[:n]


def _joined(structure: Structure, rows: Digits, more: Digits) -> Digits:
    rows = np.concatenate([rows, more])
    return rows[first_of_each(rows, structure.lengths)]


def _listed(structure: Structure, n: int, rng: np.random.Generator) -> Digits:
    """`n` random rows out of a list of the valid ones; the list is complete unless it would be far longer than `n`."""
    tied = [component for component in structure.components if not component.free]
    free = [column for component in structure.components if component.free for column in component.columns]
    order = [column for component in tied for column in search_order(structure, component)] + free
    checks = [check for component in tied for check in component.checks]
    base = np.zeros(len(structure.lengths), dtype=np.int64)
    blocks, found = [base.reshape(1, -1)[:0]], 0
    try:
        for block in Search(structure, order, checks, base, rng=rng, budget=LISTING_BUDGET).blocks():
            blocks.append(block)
            found += len(block)
            if found >= max(64 * n, 1 << 16):
                break
    except OutOfBudget:
        pass
    return rng.permutation(np.concatenate(blocks))[:n]


def draw(structure: Structure, n: int, rng: np.random.Generator) -> Digits:
    """`n` random valid canonical rows, with repetition."""
    rows = structure.canonical(rng.integers(0, structure.sizes, size=(n, len(structure.lengths)), dtype=np.int64))
    for component in structure.components:
        if component.constraints:
            redraw(structure, component, rows, np.flatnonzero(~structure.holds(rows, component.constraints)), rng)
    return rows


def redraw(
    structure: Structure, component: Component, rows: Digits, wanted: NDArray[np.intp], rng: np.random.Generator
) -> None:
    """Give the `wanted` rows new random valid digits in the component's columns, in place.

    Raises:
        SpaceError: the component has no valid combination.
    """
    columns = component.column_array
    for found in _sources(structure, component, len(wanted), rng):
        taken, wanted = wanted[: len(found)], wanted[len(found) :]
        rows[np.ix_(taken, columns)] = found[: len(taken), columns]
        if not len(wanted):
            return


def _sources(structure: Structure, component: Component, n: int, rng: np.random.Generator) -> Iterator[Digits]:
    """Blocks of valid rows of the component, without end, cheapest way first."""
    if n == 0:
        return
    drawn, kept, budget = 0, 1, max(4096, 16 * n)
    while drawn < budget:
        batch = int(np.clip((n - kept) * (drawn + 1) // kept, 256, 8192))
        rows = _uniform(structure, component, batch, rng)
        good = rows[structure.holds(rows, component.constraints)]
        drawn, kept = drawn + batch, kept + len(good)
        yield good
    everything = enumerated(structure, component, LIST_BUDGET)
    if everything is not None and not len(everything):
        raise SpaceError(f"the space has no valid config; {_demands(component.constraints)}")
    while True:
        if everything is not None:
            yield everything[rng.integers(0, len(everything), n)]
        else:
            yield _constructed(structure, component, rng)


def _uniform(structure: Structure, component: Component, n: int, rng: np.random.Generator) -> Digits:
    rows = np.zeros((n, len(structure.lengths)), dtype=np.int64)
    columns = list(component.columns)
    rows[:, columns] = rng.integers(0, structure.sizes[columns], size=(n, len(columns)), dtype=np.int64)
    return structure.canonical(rows)


def _constructed(structure: Structure, component: Component, rng: np.random.Generator) -> Digits:
    """A block of valid rows found by backtracking in random order."""
    base = np.zeros(len(structure.lengths), dtype=np.int64)
    order = search_order(structure, component)
    search = Search(
        structure, order, component.checks, base, rng=rng, block=1 << 15, width=CONSTRUCT_WIDTH, budget=CONSTRUCT_BUDGET
    )
    try:
        for block in search.blocks():
            return block[:CONSTRUCT_KEEP]
    except OutOfBudget:
        names = ", ".join(structure.knobs[column].name for column in component.columns)
        raise SpaceError(
            f"found no valid config after trying {CONSTRUCT_BUDGET:,} combinations of {names}; "
            f"{_demands(component.constraints)}"
        ) from None
    raise SpaceError(f"the space has no valid config; {_demands(component.constraints)}")


def _demands(constraints: Iterable[BoundConstraint]) -> str:
    listed = "; ".join(str(bound.constraint) for bound in constraints)
    return f"these constraints cannot hold together, loosen one: {listed}"
