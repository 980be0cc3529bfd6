"""Enumeration of valid configs by backtracking, on whole arrays of partial rows.

One search serves counting, iterating in index order, and finding valid configs where they are too rare for rejection:
it is complete, so that an empty result proves that the space is empty.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pegbox.space.digits import Digits
from pegbox.space.structure import Check, Component, Structure, grouped

BLOCK = 4096


class OutOfBudget(Exception):
    """A search has looked at more partial rows than its budget allows."""


@dataclass
class Search:
    """A search over `order`, the remaining columns of `base` (zeros, if it is not given) staying as they are.

    At most `width` partial rows are extended at once, to about `block` rows: small blocks reach complete rows sooner,
    large ones share more work. With `rng` the rows come in random order, else in ascending order of the columns in
    `order` (or descending), the first being the most significant. `budget` bounds the number of partial rows. `points`
    limits each range to that many values, evenly spaced.
    """

    structure: Structure
    order: Sequence[int]
    checks: Collection[Check]
    base: Digits | None = None
    rng: np.random.Generator | None = None
    descending: bool = False
    block: int = BLOCK
    width: int = BLOCK
    budget: float = math.inf
    points: int | None = None

    def blocks(self) -> Iterator[Digits]:
        """Yield complete rows of full width that pass every check, block by block.

        Raises:
            OutOfBudget: more than `budget` partial rows were looked at.
        """
        columns = set(self.order)
        rows = np.zeros((1, len(self.structure.lengths)), np.int64) if self.base is None else self.base.reshape(1, -1)
        for check in self.checks:
            if not check.needs & columns:
                rows = rows[check.passes(rows)]
        if len(rows):
            yield from self._extend(rows, 0)

    def all_blocks(self) -> Iterator[Digits]:
        """Yield `blocks` for a caller that needs every row; fail at once if the budget is too small.

        No row is dropped before the first check is due, so that the search looks at all partial rows of that length at
        least.
        """
        free = next((depth for depth, due in enumerate(self._due) if due), len(self.order) - 1)
        if math.prod(self.structure.lengths[column] for column in self.order[: free + 1]) > self.budget:
            raise OutOfBudget
        return self.blocks()

    @property
    def descent(self) -> int:
        """The number of partial rows on the way to the first complete ones, if no check drops any."""
        lengths = [self._part(column) for column in self.order]
        return sum(self._step(length) * length for length in lengths)

    def _part(self, column: int) -> int:
        """Return the number of a column's digits to look at in one go: all of a list, or a part of a long range."""
        length = self.structure.lengths[column]
        return length if self.structure.lines[column] is None else min(length, BLOCK)

    @cached_property
    def _due(self) -> list[list[Check]]:
        """List, by depth, the checks that become possible when the column at that depth has its digit."""
        due: list[list[Check]] = [[] for _ in self.order]
        for check in self.checks:
            if depths := [depth for depth, column in enumerate(self.order) if column in check.needs]:
                due[depths[-1]].append(check)
        return due

    def _step(self, length: int) -> int:
        return max(1, min(self.width, self.block // length))

    def _extend(self, rows: Digits, depth: int) -> Iterator[Digits]:
        if depth == len(self.order):
            yield rows
            return
        column = self.order[depth]
        step = self._step(self._part(column))
        for start in range(0, len(rows), step):
            # Combine every row with every digit of the next column, then drop those that fail a check that is now due.
            few = rows[start : start + step]
            for digits in self._digits(column):
                grown = np.repeat(few, len(digits), axis=0)
                self.budget -= len(grown)
                if self.budget < 0:
                    raise OutOfBudget
                grown[:, column] = np.tile(digits, len(few))
                for check in self._due[depth]:
                    grown = grown[check.passes(grown)]
                if len(grown):
                    yield from self._extend(grown if self.rng is None else self.rng.permutation(grown), depth + 1)

    def _digits(self, column: int) -> Iterator[Digits]:
        """Yield the digits of a column in their order, those of a long range in parts."""
        length, part, line = self.structure.lengths[column], self._part(column), self.structure.lines[column]
        if line is not None and self.points is not None:
            yield line.spread(self.points)
            return
        count = -(-length // part)
        begin = 0 if self.rng is None or count == 1 else int(self.rng.integers(count))
        for number in range(count):
            if self.rng is None:
                digits = np.arange(number * part, min((number + 1) * part, length), dtype=np.int64)
            else:  # each part has digits from all over the range
                digits = np.arange((begin + number) % count, length, count, dtype=np.int64)
            yield length - 1 - digits if self.descending else digits


def search_order(structure: Structure, component: Component) -> list[int]:
    """Order the columns so that checks become due soonest, small knobs first."""
    order: list[int] = []
    pending = [set(check.needs) for check in component.checks]
    while pending:
        cheapest = min(pending, key=lambda needs: math.prod(structure.lengths[c] for c in needs))
        order += sorted(cheapest, key=lambda column: structure.lengths[column])
        pending = [rest for needs in pending if (rest := needs - cheapest)]
    return order + [column for column in component.columns if column not in order]


def component_rows(structure: Structure, component: Component, budget: int) -> Digits | None:
    """Return all valid canonical rows of a component, of full width with zeros elsewhere; None past the budget."""
    key = (*component.columns, budget)
    if key not in structure.tables:
        order = search_order(structure, component)
        structure.tables[key] = _collect(Search(structure, order, component.checks, budget=budget))
    return structure.tables[key]


def _collect(search: Search) -> Digits | None:
    try:
        blocks = list(search.all_blocks())
    except OutOfBudget:
        return None
    return np.concatenate([search.structure.no_rows, *blocks])


def in_index_order(structure: Structure, points: int | None = None) -> Iterator[Digits]:
    """Yield all valid canonical rows of the space, lazily, in ascending index order; `points` as for `Search`."""
    checks = [check for component in structure.components for check in component.checks]
    return Search(structure, range(len(structure.knobs))[::-1], checks, points=points).blocks()


def earliest_order(structure: Structure) -> tuple[list[int], list[Check]]:
    """Order all columns so that checks become due soonest, unchecked columns last; return them and the checks."""
    tied = [component for component in structure.components if not component.free]
    free = [column for component in structure.components if component.free for column in component.columns]
    order = [column for component in tied for column in search_order(structure, component)] + free
    return order, [check for component in tied for check in component.checks]


def valid_rows(structure: Structure) -> Digits:
    """Compute the rows of `in_index_order` all at once: search in the order that drops most, then sort."""
    rows = _collect(Search(structure, *earliest_order(structure)))
    assert rows is not None  # without a budget
    return rows[np.lexsort(rows.T)] if rows.shape[1] else rows


def count_valid(structure: Structure, budget: int) -> int | None:
    """Count the valid canonical configs; None if that takes more than `budget` partial rows."""
    total = 1
    for component in structure.components:
        if component.free:
            total *= math.prod(structure.lengths[column] for column in component.columns)
            continue
        rows = component_rows(structure, component, budget)
        count = _count_by_gates(structure, component, budget) if rows is None and component.gates else None
        if rows is None and count is None:
            return None
        total *= len(rows) if rows is not None else count or 0
    return total


def _count_by_gates(structure: Structure, component: Component, budget: int) -> int | None:
    """Sum over the digits of the knobs that conditions refer to: for each, the rest may fall into parts."""
    gates = frozenset(component.gates)
    if any(structure.lines[gate] is not None and structure.lengths[gate] > BLOCK for gate in gates):
        return None  # the rest would be counted for each value
    settled = [check for check in component.checks if check.needs <= gates]
    outer = Search(structure, component.gates, settled, block=256, budget=budget)
    total = 0
    try:
        for block in outer.blocks():
            for row in block:
                count, outer.budget = _count_under(structure, component, row, outer.budget)
                total += count
    except OutOfBudget:
        return None
    return total


def _count_under(structure: Structure, component: Component, row: Digits, budget: float) -> tuple[int, float]:
    """Count the ways to fill the other columns under the gates of `row`; return them and the rest of the budget."""
    active = structure.active(row.reshape(1, -1))[0]
    free = [c for c in component.columns if active[c] and c not in component.gates]
    # A free column exists under these gates: the check that pins it to 0 where it does not cannot fail.
    checks = [check for check in component.checks if check.pins not in free]
    total = 1
    for columns in grouped(free, [set(check.needs) & set(free) for check in checks]):
        inside = [check for check in checks if check.needs & set(columns)]
        if not inside:
            total *= math.prod(structure.lengths[column] for column in columns)
            continue
        search = Search(structure, columns, inside, row, budget=budget)
        total *= sum(len(block) for block in search.all_blocks())
        budget = search.budget
    fixed = [check for check in checks if not check.needs & set(free)]
    holds = all(check.passes(row.reshape(1, -1))[0] for check in fixed)
    return (total if holds else 0), budget - 1
