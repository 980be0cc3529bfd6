"""Steps of a single knob to the next value."""

from __future__ import annotations

import numpy as np

from pegbox.space import ConfigSpace, nearest
from pegbox.tuners.rows import Digits

MOST = 8
"""So many values of a knob without order are tried in one go."""

NEAREST = 4
"""So many of the closest values, where values have more than one coordinate (the factors of a split, say)."""

PADDING = 16
"""So many neighbours are asked of the space where it excludes most steps; some of them are the same."""

TABLE_LIMIT = 2048
"""For knobs with more values than that, the space is asked for neighbours instead."""


class Steps:
    """The neighbours of a configuration in a space.

    A knob whose values are numbers has two: up and down. One whose values have several coordinates has the closest,
    and one without order all of its values. What the space excludes is left out; where that is most of them, as in a
    space that is a list of what was recorded, neighbours that the space itself knows are added.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self._space = space
        self._orders: dict[int, tuple[Digits, Digits]] = {}
        for column, table in enumerate(space.structure.coordinates):
            if table is not None and table.shape[1] == 1:
                order = np.argsort(table[:, 0], kind="stable").astype(np.int64)
                self._orders[column] = order, np.argsort(order).astype(np.int64)

    def line(self, row: Digits, rng: np.random.Generator) -> Digits:
        """Valid configurations one step of one knob away from `row` (knobs,), in random order."""
        moved = [self._with(row, column, digit) for column in range(len(row)) for digit in self._next(row, column, rng)]
        return self._usable(row, moved, rng, hops=1)

    def plane(self, row: Digits, n: int, rng: np.random.Generator) -> Digits:
        """About `n` valid configurations that are a step of each of two knobs away, chosen at random."""
        steps = [(column, digit) for column in range(len(row)) for digit in self._next(row, column, rng)]
        moved: list[Digits] = []
        for _ in range(2 * n if steps else 0):
            (one, digit), (other, another) = (steps[place] for place in rng.integers(0, len(steps), 2))
            if one != other:
                moved.append(self._with(self._with(row, one, digit), other, another))
        return self._usable(row, moved, rng, hops=2)[:n]

    def ahead(self, before: Digits, now: Digits, reach: int) -> Digits:
        """Valid configurations up to `reach` steps further in the direction from `before` to `now`."""
        found: list[Digits] = []
        for count in range(1, reach + 1):
            row = now.copy()
            for column in np.flatnonzero(before != now).tolist():
                if column in self._orders:
                    order, ranks = self._orders[column]
                    direction = np.sign(ranks[now[column]] - ranks[before[column]])
                    row[column] = order[np.clip(ranks[now[column]] + count * direction, 0, len(order) - 1)]
            found.append(row)
        return self._valid(now, found)

    def _next(self, row: Digits, column: int, rng: np.random.Generator) -> list[int]:
        """Digits one step away from that of a knob; none if the knob does not exist."""
        structure, digit = self._space.structure, int(row[column])
        length = structure.lengths[column]
        if length < 2 or not structure.active(row.reshape(1, -1))[0, column]:
            return []
        if column in self._orders:
            order, ranks = self._orders[column]
            rank = int(ranks[digit])
            return [int(order[place]) for place in (rank - 1, rank + 1) if 0 <= place < length]
        table = structure.coordinates[column]
        if table is not None:
            return nearest(table)[digit][:NEAREST].tolist() if length <= TABLE_LIMIT else []
        others = [other for other in range(length) if other != digit]
        return rng.permutation(others)[:MOST].tolist() if length > MOST + 1 else others

    def _with(self, row: Digits, column: int, digit: int) -> Digits:
        changed: Digits = row.copy()
        changed[column] = digit
        return changed

    def _usable(self, row: Digits, moved: list[Digits], rng: np.random.Generator, *, hops: int) -> Digits:
        found = self._valid(row, moved)
        if 2 * len(found) < max(len(moved), 1):
            more = np.repeat(row.reshape(1, -1), PADDING, axis=0)
            for _ in range(hops):
                more = self._space.neighbors(more, rng)
            found = np.concatenate([found, more])
        shuffled: Digits = rng.permutation(found)
        return shuffled

    def _valid(self, row: Digits, moved: list[Digits]) -> Digits:
        rows = np.array(moved, dtype=np.int64).reshape(len(moved), len(row))
        rows = self._space.canonical(rows)
        rows = rows[self._space.is_valid(rows)]
        others: Digits = rows[(rows != row).any(axis=1)]
        return others
