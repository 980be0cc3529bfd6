"""`Structure`: an immutable snapshot of a space as arrays, for array operations.

It knows which knobs exist in a row of digits, which constraints hold, and into which independent components the
knobs fall: knobs that no constraint and no condition ties together never have to be looked at together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pegbox.space.constraint import BoundConstraint
from pegbox.space.digits import Digits, Mask
from pegbox.space.knob import Floats, Knob

if TYPE_CHECKING:
    from pegbox.space.space import ConfigSpace


@dataclass(frozen=True)
class Check:
    """A test of rows that can be made once all `needs` columns have their digits."""

    needs: frozenset[int]
    passes: Callable[[Digits], Mask]
    pins: int | None = None
    """The column that this check holds at 0 where its knob does not exist."""


@dataclass(frozen=True)
class Component:
    """Columns tied together by constraints or conditions, and the checks that hold for them."""

    columns: tuple[int, ...]
    constraints: tuple[BoundConstraint, ...]
    checks: tuple[Check, ...]
    gates: tuple[int, ...]
    """The columns that decide whether others exist."""

    @cached_property
    def column_array(self) -> Digits:
        return np.array(self.columns, dtype=np.int64)

    @property
    def free(self) -> bool:
        """True where every combination of digits is a valid canonical config."""
        return not self.checks


class Features(NamedTuple):
    """Feature names, and per knob a float32 table of features, one row per digit after one for "does not exist".

    A knob with a condition has one more feature that is 1 where the knob exists; where it does not, all are 0.
    """

    names: tuple[str, ...]
    tables: tuple[NDArray[np.float32], ...]


@dataclass
class Structure:
    """The arrays of a space, as the module says. Made anew whenever a knob or a constraint is added to the space."""

    space: ConfigSpace
    knobs: tuple[Knob, ...] = field(init=False)
    lengths: tuple[int, ...] = field(init=False)
    tables: dict[tuple[int, ...], Digits | None] = field(default_factory=dict, init=False)
    corners: dict[tuple[int, ...], Digits] = field(default_factory=dict, init=False)
    nearest: dict[int, Digits] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.knobs = tuple(self.space.knobs.values())
        self.lengths = tuple(len(knob) for knob in self.knobs)
        self.sizes = np.array(self.lengths, dtype=np.int64)
        positions = self.space.positions
        self.conditions: dict[int, list[tuple[int, Mask]]] = {
            column: [
                (place := positions[parent], np.isin(np.arange(self.lengths[place]), digits))
                for parent, digits in when.parents
            ]
            for column, knob in enumerate(self.knobs)
            if (when := knob.when) is not None
        }
        self.ancestors: list[frozenset[int]] = []
        for column in range(len(self.knobs)):
            parents = [parent for parent, _ in self.conditions.get(column, ())]
            self.ancestors.append(frozenset(parents).union(*(self.ancestors[parent] for parent in parents)))
        self.constraints = tuple(self._bound())
        self.components = tuple(self._components())

    @property
    def no_rows(self) -> Digits:
        """An empty array of rows."""
        return np.zeros((0, len(self.lengths)), dtype=np.int64)

    @cached_property
    def coordinates(self) -> list[Floats | None]:
        """The coordinates of each knob's values; see `Knob.coordinates`."""
        return [knob.coordinates() for knob in self.knobs]

    @cached_property
    def features(self) -> Features:
        """The features of configs for cost models."""
        names: list[str] = []
        tables: list[NDArray[np.float32]] = []
        for column, knob in enumerate(self.knobs):
            labels, table = knob.features()
            if column in self.conditions:
                labels, table = [*labels, f"{knob.name}.exists"], np.column_stack([table, np.ones(len(table))])
            names += labels
            tables.append(np.concatenate([np.zeros((1, table.shape[1])), table]).astype(np.float32))
        return Features(tuple(names), tuple(tables))

    def encode(self, digits: Digits) -> NDArray[np.float32]:
        """Look up the features of rows: shape (len(digits), len(self.features.names))."""
        rows = np.where(self.active(digits), digits + 1, 0)
        encoded = np.empty((len(digits), len(self.features.names)), dtype=np.float32)
        start = 0
        for column, table in enumerate(self.features.tables):
            encoded[:, start : start + table.shape[1]] = table[rows[:, column]]
            start += table.shape[1]
        return encoded

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
        """A knob that does not exist has digit 0."""
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
                    active[:, column] &= active[:, parent] & allowed[digits[:, parent]]
        return active

    def canonical(self, digits: Digits) -> Digits:
        """Rows with the digits of knobs that do not exist set to 0."""
        return np.where(self.active(digits), digits, 0) if self.conditions else digits

    def holds(self, digits: Digits, constraints: Iterable[BoundConstraint] | None = None) -> Mask:
        """Test whether rows satisfy the constraints (all of the space's by default)."""
        passing = np.ones(len(digits), dtype=np.bool_)
        active = self.active(digits)
        for constraint in self.constraints if constraints is None else constraints:
            left = np.flatnonzero(passing)
            passing[left] = constraint.holds(digits[left], active[left])
        return passing


def grouped(items: Iterable[int], ties: Iterable[set[int]]) -> list[list[int]]:
    """The finest grouping of the items in which every tie lies inside one group; groups and members ascending."""
    groups = {item: [item] for item in items}
    for tie in ties:
        merged = sorted({member for item in tie for member in groups[item]})
        for member in merged:
            groups[member] = merged
    return [group for item, group in groups.items() if group[0] == item]
