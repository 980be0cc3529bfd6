"""Inputs of a Gaussian process: configurations as rows with meaningful distances."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pegbox.search import Features, Floats
from pegbox.space import ConfigSpace, ListedKnob, OptionKnob
from pegbox.tuners.features import FeatureTable
from pegbox.tuners.rows import Digits
from pegbox.tuners.surrogates.gaussian_process import Groups


class KnobInputs:
    """The columns of the knobs.

    Values with an order lie between 0 and 1, splits by the logarithms of their extents and numbers by rank, each
    coordinate with its own length scale; a number of a range lies on its line. Zero among numbers gets an extra
    coordinate, because it often means "none", which need not be close to "few". All other values have distance one. A
    knob that does not exist lies in the middle of its values.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self._structure = space.structure
        self._tables: list[tuple[int, Floats | None]] = []
        groups: list[int] = []
        for column, knob in enumerate(space.structure.knobs):
            for table, scales in _tables(knob) if isinstance(knob, ListedKnob) else [(None, 1)]:
                first = groups[-1] + 1 if groups else 0
                width = 1 if table is None else table.shape[1]
                groups.extend(first + min(place, scales - 1) for place in range(width))
                with_mean = None if table is None else np.concatenate([table.mean(axis=0, keepdims=True), table])
                self._tables.append((column, with_mean))
        self.groups: Groups = np.array(groups, dtype=np.intp)

    def __call__(self, rows: Digits) -> Floats:
        """Return the columns for rows, shape (n, len(groups))."""
        active = self._structure.active(rows)
        places = np.where(active, rows + 1, 0)
        parts = [np.empty((len(rows), 0))]
        for column, table in self._tables:
            line = self._structure.lines[column]
            if line is not None:
                parts.append(np.where(active[:, column], line.shares(rows[:, column]), 0.5)[:, None])
            elif table is not None:
                parts.append(table[places[:, column]])
        return np.concatenate(parts, axis=1)


def _tables(knob: ListedKnob) -> Iterator[tuple[Floats, int]]:
    """Make tables of columns, one row per value, each with the number of length scales: one, or one per column."""
    if len(knob) == 1:
        return
    coordinates = knob.coordinates()
    if coordinates is None:
        yield np.eye(len(knob)) / np.sqrt(2.0), 1
        return
    coordinates = coordinates - coordinates.min(axis=0)
    moving = coordinates[:, coordinates.any(axis=0)]
    yield moving / moving.max(), moving.shape[1]
    values = [choice.raw for choice in knob.entities] if isinstance(knob, OptionKnob) else []
    if len(values) > 2 and 0 in values:
        yield np.array([[float(value == 0)] for value in values]), 1


class ProgramInputs:
    """The columns of the features of the programs, standardised over a `sample` of the space.

    Features with the same first word of their names ("cache.1M.lines", "cache.32K.lines") share a length scale, and
    together count as much as one column; those that are constant in the sample are left out.
    """

    def __init__(self, table: FeatureTable, sample: Digits) -> None:
        self._table = table
        features = self._features(sample).astype(np.float64)
        self._columns = np.flatnonzero(np.ptp(features, axis=0) > 1e-6)
        kinds = [table.program_names[column].split(".")[0] for column in self._columns]
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
        self.groups: Groups = np.array([numbers[kind] for kind in kinds], dtype=np.intp)
        self._middle = features.mean(axis=0)[self._columns]
        members = np.array([kinds.count(kind) for kind in kinds])
        self._scale = features.std(axis=0)[self._columns] * np.sqrt(members)

    def __call__(self, rows: Digits) -> Floats:
        """Return the columns for rows, shape (n, len(groups))."""
        columns = self._features(rows)[:, self._columns]
        return np.asarray((columns - self._middle) / self._scale, dtype=np.float64)

    def _features(self, rows: Digits) -> Features:
        features: Features = self._table(rows)[:, self._table.program_columns]
        return features


class Trends:
    """The expectations of the priors in the table, one column for each; higher is slower.

    They are standardised over a `sample` of the space; a constant prior is zero.
    """

    def __init__(self, table: FeatureTable, sample: Digits) -> None:
        self._table = table
        said = self._said(sample)
        self._middle, spread = said.mean(axis=0), said.std(axis=0)
        self._scale = np.where(spread > 1e-6, spread, np.inf)

    def __call__(self, rows: Digits) -> Floats:
        """Return the columns for rows, shape (n, number of priors)."""
        trends: Floats = (self._said(rows) - self._middle) / self._scale
        return trends

    def _said(self, rows: Digits) -> Floats:
        said: Floats = -self._table(rows)[:, self._table.prior_columns].astype(np.float64)
        return said


class Inputs:
    """The columns of the knobs, then those of the programs if there is a `program`, and finally the trends."""

    def __init__(self, space: ConfigSpace, program: FeatureTable | None, sample: Digits) -> None:
        knobs = KnobInputs(space)
        self._parts: list[KnobInputs | ProgramInputs | Trends] = [knobs]
        self.groups = knobs.groups
        self.trends = 0
        """The number of trends, the last columns, which have no group."""
        if program is None or not len(sample):
            return
        programs = ProgramInputs(program, sample)
        self._parts.append(programs)
        first = int(knobs.groups.max(initial=-1)) + 1
        self.groups = np.concatenate([knobs.groups, programs.groups + first])
        self.trends = program.prior_columns.stop - program.prior_columns.start
        if self.trends:
            self._parts.append(Trends(program, sample))

    def __call__(self, rows: Digits) -> Floats:
        """Return the columns for rows, shape (n, len(groups) + trends)."""
        return np.concatenate([part(rows) for part in self._parts], axis=1)
