"""The set of configurations that were proposed or told, so that none comes twice.

Rows of digits are compared as bytes: a space may have more points than a 64-bit index can number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pegbox.space import Config, ConfigSpace, ListedSpace

Digits: TypeAlias = npt.NDArray[np.int64]
"""Configurations as rows of digits, one column per knob: shape (n, knobs)."""
Places: TypeAlias = npt.NDArray[np.intp]
"""Indices of rows."""


class VisitedSet:
    """The configurations of a space that are no longer new."""

    def __init__(self, space: ConfigSpace) -> None:
        self.space = space
        self._keys: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, config: Config) -> bool:
        return rows_of([config])[0].tobytes() in self._keys

    def add(self, rows: Digits) -> None:
        """Mark the rows as no longer new."""
        self._keys.update(keys_of(rows))

    def mark(self, configs: Sequence[Config]) -> None:
        """Mark the configurations as no longer new."""
        if configs:
            self.add(rows_of(configs))

    def fresh(self, rows: Digits, *, limit: int | None = None) -> Places:
        """Places of the rows that are new, each once, in their order; the first `limit` of them if it is given."""
        seen: set[bytes] = set()
        places: list[int] = []
        for place, key in enumerate(keys_of(rows)):
            if len(places) == limit:
                break
            if key not in self._keys and key not in seen:
                seen.add(key)
                places.append(place)
        return np.array(places, dtype=np.intp)

    def sample(self, n: int, rng: np.random.Generator) -> Digits:
        """`n` random new rows; fewer only when the space has no more.

        A few spare rows nearly always do. In a space that is nearly used up, sampling as many distinct rows as are
        visited and `n` more must contain `n` new ones, if there are any: no loop, and no hanging.
        """
        rows = self.space.sample(2 * n + 8, rng)
        places = self.fresh(rows, limit=n)
        if len(places) < n:
            rows = np.concatenate([rows, self.space.sample(len(self) + n, rng)])
            places = self.fresh(rows, limit=n)
        return rows[places]

    def filled(self, rows: Digits, n: int, rng: np.random.Generator) -> Digits:
        """The first `n` new ones of the rows, and random ones where these are fewer."""
        rows = np.concatenate([rows, self.sample(n, rng)])
        return rows[self.fresh(rows, limit=n)]

    def configs(self, rows: Digits) -> list[Config]:
        """The rows as configurations, marked as visited."""
        self.add(rows)
        return [self.space.config(row.tolist()) for row in rows]


def rows_of(configs: Sequence[Config]) -> Digits:
    """Configurations as rows of digits, shape (n, knobs)."""
    return np.array([config.digits for config in configs], dtype=np.int64)


def keys_of(rows: Digits) -> list[bytes]:
    """One hashable key for each row: equal where the rows are."""
    raw = np.ascontiguousarray(rows).tobytes()
    width = rows.shape[1] * rows.itemsize
    return [raw[start : start + width] for start in range(0, len(raw), width)] if width else [b""] * len(rows)


def whole(space: ConfigSpace, limit: int) -> Digits | None:
    """Every valid configuration, if the space has few points or is a short list; shape (n, knobs)."""
    if isinstance(space, ListedSpace):
        return space.rows if len(space.rows) <= limit else None
    if space.size > limit:
        return None
    found = [config.digits for config in space.iterate()]
    return np.array(found, dtype=np.int64).reshape(len(found), len(space.knobs))
