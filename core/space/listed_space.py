"""A part of a space given as a list, such as the recorded part.

The knobs, their encoding and the fingerprint are those of the whole space, so that a configuration of one is a
configuration of the other. But sampling, neighbours and crossover stay inside the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.checks import check_instance, check_int
from pegbox.errors import SpaceError
from pegbox.shown import value_text
from pegbox.space.config import Config
from pegbox.space.digits import Digits, Mask, checked_rows, first_of_each
from pegbox.space.knob import Knob
from pegbox.space.space import ConfigSpace, check_generator

NEAREST = 16
"""The number of closest listed configs that count as neighbours of one."""

_VALUE_SHARE = 0.5
"""The largest distance between two values of a knob, beyond 1 for being different: knobs count before values."""

_TABLE_LIMIT = 1024

_REMEDY = "declare it in the space from which the configs are listed"


class ListedSpace(ConfigSpace):
    """The listed configs of `base`, and no others.

    Args:
        base: the space that the rows are from. Its constraints are not evaluated again: every listed row counts as
            valid.
        rows: digits of shape (configs, knobs); repetitions count once.

    Knobs and constraints cannot be added.

    Raises:
        SpaceError: there are no rows, or one is outside the space.
    """

    def __init__(self, base: ConfigSpace, rows: Digits) -> None:
        super().__init__()
        check_instance("base", base, ConfigSpace, "the space that the rows are from", error=SpaceError)
        self.knobs = dict(base.knobs)
        self.positions = dict(base.positions)
        checked = base.canonical(checked_rows(rows, len(base.knobs)))
        if not len(checked):
            raise SpaceError("a listed space needs at least one config, got an empty list of rows")
        checked = checked[first_of_each(checked, base.structure.lengths)]
        self.rows: Digits = np.ascontiguousarray(checked[np.lexsort(checked.T)] if self.knobs else checked)
        """The listed configs in the order of their indices."""
        self.rows.flags.writeable = False
        self._places = {row.tobytes(): place for place, row in enumerate(self.rows)}
        self._nearest: dict[int, NDArray[np.intp]] = {}
        self._columns = np.ascontiguousarray(self.rows.T)
        self._tables: list[NDArray[np.float32] | None] | None = None

    def place(self, config: Config) -> int | None:
        """Return the position of a config in `rows`, or None."""
        check_instance("config", config, Config, "a configuration, as space.get(0) gives it", error=SpaceError)
        return self._places.get(np.array(config.digits, dtype=np.int64).tobytes())

    def num_valid(self) -> int:
        return len(self.rows)

    def is_valid(self, digits: Digits) -> Mask:
        rows = checked_rows(digits, len(self.knobs))
        inside = self._inside(rows)
        inside[inside] = self._places_of(self.structure.canonical(rows[inside])) >= 0
        return inside

    def violated(self, config: Config) -> tuple[str, ...]:
        return () if self.place(config) is not None else (f"it is one of the {len(self.rows):,} listed configs",)

    def iterate(self, *, points: int | None = None) -> Iterator[Config]:
        for row in self.rows.tolist():
            yield Config(self, tuple(row))

    def sample(self, n: int, rng: np.random.Generator) -> Digits:
        count = check_int("n", n, minimum=0, error=SpaceError)
        return np.asarray(self.rows[check_generator(rng).permutation(len(self.rows))[:count]])

    def neighbors(self, digits: Digits, rng: np.random.Generator) -> Digits:
        """Return one of the closest listed configs per row: fewest knobs that differ, then closest values."""
        rows = self.canonical(digits)
        luck = check_generator(rng).random(len(rows))
        near = [self._closest(row, place) for row, place in zip(rows, self._places_of(rows).tolist(), strict=True)]
        places = [group[int(share * len(group))] for group, share in zip(near, luck, strict=True)]
        return np.asarray(self.rows[np.array(places, dtype=np.intp)])

    def crossover(self, a: Digits, b: Digits, rng: np.random.Generator) -> Digits:
        """Cross as the whole space does, then move each child that is not listed to the closest listed config."""
        children = super().crossover(a, b, rng)
        for child in np.flatnonzero(self._places_of(children) < 0):
            children[child] = self.rows[self._distances(children[child]).argmin()]
        return children

    def _add(self, knob: Knob) -> tuple[str, ...]:
        raise SpaceError(
            f"knob {value_text(knob.name)} cannot be added to a list of {len(self.rows):,} configs: {_REMEDY}"
        )

    def add_constraint(self, predicate: Callable[[Config], bool], *, reads: Sequence[str], message: str) -> None:
        raise SpaceError(
            f"constraint {value_text(message)} cannot be added to a list of {len(self.rows):,} configs: {_REMEDY}, "
            "or list only the configs that satisfy it"
        )

    def _places_of(self, rows: Digits) -> NDArray[np.intp]:
        """Return the position of each canonical row in the list, -1 for those that are not listed."""
        places = (self._places.get(row.tobytes(), -1) for row in np.ascontiguousarray(rows))
        return np.fromiter(places, dtype=np.intp, count=len(rows))

    def _closest(self, row: Digits, own: int) -> NDArray[np.intp]:
        """Find the listed configs closest to `row`, closest first, except at its own place (-1 if it has none)."""
        if own in self._nearest:
            return self._nearest[own]
        distance = self._distances(row)
        if own >= 0 and len(distance) > 1:
            distance[own] = np.inf
        count = min(NEAREST, max(1, len(distance) - (own >= 0)))
        found = np.argpartition(distance, count - 1)[:count]
        found = found[np.argsort(distance[found], kind="stable")]
        if own >= 0:
            self._nearest[own] = found
        return found

    def _distances(self, row: Digits) -> NDArray[np.float32]:
        if self._tables is None:  # distances between all values of each small knob; large ones follow below
            self._tables = [
                np.stack([self._from(column, digit, np.arange(length)) for digit in range(length)])
                if length <= _TABLE_LIMIT
                else None
                for column, length in enumerate(self.structure.lengths)
            ]
        total = np.zeros(len(self.rows), dtype=np.float32)
        for column, (table, digit) in enumerate(zip(self._tables, row.tolist(), strict=True)):
            listed = self._columns[column]
            total += self._from(column, digit, listed) if table is None else table[digit][listed]
        return total

    def _from(self, column: int, digit: int, others: Digits) -> NDArray[np.float32]:
        """Compute the distances of a knob's values from one of them: 0 from itself, otherwise at least 1."""
        line, coordinates = self.structure.lines[column], self.structure.coordinates[column]
        far = np.ones(len(others), dtype=np.float32)
        if line is not None:
            far += _VALUE_SHARE * np.abs(line.shares(others) - line.shares(np.array(digit))).astype(np.float32)
        elif coordinates is not None:
            spread = float(np.ptp(coordinates, axis=0).sum()) or 1.0
            apart = np.abs(coordinates[others] - coordinates[digit]).sum(axis=1)
            far += (apart * (_VALUE_SHARE / spread)).astype(np.float32)
        far[others == digit] = 0.0
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
