"""Sampling: random valid configs, drawn component by component.

Rejection comes first, because most spaces are mostly valid. If it finds too little, all valid rows of the component are
listed once and drawn from. If there are too many to list, backtracking in random order builds rows, each time from a
fresh start. If that finds nothing, random walks lead away from known valid rows: those that rejection found, and those
in the corners of the space. The choice depends on the space and the seed alone, never on earlier samples: the same seed
gives the same rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.errors import SpaceError
from pegbox.space.constraint import BoundConstraint
from pegbox.space.digits import Digits, first_of_each
from pegbox.space.enumeration import OutOfBudget, Search, component_rows, earliest_order, search_order
from pegbox.space.random_walk import walk
from pegbox.space.structure import Component, Structure

LIST_BUDGET = 1 << 18
CONSTRUCT_BUDGET = 1 << 21
LISTING_BUDGET = 1 << 23
CONSTRUCT_WIDTH, CONSTRUCT_KEEP = 64, 16
"""The numbers of partial rows that backtracking keeps, and of complete ones that it returns: few, as they are alike."""
WALKERS, BEGIN_SWEEPS, NEXT_SWEEPS = 256, 6, 2
"""The number of walks at once, the sweeps before the first rows are taken from them, and the sweeps between rows."""
DESCENT_SHARE = 1.5
"""The budget of the first attempt at backtracking, as a multiple of the straight way down to complete rows."""


def sample(structure: Structure, n: int, rng: np.random.Generator) -> Digits:
    """Draw up to `n` distinct valid canonical rows; fewer only if the space has fewer.

    Raises:
        SpaceError: the space has no valid config, or none was found; the message says which.
    """
    rows = structure.no_rows
    if n <= 0:
        return rows
    if structure.space.size <= max(1024, 4 * n):
        listed, complete = _listed(structure, n, rng)
        if complete and not len(listed):
            raise _empty(structure.constraints)
        if len(listed):
            return listed
    while len(rows) < n:
        missing = n - len(rows)
        rows = _joined(structure, rows, draw(structure, missing + missing // 4 + 8, rng))
        if 4 * (n - len(rows)) > 3 * missing:
            # Mostly repetitions: few valid configs are left, so list them.
            return _joined(structure, rows, _listed(structure, n, rng)[0])[:n]
    return rows[:n]


def _joined(structure: Structure, rows: Digits, more: Digits) -> Digits:
    rows = np.concatenate([rows, more])
    return rows[first_of_each(rows, structure.lengths)]


def _listed(structure: Structure, n: int, rng: np.random.Generator) -> tuple[Digits, bool]:
    """Draw `n` random rows from a list of the valid ones; return them, and whether the list holds all valid rows.

    The list ends when it is far longer than `n`; it is not made if the budget covers only a part of it.
    """
    order, checks = earliest_order(structure)
    blocks, found, complete = [structure.no_rows], 0, True
    try:
        for block in Search(structure, order, checks, rng=rng, budget=LISTING_BUDGET).all_blocks():
            blocks.append(block)
            found += len(block)
            if found >= max(64 * n, 1 << 16):
                break
    except OutOfBudget:
        complete = False
    return rng.permutation(np.concatenate(blocks))[:n], complete


def draw(structure: Structure, n: int, rng: np.random.Generator, *, known: Digits | None = None) -> Digits:
    """Draw `n` random valid canonical rows, with repetition; `known` as for `redraw`."""
    rows = structure.canonical(structure.random(n, rng))
    for component in structure.components:
        if component.constraints:
            wanted = np.flatnonzero(~structure.holds(rows, component.constraints))
            redraw(structure, component, rows, wanted, rng, known=known)
    return rows


def redraw(
    structure: Structure,
    component: Component,
    rows: Digits,
    wanted: NDArray[np.intp],
    rng: np.random.Generator,
    *,
    known: Digits | None = None,
) -> None:
    """Give the `wanted` rows new random valid digits in the component's columns, in place.

    `known` are canonical rows, some of them valid: starting points if valid rows are hard to find.

    Raises:
        SpaceError: the component has no valid combination, or none was found.
    """
    columns = component.column_array
    for found in _sources(structure, component, len(wanted), rng, known):
        taken, wanted = wanted[: len(found)], wanted[len(found) :]
        rows[np.ix_(taken, columns)] = found[: len(taken), columns]
        if not len(wanted):
            return


def _sources(
    structure: Structure, component: Component, n: int, rng: np.random.Generator, known: Digits | None
) -> Iterator[Digits]:
    """Yield blocks of valid rows of the component without end, the cheapest way first."""
    if n == 0:
        return
    drawn, kept, budget = 0, 1, max(4096, 16 * n)
    valid = [] if known is None else [known[structure.holds(known, component.constraints)]]
    while drawn < budget:
        batch = int(np.clip((n - kept) * (drawn + 1) // kept, 256, 8192))
        rows = uniform(structure, component, batch, rng)
        good = rows[structure.holds(rows, component.constraints)]
        drawn, kept = drawn + batch, kept + len(good)
        valid.append(good)
        yield good
    everything = component_rows(structure, component, LIST_BUDGET)
    if everything is None:
        yield from _beyond_listing(structure, component, n, rng, np.concatenate(valid))
    elif not len(everything):
        raise _empty(component.constraints)
    while everything is not None:
        yield everything[rng.integers(0, len(everything), n)]


def _beyond_listing(
    structure: Structure, component: Component, n: int, rng: np.random.Generator, valid: Digits
) -> Iterator[Digits]:
    """Yield blocks of valid rows without end, if they are rare and too many to list; `valid` ones are known."""
    while len(rows := _constructed(structure, component, rng)):
        yield rows
    valid = np.concatenate([valid, _corners(structure, component)])
    while not len(valid):
        yield _constructed_at_last(structure, component, rng)
    rows = walk(structure, component, valid[rng.integers(0, len(valid), min(n, WALKERS))], rng, sweeps=BEGIN_SWEEPS)
    while True:
        yield rows
        before, rows = rows, walk(structure, component, rows, rng, sweeps=NEXT_SWEEPS)
        if 2 * (rows != before).any(axis=1).sum() < len(rows):
            # Most of them are dead ends.
            yield _constructed(structure, component, rng)


def uniform(structure: Structure, component: Component, n: int, rng: np.random.Generator) -> Digits:
    rows = np.zeros((n, len(structure.lengths)), dtype=np.int64)
    columns = list(component.columns)
    rows[:, columns] = structure.random_digits(np.broadcast_to(component.column_array, (n, len(columns))), rng)
    return structure.canonical(rows)


def _search(structure: Structure, component: Component, **options: Any) -> Search:
    """Return a search for some valid rows of the component, which reaches its first complete rows soon."""
    order = search_order(structure, component)
    search = Search(structure, order, component.checks, block=1 << 15, width=CONSTRUCT_WIDTH, **options)
    search.budget = DESCENT_SHARE * search.descent
    return search


def _constructed(structure: Structure, component: Component, rng: np.random.Generator, share: float = 1.0) -> Digits:
    """Return a block of valid rows found by backtracking from a random start; empty if it gives up.

    Raises:
        SpaceError: it saw everything, and nothing is valid.
    """
    search = _search(structure, component, rng=rng)
    search.budget *= share
    try:
        for block in search.blocks():
            return block[:CONSTRUCT_KEEP]
    except OutOfBudget:
        return structure.no_rows
    raise _empty(component.constraints)


def _constructed_at_last(structure: Structure, component: Component, rng: np.random.Generator) -> Digits:
    """Restart `_constructed` until all of the budget is spent; each attempt may look at more than the last.

    Raises:
        SpaceError: nothing is valid, or nothing was found.
    """
    first, tried, share = _search(structure, component).budget, 0, 1.0
    while tried < CONSTRUCT_BUDGET:
        if len(rows := _constructed(structure, component, rng, share)):
            return rows
        tried += int(first * share)
        share *= 1.25
    names = ", ".join(structure.knobs[column].name for column in component.columns)
    combinations = math.prod(structure.lengths[column] for column in component.columns)
    raise SpaceError(
        f"found no valid config among {tried:,} combinations of {names}, complete and partial ones, out of "
        f"{combinations:,}; one may exist, so loosen a constraint, declare fewer values of the knobs, or put first "
        f"the values that satisfy the constraints: {_listing(component.constraints)}"
    )


def _corners(structure: Structure, component: Component) -> Digits:
    """Find valid rows near the first and the last one, where limits on sums and products hold if anywhere."""
    key = component.columns
    if key not in structure.corners:
        found = [structure.no_rows]
        for end in (False, True):
            with suppress(OutOfBudget):
                found += itertools.islice(_search(structure, component, descending=end).blocks(), 1)
        structure.corners[key] = np.concatenate(found)
    return structure.corners[key]


def _empty(constraints: Iterable[BoundConstraint]) -> SpaceError:
    """Make the error for a space that was proven empty by a complete search."""
    return SpaceError(
        f"the space has no valid config; these constraints cannot hold together, loosen one: {_listing(constraints)}"
    )


def _listing(constraints: Iterable[BoundConstraint]) -> str:
    return "; ".join(str(bound.constraint) for bound in constraints)
