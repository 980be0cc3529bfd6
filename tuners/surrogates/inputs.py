"""Configurations as rows of numbers whose distances mean something: the inputs of a Gaussian process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pegbox.search.protocols import Floats
from pegbox.space import ConfigSpace, OptionKnob
from pegbox.space.knob import Knob
from pegbox.tuners.explored import Digits
from pegbox.tuners.features import FeatureTable, Opinion
from pegbox.tuners.surrogates.kernel import Groups


class KnobInputs:
    """What the knobs say.

    Values with an order lie between 0 and 1, splits by the logarithms of their extents and numbers by rank, each
    coordinate with a length scale of its own. Zero among numbers gets another one, because it often means "none",
    which need not be close to "few". Other values are all one apart. A knob that does not exist stands in the middle
    of its values.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self._space = space
        self._tables: list[tuple[int, Floats]] = []
        groups: list[int] = []
        for column, knob in enumerate(space.structure.knobs):
            for table, scales in _tables(knob):
                first = groups[-1] + 1 if groups else 0
                groups.extend(first + min(place, scales - 1) for place in range(table.shape[1]))
                self._tables.append((column, np.concatenate([table.mean(axis=0, keepdims=True), table])))
        self.groups: Groups = np.array(groups, dtype=np.intp)

    def __call__(self, rows: Digits) -> Floats:
        """Shape (n, len(groups))."""
        places = np.where(self._space.structure.active(rows), rows + 1, 0)
        parts = [table[places[:, column]] for column, table in self._tables]
        return np.concatenate([np.empty((len(rows), 0)), *parts], axis=1)


def _tables(knob: Knob) -> Iterator[tuple[Floats, int]]:
    """Tables of columns, one row per value, each with the number of length scales: one, or one per column."""
    if len(knob) == 1:
        return
    coordinates = knob.coordinates()
    if coordinates is None:
        yield np.eye(len(knob)) / np.sqrt(2.0), 1
        return
    coordinates = coordinates - coordinates.min(axis=0)
    moving = coordinates[:, coordinates.any(axis=0)]
    yield moving / moving.max(), moving.shape[1]
    values = [choice.raw for choice in knob.choices] if isinstance(knob, OptionKnob) else []
    if len(values) > 2 and 0 in values:
        yield np.array([[float(value == 0)] for value in values]), 1


class ProgramInputs:
    """What the features of the programs say, standardised over a `sample` of the space.

    Features with the same first word of their names ("cache.1M.lines", "cache.32K.lines") share a length scale, and
    count together as much as one column does; those that are the same everywhere in the sample are left out.
    """

    def __init__(self, table: FeatureTable, sample: Digits) -> None:
        self._table = table
        features = table(sample).astype(np.float64)
        self._columns = np.flatnonzero(np.ptp(features, axis=0) > 1e-6)
        kinds = [table.program_names[column].split(".")[0] for column in self._columns]
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
        self.groups: Groups = np.array([numbers[kind] for kind in kinds], dtype=np.intp)
        self._middle = features.mean(axis=0)[self._columns]
        members = np.array([kinds.count(kind) for kind in kinds])
        self._scale = features.std(axis=0)[self._columns] * np.sqrt(members)

    def __call__(self, rows: Digits) -> Floats:
        """Shape (n, len(groups))."""
        return np.asarray((self._table(rows)[:, self._columns] - self._middle) / self._scale, dtype=np.float64)


class Trends:
    """What is expected of the programs beforehand, one column for each opinion; the higher, the slower.

    Standardised over a `sample` of the space. An opinion that is the same everywhere says nothing, and is zero.
    """

    def __init__(self, table: FeatureTable, opinions: Sequence[Opinion], sample: Digits) -> None:
        self._table, self._opinions = table, opinions
        self._known: Floats = np.empty((0, len(opinions)))
        said = self._said(sample)
        self._middle, spread = said.mean(axis=0), said.std(axis=0)
        self._scale = np.where(spread > 1e-9, spread, np.inf)

    def __call__(self, rows: Digits) -> Floats:
        """Shape (n, number of opinions)."""
        trends: Floats = (self._said(rows) - self._middle) / self._scale
        return trends

    def _said(self, rows: Digits) -> Floats:
        """Opinions do not change: those of rows of the table are remembered."""
        places = self._table.places(rows)
        if len(self._known) < len(self._table):
            unknown = np.full((2 * len(self._table) - len(self._known), len(self._opinions)), np.nan)
            self._known = np.concatenate([self._known, unknown])
        missing = np.unique(places[np.isnan(self._known[places]).any(axis=1)])
        if len(missing):
            features = self._table.at(missing)
            self._known[missing] = np.stack([-opinion(features) for opinion in self._opinions], axis=1)
        said: Floats = self._known[places]
        return said


class Inputs:
    """Columns of the knobs, beside them those of the programs where there is a `program`, and at the end `trends`."""

    def __init__(
        self,
        space: ConfigSpace,
        program: FeatureTable | None,
        sample: Digits,
        opinions: Sequence[Opinion] = (),
    ) -> None:
        knobs = KnobInputs(space)
        self._parts: list[KnobInputs | ProgramInputs | Trends] = [knobs]
        self.groups = knobs.groups
        self.trends = 0
        """How many of the columns are trends: the last ones, which have no group."""
        if program is None or not len(sample):
            return
        programs = ProgramInputs(program, sample)
        self._parts.append(programs)
        first = int(knobs.groups.max(initial=-1)) + 1
        self.groups = np.concatenate([knobs.groups, programs.groups + first])
        if opinions:
            self._parts.append(Trends(program, opinions, sample))
            self.trends = len(opinions)

    def __call__(self, rows: Digits) -> Floats:
        """Shape (n, len(groups) + trends)."""
        return np.concatenate([part(rows) for part in self._parts], axis=1)
