"""`Knob`: the base of all knobs, with a name, entities and a condition; `ListedKnob` has tables of its values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pegbox.checks import check_list, check_mapping, near_names
from pegbox.errors import SpaceError
from pegbox.shown import value_text
from pegbox.space.entities import Entity
from pegbox.space.line import Line

Floats: TypeAlias = NDArray[np.float64]

MAX_VALUES = 1 << 20
"""The largest number of values of a knob that lists them."""


@dataclass(frozen=True)
class Condition:
    """The knob exists only where each named parent has one of the digits listed for it."""

    parents: tuple[tuple[str, tuple[int, ...]], ...]
    text: str = field(compare=False, default="")

    def __str__(self) -> str:
        return self.text


def condition_of(name: str, when: Mapping[str, Any] | None, knobs: Mapping[str, Knob]) -> Condition | None:
    """Return the condition of a knob that is declared after `knobs`; None where it always exists.

    Raises:
        SpaceError: the condition names an unknown knob, or a value that the knob does not have.
    """
    if when is None:
        return None
    shape = "the knobs that it depends on with their values, as in when={'layout': 'packed'}"
    given = check_mapping(f"knob {name!r}: when", when, shape, error=SpaceError)
    if not given:
        return None
    parents, texts = [], []
    for parent, wanted in given.items():
        if parent not in knobs:
            known = near_names(parent, knobs)
            raise SpaceError(f"knob {name!r} depends on {parent!r}, which is not declared before it{known}")
        digits = _digits_of_values(name, knobs[parent], wanted)
        parents.append((parent, tuple(sorted(digits))))
        texts.append(f"{parent} is " + " or ".join(str(knobs[parent].entities[d]) for d in digits))
    return Condition(tuple(parents), " and ".join(texts))


def _digits_of_values(name: str, parent: Knob, wanted: Any) -> list[int]:
    """Find the digits of one value, or of several in a tuple, list or set; a tuple may itself be a value."""
    digit = parent.find(wanted)
    if digit is not None:
        return [digit]
    values = wanted if isinstance(wanted, (tuple, list, set, frozenset)) and wanted else [wanted]
    digits = []
    for value in values:
        digit = parent.find(value)
        if digit is None:
            raise SpaceError(
                f"knob {name!r} depends on {parent.name!r} being {value_text(value)}, which is not a value of {parent}"
            )
        digits.append(digit)
    return list(dict.fromkeys(digits))


@dataclass(frozen=True, eq=False)
class Knob(ABC):
    """One choice of a space. Two knobs are equal when they offer the same values under the same condition."""

    kind: ClassVar[str]
    tag: ClassVar[str]

    name: str
    entities: Sequence[Entity] = field(repr=False)
    """The values, by digit."""
    when: Condition | None = field(default=None, kw_only=True)

    @property
    def num_outputs(self) -> int:
        """The number of axes that the knob makes, orders or annotates; 0 for a plain option."""
        return 0

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names for these axes, usable as axes of other knobs."""
        return tuple(f"{self.name}.{i}" for i in range(self.num_outputs))

    @abstractmethod
    def content(self) -> list[Any]:
        """List the meanings of the digits as JSON, for the fingerprint of a space."""

    @property
    def line(self) -> Line | None:
        """The line of the values of a range; None for a list."""
        return None

    @abstractmethod
    def find(self, value: Any) -> int | None:
        """Find the digit of a value, as JSON or a template gives it; None if the knob does not offer it."""

    @abstractmethod
    def detail(self) -> str:
        """Return the values that the knob chooses from, as one phrase for people."""

    def __len__(self) -> int:
        return len(self.entities)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Knob):
            return NotImplemented
        return self.description() == other.description()

    def __hash__(self) -> int:
        return hash((self.kind, self.name, len(self)))

    def description(self) -> list[Any]:
        """Return the kind, name, content and condition as JSON."""
        parents = None if self.when is None else [[name, list(digits)] for name, digits in self.when.parents]
        return [self.kind, self.name, self.content(), parents]

    def __str__(self) -> str:
        when = f", when {self.when}" if self.when else ""
        return f"{self.kind} {self.name!r} ({len(self)}: {self.detail()}{when})"


@dataclass(frozen=True, eq=False)
class ListedKnob(Knob):
    """A knob that lists its values, with tables of one row per value."""

    entities: tuple[Entity, ...] = field(repr=False)

    @abstractmethod
    def features(self) -> tuple[list[str], Floats]:
        """Return the names of the features for cost models, and a table of shape (len(self), number of features)."""

    @abstractmethod
    def coordinates(self) -> Floats | None:
        """Return a table of shape (len(self), d) whose L1 distance measures how close values are; None: all equally."""

    @abstractmethod
    def lookup_key(self, value: Any) -> Any:
        """Return the hashable form under which `digits_by_key` finds a value read from JSON or from `when=`."""

    @cached_property
    def digits_by_key(self) -> dict[Any, int]:
        return {self.lookup_key(entity.value()): digit for digit, entity in enumerate(self.entities)}

    def find(self, value: Any) -> int | None:
        try:
            return self.digits_by_key.get(self.lookup_key(value))
        except (TypeError, ValueError):
            return None


@dataclass(frozen=True, eq=False)
class AxesKnob(ListedKnob):
    """A knob that concerns the named `axes`, outermost first."""

    axes: tuple[str, ...]
    policy: str

    @abstractmethod
    def texts(self) -> list[str]:
        """Return the values as text, by digit."""

    def detail(self) -> str:
        return f"{self.policy}: {preview(self.texts(), limit=3)}"

    @property
    def num_outputs(self) -> int:
        return len(self.axes)

    def lookup_key(self, value: Any) -> tuple[Any, ...]:
        return tuple(value)


def checked_axes(family: str, name: str, axes: Sequence[str]) -> tuple[str, ...]:
    """Return the axes as a tuple of distinct names."""
    what = f"{family} knob {value_text(name)}"
    names = tuple(check_list(f"{what}: axes", axes, "a list of names", error=SpaceError))
    if not names or not all(isinstance(axis, str) for axis in names):
        raise SpaceError(f"{what}: axes must be a list of one or more names, got {value_text(axes)}")
    if len(set(names)) != len(names):
        raise SpaceError(f"{what}: an axis is listed twice in {list(names)}")
    return names


def preview(items: Sequence[object], *, limit: int = 6) -> str:
    """Write the first items and the last, for people."""
    if len(items) > limit:
        items = [*items[: limit - 1], "...", items[-1]]
    return ", ".join(map(str, items))


def require_values(name: str, entities: Sequence[Entity], why: str) -> None:
    """Refuse the declaration of a knob without values, which would make the whole space empty."""
    if not entities:
        raise SpaceError(f"knob {name!r} has no candidates: {why}")


def refuse_too_many(name: str, count: int, remedy: str) -> None:
    if count > MAX_VALUES:
        raise SpaceError(f"knob {name!r} would have {count:,} values, more than {MAX_VALUES:,}: {remedy}")


def one_hot(choices: Sequence[int], count: int) -> Floats:
    table = np.zeros((len(choices), count))
    table[np.arange(len(choices)), list(choices)] = 1.0
    return table
