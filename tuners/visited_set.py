"""The set of proposed or measured configurations, so that none comes twice.

Rows of digits are compared as bytes: a space may have more points than a 64-bit index can number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import islice

import numpy as np

from pegbox.space import Config, ConfigSpace
from pegbox.tuners.rows import Digits, Places, keys_of, rows_of


class VisitedSet:
    """The configurations of a space that are no longer new."""

    def __init__(self, space: ConfigSpace) -> None:
        self.space = space
        self._keys: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, config: Config) -> bool:
        return rows_of([config])[0].tobytes() in self._keys

    @property
    def rows(self) -> Digits:
        """All visited rows in no particular order, shape (len(self), knobs)."""
        joined = b"".join(self._keys)
        return np.frombuffer(joined, dtype=np.int64).reshape(len(self), len(self.space.knobs))

    def add(self, rows: Digits) -> None:
        """Mark the rows as no longer new."""
        self._keys.update(keys_of(rows))

    def mark(self, configs: Sequence[Config]) -> None:
        """Mark the configurations as no longer new."""
        if configs:
            self.add(rows_of(configs))

    def fresh(self, rows: Digits, *, limit: int | None = None, but: Set[bytes] = frozenset()) -> Places:
        """Return the places of new rows, each once, in order; at most `limit` of them.

        Rows with keys in `but` are not new.
        """
        seen: set[bytes] = set()
        places: list[int] = []
        for place, key in enumerate(keys_of(rows)):
            if len(places) == limit:
                break
            if key not in self._keys and key not in seen and key not in but:
                seen.add(key)
                places.append(place)
        return np.array(places, dtype=np.intp)

    def sample(self, n: int, rng: np.random.Generator) -> Digits:
        """Draw `n` random new rows; fewer only if the space has no more.

        A few spare rows nearly always suffice. In a nearly exhausted space, a sample of `n` more distinct rows than are
        visited must contain `n` new ones, if they exist, so that there is no endless loop.
        """
        rows = self.space.sample(2 * n + 8, rng)
        places = self.fresh(rows, limit=n)
        if len(places) < n:
            rows = np.concatenate([rows, self.space.sample(len(self) + n, rng)])
            places = self.fresh(rows, limit=n)
        return rows[places]

    def next_of(self, walk: Iterator[Config], n: int) -> list[Config]:
        """Return the next `n` new configurations of a walk; fewer if it ends."""
        return list(islice((config for config in walk if config not in self), n))

    def filled(self, rows: Digits, n: int, rng: np.random.Generator) -> Digits:
        """Return the first `n` new rows, filled up with random ones."""
        rows = np.concatenate([rows, self.sample(n, rng)])
        return rows[self.fresh(rows, limit=n)]

    def configs(self, rows: Digits) -> list[Config]:
        """Return the rows as configurations, marked as visited."""
        self.add(rows)
        return [self.space.config(row.tolist()) for row in rows]
