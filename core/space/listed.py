"""A part of a space that is given as a list: what was recorded of it, for instance.

The knobs, their encoding and the fingerprint are those of the whole space, so that a configuration of one is a
configuration of the other. What differs is where one may go: sampling, neighbours and crossover stay inside the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.errors import SpaceError
from pegbox.space.config import Config
from pegbox.space.digits import Digits, Mask, checked_rows, first_of_each
from pegbox.space.space import ConfigSpace

NEAREST = 16
"""How many of the closest listed configs count as neighbours of one."""

_VALUE_SHARE = 0.5
"""The most that two values of a knob can add to a distance beyond their being different: knobs count before values."""

_TABLE_LIMIT = 1024


class ListedSpace(ConfigSpace):
    """The listed configs of `base`, and nothing else.

    Args:
        base: the space that the rows are from. Its constraints are not asked again: being listed is all that counts.
        rows: digits of shape (configs, knobs); repetitions count once.

    Raises:
        SpaceError: no rows, or one outside the space.
    """

    def __init__(self, base: ConfigSpace, rows: Digits) -> None:
        super().__init__()
        self.knobs = dict(base.knobs)
        self.positions = dict(base.positions)
        checked = base.canonical(checked_rows(rows, len(base.knobs)))
        if not len(checked):
            raise SpaceError("a listed space needs at least one config, got an empty list of rows")
        checked = checked[first_of_each(checked, base.structure.lengths)]
        self.rows: Digits = np.ascontiguousarray(checked[np.lexsort(checked.T)])
        """The listed configs in the order of their indices."""
        self._places = {row.tobytes(): place for place, row in enumerate(self.rows)}
        self._nearest: dict[bytes, NDArray[np.intp]] = {}
        self._columns = np.ascontiguousarray(self.rows.T)
        self._tables: list[NDArray[np.float32] | None] | None = None

    def place(self, config: Config) -> int | None:
        """The position of a config in `rows`, or None."""
        return self._places.get(np.array(config.digits, dtype=np.int64).tobytes())

    def num_valid(self) -> int:
        return len(self.rows)

    def is_valid(self, digits: Digits) -> Mask:
        rows = np.ascontiguousarray(checked_rows(digits, len(self.knobs)))
        return np.fromiter((row.tobytes() in self._places for row in rows), dtype=np.bool_, count=len(rows))

    def violated(self, config: Config) -> tuple[str, ...]:
        return () if self.place(config) is not None else (f"it is one of the {len(self.rows):,} listed configs",)

    def iterate(self) -> Iterator[Config]:
        for row in self.rows.tolist():
            yield Config(self, tuple(row))

    def sample(self, n: int, rng: np.random.Generator) -> Digits:
        return np.asarray(self.rows[rng.permutation(len(self.rows))[: max(0, n)]])

    def neighbors(self, digits: Digits, rng: np.random.Generator) -> Digits:
        """One of the closest listed configs per row: fewest knobs that differ, then closest values."""
        rows = np.ascontiguousarray(self._rows(digits))
        luck = rng.random(len(rows))
        near = [self._closest(row) for row in rows]
        places = [group[int(share * len(group))] for group, share in zip(near, luck, strict=True)]
        return np.asarray(self.rows[np.array(places, dtype=np.intp)])

    def crossover(self, a: Digits, b: Digits, rng: np.random.Generator) -> Digits:
        """As the whole space's, then moved to the closest listed config where the child is not listed."""
        children = np.ascontiguousarray(super().crossover(a, b, rng))
        for place in np.flatnonzero(~self.is_valid(children)):
            children[place] = self.rows[self._closest(children[place])[0]]
        return children

    def _closest(self, row: Digits) -> NDArray[np.intp]:
        """Places of the listed configs closest to `row`, itself left out, the closest first."""
        key = row.tobytes()
        if key not in self._nearest:
            distance = self._distances(row)
            own = self._places.get(key)
            if own is not None and len(distance) > 1:
                distance[own] = np.inf
            count = min(NEAREST, max(1, len(distance) - (own is not None)))
            found = np.argpartition(distance, count - 1)[:count]
            self._nearest[key] = found[np.argsort(distance[found], kind="stable")]
        return self._nearest[key]

    def _distances(self, row: Digits) -> NDArray[np.float32]:
        if self._tables is None:
            self._tables = [self._table(column) for column in range(len(self.knobs))]
        total = np.zeros(len(self.rows), dtype=np.float32)
        for column, (table, digit) in enumerate(zip(self._tables, row.tolist(), strict=True)):
            distances = self._from(column, digit) if table is None else table[digit]
            total += distances[self._columns[column]]
        return total

    def _table(self, column: int) -> NDArray[np.float32] | None:
        """Distances between all values of a knob; None for a knob with so many that they are computed when needed."""
        length = self.structure.lengths[column]
        if length > _TABLE_LIMIT:
            return None
        return np.stack([self._from(column, digit) for digit in range(length)])

    def _from(self, column: int, digit: int) -> NDArray[np.float32]:
        """How far each value of a knob is from one of them: 0 for itself, else at least 1."""
        coordinates = self.structure.coordinates[column]
        far = np.ones(self.structure.lengths[column], dtype=np.float32)
        if coordinates is not None:
            spread = float(np.ptp(coordinates, axis=0).sum()) or 1.0
            far += (np.abs(coordinates - coordinates[digit]).sum(axis=1) * (_VALUE_SHARE / spread)).astype(np.float32)
        far[digit] = 0.0
        return far

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "rows": self.rows}

    def __setstate__(self, state: dict[str, Any]) -> None:
        base = ConfigSpace()
        base.__setstate__({"knobs": state["knobs"], "constraints": []})
        ListedSpace.__init__(self, base, state["rows"])

    def __str__(self) -> str:
        return f"{super().__str__()}\nlisted: {len(self.rows):,} configs of these"

    def __repr__(self) -> str:
        return f"<ListedSpace of {len(self.rows)} configs out of {self.size} points>"
