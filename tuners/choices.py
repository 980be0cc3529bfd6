"""The choices of a space, knobs whose values have no order, and their least tried values.

A model that saw a value of a choice to be slow a few times expects that of every configuration with it, and proposes no
more of them, although the fastest may be among them, in combination with values of other knobs. So a share of the
proposals starts from the least tried value, and the model finds the best with it.

Ru et al., "Bayesian Optimisation over Multiple Continuous and Categorical Inputs" (ICML 2020), also choose
values without order separately from the model, by a bandit; Mouret and Clune, "Illuminating Search Spaces by Mapping
Elites" (2015), look for the best with each.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pegbox.search import Floats
from pegbox.space import ConfigSpace
from pegbox.tuners.rows import Digits, keys_of


class Choices:
    """The values of a space's choices that occur in `sample`, random rows of the space."""

    def __init__(self, space: ConfigSpace, sample: Digits) -> None:
        self._structure = space.structure
        columns = choice_columns(space)
        values = [(column, digit) for column in columns for digit in np.unique(sample[:, column]).tolist()]
        self._columns, self._digits = np.array(values, dtype=np.int64).reshape(-1, 2).T
        shares = self._holds(sample).mean(axis=0) if len(sample) else np.zeros(len(values))
        # Knobs that do not exist have a digit, too.
        occur = shares > 0
        self._columns, self._digits = self._columns[occur], self._digits[occur]
        self._shares: Floats = shares[occur]

    def neglected(self, tried: Digits, rows: Digits, scores: Floats, n: int) -> Digits:
        """Choose at most `n` of the rows, all different and none of them among the `tried`.

        Each is the best-scored one with the value that was tried least, relative to its share of the space, counting
        those before it. Scores have shape (len(rows),); higher is better.
        """
        known = set(keys_of(tried))
        left = np.array([key not in known for key in keys_of(rows)], dtype=bool)
        holds, counts = self._holds(rows), self._holds(tried).sum(axis=0)
        chosen = rows[:0]
        for _ in range(n):
            there = (holds & left[:, None]).any(axis=0)
            if not there.any():
                break
            # Add one, so that a rare value counts as neglected only after one trial of it was to be expected.
            value = int(np.argmin(np.where(there, (counts + 1.0) / self._shares, np.inf)))
            place = int(np.argmax(np.where(holds[:, value] & left, scores, -np.inf)))
            chosen = np.concatenate([chosen, rows[place : place + 1]])
            left &= (rows != rows[place]).any(axis=1)
            counts = counts + holds[place]
        return chosen

    def _holds(self, rows: Digits) -> npt.NDArray[np.bool_]:
        """Test each row for each of the values, shape (len(rows), values)."""
        held: npt.NDArray[np.bool_] = rows[:, self._columns] == self._digits
        return held & self._structure.active(rows)[:, self._columns]


def choice_columns(space: ConfigSpace) -> list[int]:
    """Return the columns of the choices that have more than one value."""
    structure = space.structure
    knobs = enumerate(zip(structure.lengths, structure.coordinates, structure.lines, strict=True))
    return [column for column, (length, table, line) in knobs if length > 1 and table is None and line is None]
