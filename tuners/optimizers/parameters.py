"""The knobs of a space as parameters of black-box optimisation libraries: numbers and categories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pegbox.search import Floats
from pegbox.space import ConfigSpace, Knob, OptionKnob, SplitKnob
from pegbox.tuners.rows import Digits


@dataclass(frozen=True)
class Parameter:
    """A parameter's values: numbers from 0 to 1, the integers below `steps`, or the numbers of `choices`."""

    name: str
    steps: int = 0
    choices: int = 0

    @property
    def count(self) -> int:
        """The number of values; 0 for all numbers from 0 to 1."""
        return self.steps or self.choices


class KnobParameters:
    """The parameters of one knob.

    A range is a number on its line. A number of a list is the integer of its rank, and a split has such an integer for
    each level but the outermost. Other values are categories.
    """

    def __init__(self, knob: Knob) -> None:
        self._line = knob.line
        self._levels = np.empty((len(knob), 0))
        table = _ordered(knob)
        if self._line is not None:
            self.parameters: tuple[Parameter, ...] = (Parameter(knob.name),)
        elif table is None:
            self.parameters = (Parameter(knob.name, choices=len(knob)),) if len(knob) > 1 else ()
            self._levels = np.arange(len(knob), dtype=np.float64)[:, None]
        else:
            ranks = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in table.T]
            moving = [column for column in ranks if column.max() > 0]
            self._levels = np.array(moving, dtype=np.float64).reshape(len(moving), len(knob)).T
            several = len(moving) > 1
            self.parameters = tuple(
                Parameter(f"{knob.name}.{place}" if several else knob.name, steps=int(column.max()) + 1)
                for place, column in enumerate(moving)
            )

    def values(self, digit: int) -> dict[str, float | int]:
        """Return the values of the parameters for a digit."""
        if self._line is not None:
            return {self.parameters[0].name: float(self._line.shares(np.array([digit]))[0])}
        levels = self._levels[digit].tolist() if self.parameters else []
        return {one.name: int(level) for one, level in zip(self.parameters, levels, strict=True)}

    def digit(self, values: Mapping[str, float | int]) -> int:
        """Return the digit whose values are closest to these."""
        if not self.parameters:
            return 0
        point = np.array([float(values[one.name]) for one in self.parameters])
        if self._line is not None:
            return int(self._line.at(point)[0])
        return int(np.abs(self._levels - point).sum(axis=1).argmin())


def _ordered(knob: Knob) -> Floats | None:
    """Return the coordinates of a knob of numbers, (values, levels); None for a choice.

    The outermost level of a split follows from the others.
    """
    if isinstance(knob, SplitKnob):
        return knob.coordinates()[:, 1:]
    return knob.coordinates() if isinstance(knob, OptionKnob) else None


class SpaceParameters:
    """The parameters of all knobs of a space, in the order of their declaration."""

    def __init__(self, space: ConfigSpace) -> None:
        self._structure = space.structure
        self._positions = space.positions
        self.knobs = tuple(KnobParameters(knob) for knob in space.knobs.values())
        self.parameters = tuple(one for knob in self.knobs for one in knob.parameters)

    def exists(self, place: int, digits: list[int]) -> bool:
        """Decide if the knob at a place exists, given the digits of those before it, -1 for those that do not exist."""
        when = self._structure.knobs[place].when
        return when is None or all(digits[self._positions[name]] in wanted for name, wanted in when.parents)

    def point(self, row: Digits) -> dict[str, float | int]:
        """Return the values of the parameters of the knobs that exist in a row, (knobs,)."""
        active = self._structure.active(row[None, :])[0].tolist()
        found: dict[str, float | int] = {}
        for knob, digit, there in zip(self.knobs, row.tolist(), active, strict=True):
            if there:
                found |= knob.values(digit)
        return found

    def row(self, values: Mapping[str, float | int]) -> Digits:
        """Return the row closest to the values of all parameters, (knobs,); it may break constraints."""
        row = np.array([knob.digit(values) for knob in self.knobs], dtype=np.int64)
        return np.asarray(self._structure.canonical(row[None, :])[0])
