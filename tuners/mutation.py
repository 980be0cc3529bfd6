"""Mutation of configurations as schedules are mutated: a factor of a tile moves to another level of its split.

Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep Learning" (OSDI 2020), section 5.1. A move
keeps the product of the extents, so that the tiles of the other levels change as little as can be.
"""

from __future__ import annotations

import itertools

import numpy as np

from pegbox.space import ConfigSpace, SplitKnob, divisors, inferred_outer, powers_of_two, revive
from pegbox.tuners.rows import Digits

TRIES = 8
"""How often a mutation that the space excludes is drawn again, before the space is asked for any neighbour."""


class Mutation:
    """Mutates rows of digits: of each one knob that exists, the more values it has, the more often.

    A split moves a factor (`factor_moves`), every other knob takes another of its values. The knobs that come to exist
    by that get random values.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self._space = space
        self._weights = np.log2(np.maximum(space.structure.sizes, 1))
        self._moves: dict[tuple[int, int], list[int]] = {}

    def __call__(self, rows: Digits, rng: np.random.Generator) -> Digits:
        """A mutant of each of the valid canonical rows (n, knobs): valid, canonical, and another one where there is."""
        mutants: Digits = rows.copy()
        pending = np.arange(len(rows))
        for _ in range(TRIES):
            moved = self._moved(rows[pending], rng)
            good = self._space.is_valid(moved) & (moved != rows[pending]).any(axis=1)
            mutants[pending[good]] = moved[good]
            pending = pending[~good]
            if not len(pending):
                return mutants
        mutants[pending] = self._space.neighbors(rows[pending], rng)
        return mutants

    def _moved(self, rows: Digits, rng: np.random.Generator) -> Digits:
        weights = np.where(self._space.structure.active(rows), self._weights, 0.0)
        # The first of exponential waiting times, at rates that are the weights, comes with their probabilities.
        with np.errstate(divide="ignore"):
            chosen = (rng.exponential(size=rows.shape) / weights).argmin(axis=1)
        moved = rows.copy()
        for column in np.unique(chosen[weights.any(axis=1)]).tolist():
            group = np.flatnonzero(chosen == column)
            moved[group, column] = self._step(column, rows[group, column], rng)
        return revive(self._space.structure, rows, moved, rng)

    def _step(self, column: int, digits: Digits, rng: np.random.Generator) -> Digits:
        """Another digit of the knob for each."""
        knob = self._space.structure.knobs[column]
        others = rng.integers(0, len(knob) - 1, len(digits), dtype=np.int64)
        others += others >= digits
        if isinstance(knob, SplitKnob):
            for place, (digit, luck) in enumerate(zip(digits.tolist(), rng.random(len(digits)).tolist(), strict=True)):
                if moves := self._factor_moves(column, knob, digit):
                    others[place] = moves[int(luck * len(moves))]
        return others

    def _factor_moves(self, column: int, knob: SplitKnob, digit: int) -> list[int]:
        key = column, digit
        if key not in self._moves:
            self._moves[key] = factor_moves(knob, digit)
        return self._moves[key]


def factor_moves(knob: SplitKnob, digit: int) -> list[int]:
    """The digits of the splits that are made of this one by moving one factor from a level to another.

    The extent of the outermost level is rounded up where the split does not divide; it gives its divisors, and powers
    of two.
    """
    inner = knob.entities[digit].sizes[1:]
    sizes = (inferred_outer(knob.extent, inner), *inner)
    factors = [divisors(size) for size in sizes]
    factors[0] = sorted({*factors[0], *powers_of_two(sizes[0])})
    found: set[int] = set()
    for source, goal in itertools.permutations(range(len(sizes)), 2):
        for factor in factors[source][1:]:
            moved = list(sizes)
            moved[source] //= factor
            moved[goal] *= factor
            found.add(knob.digits_by_key.get(tuple(moved[1:]), digit))
    return sorted(found - {digit})
