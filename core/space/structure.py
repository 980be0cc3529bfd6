"""`Structure`: an immutable snapshot of a space as arrays, for array operations.

It knows which knobs exist in a row of digits, which constraints hold, and into which independent components the knobs
fall: no operation needs to look at two knobs together unless a constraint or a condition ties them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pegbox.space.constraint import BoundConstraint, JointAnswers
from pegbox.space.digits import Digits, Mask
from pegbox.space.knob import Floats, Knob, ListedKnob

if TYPE_CHECKING:
    from pegbox.space.space import ConfigSpace


FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Check:
    """A test of rows, possible once all `needs` columns have their digits."""

    needs: frozenset[int]
    passes: Callable[[Digits], Mask]
    pins: int | None = None
    """The column that this check keeps at 0 if its knob does not exist."""


@dataclass(frozen=True)
class Component:
    """Columns tied together by constraints or conditions, and the checks that hold for them."""

    columns: tuple[int, ...]
    constraints: tuple[BoundConstraint, ...]
    checks: tuple[Check, ...]
    gates: tuple[int, ...]
    """The columns on which the existence of others depends."""

    @cached_property
    def column_array(self) -> Digits:
        return np.array(self.columns, dtype=np.int64)

    @property
    def free(self) -> bool:
        """True if every combination of digits is a valid canonical config."""
        return not self.checks


class Features(NamedTuple):
    """Feature names, and per knob a float32 table of features, one row per digit after one for "does not exist".

    A range has no table, and one feature: its number, or the logarithm on a logarithmic line.

    A knob with a condition has one more feature, which is 1 if the knob exists; if it does not, all its features are 0.
    """

    names: tuple[str, ...]
    tables: tuple[NDArray[np.float32] | None, ...]


@dataclass
class Structure:
    """The arrays of a space; a space makes a new one whenever a knob or a constraint is added."""

    space: ConfigSpace
    knobs: tuple[Knob, ...] = field(init=False)
    lengths: tuple[int, ...] = field(init=False)
    tables: dict[tuple[int, ...], Digits | None] = field(default_factory=dict, init=False)
    corners: dict[tuple[int, ...], Digits] = field(default_factory=dict, init=False)
    nearest: dict[int, Digits] = field(default_factory=dict, init=False)
    _answers: dict[tuple[BoundConstraint, ...], JointAnswers] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.knobs = tuple(self.space.knobs.values())
        self.lengths = tuple(len(knob) for knob in self.knobs)
        self.sizes = np.array(self.lengths, dtype=np.int64)
        positions = self.space.positions
        self.lines = tuple(knob.line for knob in self.knobs)
        self.conditions: dict[int, list[tuple[int, Callable[[Digits], Mask]]]] = {
            column: [(place := positions[parent], self._one_of(place, digits)) for parent, digits in when.parents]
            for column, knob in enumerate(self.knobs)
            if (when := knob.when) is not None
        }
        self.ancestors: list[frozenset[int]] = []
        for column in range(len(self.knobs)):
            parents = [parent for parent, _ in self.conditions.get(column, ())]
            self.ancestors.append(frozenset(parents).union(*(self.ancestors[parent] for parent in parents)))
        self.constraints = tuple(self._bound())
        self.components = tuple(self._components())

    def _one_of(self, column: int, digits: Sequence[int]) -> Callable[[Digits], Mask]:
        """Return the test of a column for some digits."""
        if self.lines[column] is None:
            return np.isin(np.arange(self.lengths[column]), digits).__getitem__
        return lambda column_digits: np.isin(column_digits, digits)

    @property
    def no_rows(self) -> Digits:
        """An empty array of rows."""
        return np.zeros((0, len(self.lengths)), dtype=np.int64)

    @cached_property
    def coordinates(self) -> list[Floats | None]:
        """The coordinates of each knob's values, None for a range; see `ListedKnob.coordinates`."""
        return [knob.coordinates() if isinstance(knob, ListedKnob) else None for knob in self.knobs]

    @cached_property
    def features(self) -> Features:
        """The features of configs for cost models."""
        names: list[str] = []
        tables: list[NDArray[np.float32] | None] = []
        for column, knob in enumerate(self.knobs):
            if isinstance(knob, ListedKnob):
                labels, table = knob.features()
                if column in self.conditions:
                    table = np.column_stack([table, np.ones(len(table))])
                tables.append(np.concatenate([np.zeros((1, table.shape[1])), table]).astype(np.float32))
            else:
                labels = [f"{knob.name}.log2" if knob.line and knob.line.log else knob.name]
                tables.append(None)
            names += [*labels, f"{knob.name}.exists"] if column in self.conditions else labels
        return Features(tuple(names), tuple(tables))

    def encode(self, digits: Digits) -> NDArray[np.float32]:
        """Look up the features of rows: shape (len(digits), len(self.features.names))."""
        active = self.active(digits)
        rows = np.where(active, digits + 1, 0)
        parts = [np.empty((len(digits), 0), dtype=np.float32)]
        for column, (table, line) in enumerate(zip(self.features.tables, self.lines, strict=True)):
            if table is not None:
                parts.append(table[rows[:, column]])
            elif line is not None:
                exists = active[:, column]
                # Features are float32: a value past its range counts as the largest.
                numbers = np.clip(np.where(exists, line.numbers(digits[:, column]), 0.0), -FLOAT32_MAX, FLOAT32_MAX)
                columns = [numbers, exists] if column in self.conditions else [numbers]
                parts.append(np.column_stack(columns).astype(np.float32))
        return np.concatenate(parts, axis=1)

    def random(self, n: int, rng: np.random.Generator) -> Digits:
        """Draw `n` rows of digits, whether valid or not."""
        return self.random_digits(np.broadcast_to(np.arange(len(self.lengths)), (n, len(self.lengths))), rng)

    def random_digits(self, columns: Digits, rng: np.random.Generator) -> Digits:
        """Draw a digit of each column, uniformly or, on a logarithmic line, uniformly by the logarithm."""
        drawn = rng.integers(0, self.sizes[columns], dtype=np.int64)
        for column, line in enumerate(self.lines):
            if line is not None and line.log:
                places = columns == column
                drawn[places] = line.drawn(int(places.sum()), rng)
        return drawn

    def _bound(self) -> Iterator[BoundConstraint]:
        for constraint in self.space.constraints:
            columns = tuple(self.space.positions[name] for name in constraint.reads)
            parents = {ancestor for column in columns for ancestor in self.ancestors[column]}
            yield BoundConstraint(self.space, constraint, columns, parents)

    def _components(self) -> Iterator[Component]:
        ties = [set(constraint.needs) for constraint in self.constraints]
        ties += [{column, *(parent for parent, _ in parents)} for column, parents in self.conditions.items()]
        for columns in grouped(range(len(self.knobs)), ties):
            inside = set(columns)
            constraints = tuple(c for c in self.constraints if c.needs & inside)
            gates = {parent for column in columns for parent, _ in self.conditions.get(column, ())}
            checks = [Check(c.needs, partial(self._test, c)) for c in constraints]
            checks += [
                Check(self.ancestors[column] | {column}, self.pinned(column), column)
                for column in columns
                if column in self.conditions
            ]
            yield Component(tuple(columns), constraints, tuple(checks), tuple(sorted(gates)))

    def _test(self, constraint: BoundConstraint, rows: Digits) -> Mask:
        return constraint.holds(rows, self.active(rows, constraint.needs))

    def pinned(self, column: int) -> Callable[[Digits], Mask]:
        """Return the test that a knob has the digit 0 if it does not exist."""
        needs = self.ancestors[column] | {column}
        return lambda rows: self.active(rows, needs)[:, column] | (rows[:, column] == 0)

    def active(self, digits: Digits, needs: Set[int] | None = None) -> Mask:
        """Find the knobs that exist, in the shape of `digits`: their parents exist and have the right digits.

        With `needs`, columns with all of their ancestors, the answer holds for these alone.
        """
        active = np.ones(digits.shape, dtype=np.bool_)
        for column, parents in self.conditions.items():
            if needs is None or column in needs:
                for parent, allowed in parents:
                    active[:, column] &= active[:, parent] & allowed(digits[:, parent])
        return active

    def canonical(self, digits: Digits) -> Digits:
        """Return the rows with the digits of knobs that do not exist set to 0."""
        return np.where(self.active(digits), digits, 0) if self.conditions else digits

    def holds(self, digits: Digits, constraints: Iterable[BoundConstraint] | None = None) -> Mask:
        """Test whether rows satisfy the constraints (all of the space's by default)."""
        asked = self.constraints if constraints is None else tuple(constraints)
        active = self.active(digits)
        if asked not in self._answers:
            self._answers[asked] = JointAnswers(asked, len(self.lengths))
        passing, open_rows = self._answers[asked].of(digits, active)
        for constraint in asked if len(open_rows) else ():
            left = open_rows[passing[open_rows]]
            passing[left] = constraint.holds(digits[left], active[left])
        return passing


def grouped(items: Iterable[int], ties: Iterable[set[int]]) -> list[list[int]]:
    """Return the finest grouping of the items with every tie inside one group; groups and members ascend."""
    groups = {item: [item] for item in items}
    for tie in ties:
        merged = sorted({member for item in tie for member in groups[item]})
        for member in merged:
            groups[member] = merged
    return [group for item, group in groups.items() if group[0] == item]
