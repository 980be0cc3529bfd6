"""Search for knob values that always make the same program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import TypeAlias

import numpy as np

from pegbox.space import Config, ConfigSpace, Digits

_ROWS = 200  # sampled configurations in which values are compared
_TRIES = 8  # configurations to compare for each pair of values; a pair equal in all of these counts as duplicates
_ENOUGH = 3  # the smallest number of comparisons to judge a pair, unless the whole space was examined

Program: TypeAlias = Callable[[Config], str | None]
"""A function that writes the program of a configuration as text; None if there is none."""


def duplicate_values(space: ConfigSpace, program: Program, *, values: int) -> Iterator[str]:
    """Yield pairs of values of one knob that make the same program for all values of the other knobs.

    At most `values` random values of a knob are compared, because each takes a program.
    """
    rng = np.random.default_rng(3)
    rows = space.sample(_ROWS, np.random.default_rng(2))
    least = _ENOUGH if len(rows) == _ROWS else 1
    exist = space.structure.active(rows)
    for column, (name, knob) in enumerate(space.knobs.items()):
        compared: Counter[tuple[int, int]] = Counter()
        different: set[tuple[int, int]] = set()
        chosen = np.sort(rng.permutation(len(knob))[:values])
        for variants in _variants(space, rows[exist[:, column]], column, chosen):
            open_pairs = [p for p in combinations(variants, 2) if p not in different and compared[p] < _TRIES]
            digits = {digit for pair in open_pairs for digit in pair}
            programs = {digit: program(space.config(variants[digit])) for digit in digits}
            for first, second in open_pairs:
                if programs[first] is not None and programs[second] is not None:
                    compared[first, second] += 1
                    if programs[first] != programs[second]:
                        different.add((first, second))
        for (first, second), count in compared.items():
            if (first, second) not in different and count >= least:
                yield f"{name}: {knob.entities[first]} and {knob.entities[second]}"


def _variants(space: ConfigSpace, rows: Digits, column: int, chosen: Digits) -> Iterator[dict[int, Digits]]:
    """Yield, for each row, the valid rows that differ from it at most in one knob, by that knob's digit, one of
    `chosen`.
    """
    moved = np.repeat(rows[:, None], len(chosen), axis=1)
    moved[:, :, column] = chosen
    flat = space.canonical(moved.reshape(-1, rows.shape[1]))
    valid = space.is_valid(flat).reshape(len(rows), len(chosen))
    for variants, are_valid in zip(flat.reshape(moved.shape), valid, strict=True):
        yield {int(chosen[place]): variants[place] for place in np.flatnonzero(are_valid)}
