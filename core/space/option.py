"""Option knobs: one value out of a list (`define_knob`)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import length_hint
from typing import Any, ClassVar

import numpy as np

from pegbox.checks import check_list
from pegbox.errors import SpaceError
from pegbox.shown import value_text
from pegbox.space.entities import OtherEntity
from pegbox.space.knob import Condition, Floats, ListedKnob, one_hot, preview, refuse_too_many, require_values
from pegbox.space.range import RangeKnob, range_knob

_FLOAT32_MAX = float(np.finfo(np.float32).max)

LISTED = 1 << 12
"""The longest Python range that is listed."""


@dataclass(frozen=True, eq=False)
class OptionKnob(ListedKnob):
    """One of several values: numbers, strings, booleans, None, or lists of them."""

    kind: ClassVar[str] = "option"
    tag: ClassVar[str] = "ot"
    entities: tuple[OtherEntity, ...] = field(repr=False)

    def content(self) -> list[Any]:
        return [choice.key for choice in self.entities]

    def features(self) -> tuple[list[str], Floats]:
        numbers = self._numbers()
        if numbers is None:
            return [f"{self.name}={choice}" for choice in self.entities], one_hot(range(len(self)), len(self))
        names, columns = [], []
        has_bool = any(type(c.raw) is bool for c in self.entities)
        for i, column in enumerate(numbers.T):
            label = self.name if numbers.shape[1] == 1 else f"{self.name}[{i}]"
            names.append(label)
            columns.append(column)
            if not has_bool and ((column > 0) & (column == np.floor(column))).all():
                names.append(f"{label}.log2")
                columns.append(np.log2(column))
        return names, np.column_stack(columns)

    def coordinates(self) -> Floats | None:
        """Return ranks rather than values: in [4, 8, 16, 64], both 8 and 64 are next to 16."""
        numbers = self._numbers()
        if numbers is None:
            return None
        ranks = [np.unique(numbers[:, i], return_inverse=True)[1].reshape(-1) for i in range(numbers.shape[1])]
        return np.column_stack(ranks).astype(np.float64)

    def _numbers(self) -> Floats | None:
        """Return the values as a table if all are numbers, or tuples of numbers of one length."""
        rows = [c.raw if isinstance(c.raw, (list, tuple)) else (c.raw,) for c in self.entities]
        if len({len(row) for row in rows}) != 1 or not rows[0]:
            return None
        if not all(isinstance(value, (bool, int, float)) for row in rows for value in row):
            return None
        # Features are float32: a value past its range counts as the largest.
        return np.array([[float(min(max(value, -_FLOAT32_MAX), _FLOAT32_MAX)) for value in row] for row in rows])

    def lookup_key(self, value: Any) -> object:
        return value_key(value)

    def detail(self) -> str:
        return preview(self.entities)


def option_knob(name: str, candidates: Iterable[Any], *, when: Condition | None = None) -> OptionKnob | RangeKnob:
    """Make an option knob; candidates listed twice count once, and a long Python range is not listed.

    Raises:
        SpaceError: there are no candidates or too many, or one is not a JSON value.
    """
    if isinstance(candidates, range) and candidates[LISTED : LISTED + 1]:
        return range_knob(name, candidates, False, when)
    refuse_too_many(name, length_hint(candidates), "use define_int or define_float for numbers between two bounds")
    by_key: dict[str, OtherEntity] = {}
    for candidate in check_list(
        f"knob {value_text(name)}: candidates", candidates, "a list of values", error=SpaceError
    ):
        try:
            value = plain_value(name, candidate)
        except RecursionError:
            raise SpaceError(f"knob {value_text(name)}: a candidate is a list of lists that nest too deep") from None
        by_key.setdefault(value_key(value), OtherEntity(value_key(value), value))
    choices = tuple(by_key.values())
    require_values(name, choices, "give at least one")
    return OptionKnob(name, choices, when=when)


def plain_value(name: str, value: Any) -> Any:
    """Return the value as plain Python data (NumPy scalars become Python's); values that JSON lacks are refused."""
    match value:
        case np.bool_() | np.integer() | np.floating():
            return plain_value(name, value.item())
        case float() if not math.isfinite(value):
            raise SpaceError(f"knob {name!r}: candidate {value!r} cannot be written as JSON; use a finite number")
        case None | bool() | int() | float() | str():
            return value
        case tuple():
            return tuple(plain_value(name, item) for item in value)
        case list():
            return [plain_value(name, item) for item in value]
        case dict() if all(isinstance(key, str) for key in value):
            return {key: plain_value(name, item) for key, item in value.items()}
        case _:
            raise SpaceError(
                f"knob {name!r}: candidate {value!r} of type {type(value).__name__} cannot be written as JSON; "
                "use numbers, text, booleans, None, or lists of them"
            )


def value_key(value: Any) -> str:
    """Write a value as JSON: equal for (8, 4) and [8, 4] and for NumPy's numbers, different for 1, 1.0 and True."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=np.generic.item)
    except RecursionError:
        raise ValueError(f"{value_text(value)} nests lists too deep") from None
