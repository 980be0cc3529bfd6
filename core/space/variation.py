"""Neighbours and crossovers of configs, on whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from pegbox.space.digits import Digits, Mask
from pegbox.space.knob import Floats
from pegbox.space.random_walk import revive
from pegbox.space.sampling import draw, redraw
from pegbox.space.structure import Structure

NEAREST = 8
NEAR_SHARE = 0.75
TABLE_LIMIT = 2048
DRAWN = 128
"""The number of values of a longer range to try if no move was found: constraints are slow Python functions."""

TRIES = 16
"""The number of redraws of a component if no single move was valid."""

ATTEMPTS = (1, 2, 4, 9)
"""The numbers of moves of a row to try at once, until one is valid: a call costs as much as dozens of rows."""

BEYOND = 0.25
"""The share of two parents' distance by which a child's number may lie beyond one of them."""


def neighbors(structure: Structure, digits: Digits, rng: np.random.Generator) -> Digits:
    """Return one random valid neighbour per row: one knob that exists is moved, mostly to one of its closest values.

    Knobs that begin to exist by the move get random values. If no single move is valid, the knobs of one component are
    drawn anew; a row is returned unchanged only if the space has nothing else.
    """
    rows = structure.canonical(digits)
    result = rows.copy()
    movable = structure.active(rows) & (structure.sizes > 1)
    pending = np.flatnonzero(movable.any(axis=1))
    for attempts in ATTEMPTS:
        if not len(pending):
            break
        tried = np.repeat(pending, attempts)
        moved = _moved(structure, rows[tried], movable[tried], rng)
        valid = structure.holds(moved)
        result[tried[valid]] = moved[valid]
        pending = np.setdiff1d(pending, tried[valid])
    for i in pending:
        result[i] = _any_move(structure, rows[i], rng)
    return np.asarray(result)


def _moved(structure: Structure, rows: Digits, movable: Mask, rng: np.random.Generator) -> Digits:
    """Return every row with one random movable knob moved."""
    chosen = np.where(movable, rng.random(rows.shape), -1.0).argmax(axis=1)
    moved = rows.copy()
    for column in np.unique(chosen).tolist():
        group = np.flatnonzero(chosen == column)
        moved[group, column] = _step(structure, column, rows[group, column], rng)
    return revive(structure, rows, moved, rng)


def _step(structure: Structure, column: int, digits: Digits, rng: np.random.Generator) -> Digits:
    """Choose another digit for each digit of one knob, mostly a near one."""
    length = structure.lengths[column]
    other = rng.integers(0, length - 1, len(digits), dtype=np.int64)
    other += other >= digits
    if (line := structure.lines[column]) is not None:
        return np.where(rng.random(len(digits)) < NEAR_SHARE, line.near(digits, rng), other)
    coordinates = structure.coordinates[column]
    if coordinates is None or length <= 2:
        return other
    if length <= TABLE_LIMIT:
        if column not in structure.nearest:
            structure.nearest[column] = nearest(coordinates)
        table = structure.nearest[column]
        near = table[digits, rng.integers(0, table.shape[1], len(digits))]
    else:  # A large knob has no table: the closest of a few dozen random values is close enough.
        others = rng.integers(0, length - 1, (len(digits), 64), dtype=np.int64)
        others += others >= digits[:, None]
        distance = np.abs(coordinates[others] - coordinates[digits][:, None]).sum(axis=2)
        near = others[np.arange(len(digits)), distance.argmin(axis=1)]
    return np.where(rng.random(len(digits)) < NEAR_SHARE, near, other)


def nearest(coordinates: Floats) -> Digits:
    """Return a table of shape (n, min(8, n - 1)): for each digit, the other digits with the closest values."""
    return _nearest(coordinates.astype(np.float32).tobytes(), coordinates.shape[1])


@lru_cache(maxsize=64)
def _nearest(raw: bytes, width: int) -> Digits:
    """Compute `nearest` from the bytes of a table, so that equal knobs share the work."""
    coordinates = np.frombuffer(raw, dtype=np.float32).reshape(-1, width)
    n = len(coordinates)
    count = min(NEAREST, n - 1)
    # Ties are broken by a fixed jitter per pair: argpartition alone would prefer small digits.
    jitter = np.random.default_rng(n)
    table = np.empty((n, count), dtype=np.int64)
    for start in range(0, n, 256):
        block = coordinates[start : start + 256]
        distance = jitter.random((len(block), n), dtype=np.float32) * np.float32(1e-3)
        for axis in range(width):
            distance += np.abs(block[:, axis, None] - coordinates[None, :, axis])
        distance[np.arange(len(block)), np.arange(start, start + len(block))] = np.inf
        table[start : start + 256] = np.argpartition(distance, count - 1, axis=1)[:, :count]
    return table


def _blended(
    structure: Structure, children: Digits, a: Digits, b: Digits, both: Mask, rng: np.random.Generator
) -> Digits:
    """Return the children with some numbers of ranges blended from both parents.

    Eshelman and Schaffer, "Real-Coded Genetic Algorithms and Interval-Schemata" (FOGA 1993): BLX-alpha.
    """
    for column, line in enumerate(structure.lines):
        if line is not None:
            one, other = line.shares(a[:, column]), line.shares(b[:, column])
            blend = line.at(one + rng.uniform(-BEYOND, 1.0 + BEYOND, len(a)) * (other - one))
            chosen = both[:, column] & (rng.random(len(a)) < 0.5)
            children[:, column] = np.where(chosen, blend, children[:, column])
    return children


def _any_move(structure: Structure, row: Digits, rng: np.random.Generator) -> Digits:
    """Make a random valid single move of a row; if there is none, redraw the row partly."""
    active = structure.active(row.reshape(1, -1))[0]
    others = {c: _others(structure, c, rng) for c in range(len(row)) if active[c]}
    columns = [c for c, values in others.items() for _ in values]
    digits = [digit for values in others.values() for digit in values]
    moves = np.repeat(row.reshape(1, -1), len(columns), axis=0)
    moves[np.arange(len(moves)), columns] = digits
    moves = moves[(moves != row).any(axis=1)]
    moves = revive(structure, np.repeat(row.reshape(1, -1), len(moves), axis=0), moves, rng)
    moves = moves[structure.holds(moves)]
    if len(moves):
        return np.asarray(moves[rng.integers(0, len(moves))])
    # Draw one component anew, or the whole row if that changes nothing.
    tied = [component for component in structure.components if component.constraints]
    known = row.reshape(1, -1)
    fresh = np.repeat(known, TRIES, axis=0)
    chosen = rng.integers(0, max(1, len(tied)), TRIES)
    for i, component in enumerate(tied):
        redraw(structure, component, fresh, np.flatnonzero(chosen == i), rng, known=known)
    changed = fresh[(fresh != row).any(axis=1) & structure.holds(fresh)]
    return np.asarray(changed[0] if len(changed) else draw(structure, 1, rng, known=known)[0])


def _others(structure: Structure, column: int, rng: np.random.Generator) -> Sequence[int]:
    """Return all digits of a column, or random ones of a long range."""
    length = structure.lengths[column]
    if structure.lines[column] is None or length <= TABLE_LIMIT:
        return range(length)
    drawn: list[int] = structure.random_digits(np.full(DRAWN, column), rng).tolist()
    return drawn


def crossover(structure: Structure, a: Digits, b: Digits, rng: np.random.Generator) -> Digits:
    """Cross rows uniformly per knob (Syswerda 1989) and repair them: every knob comes from one of the parents.

    Half the time, a number of a range comes from between them, or a little beyond. If the mixed knobs of a component
    break a constraint, the whole component comes from one parent, which is valid if the parents are.
    """
    a, b = structure.canonical(a), structure.canonical(b)
    in_a, in_b = structure.active(a), structure.active(b)
    # A knob that exists in one parent only has no value to inherit from the other.
    from_b = np.where(in_a == in_b, rng.random(a.shape) < 0.5, in_b)
    children = structure.canonical(_blended(structure, np.where(from_b, b, a), a, b, in_a & in_b, rng))
    coin = rng.random((len(a), 1)) < 0.5
    for component in structure.components:
        if not component.constraints:
            continue
        columns = component.column_array
        for parents in (np.where(coin, a, b), np.where(coin, b, a)):
            broken = np.flatnonzero(~structure.holds(children, component.constraints))
            children[np.ix_(broken, columns)] = parents[np.ix_(broken, columns)]
        broken = np.flatnonzero(~structure.holds(children, component.constraints))
        redraw(structure, component, children, broken, rng, known=np.concatenate([a, b]))
    return children
