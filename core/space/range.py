"""Range knobs: one number between two bounds (`define_int`, `define_float`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pegbox.checks import check_flag, check_float, check_int
from pegbox.errors import SpaceError
from pegbox.shown import value_text
from pegbox.space.knob import Condition, Knob
from pegbox.space.line import FloatLine, IntLine, Line

MOST = 1 << 53
"""The largest number of values of a range: their digits are exact as floats."""

LARGEST, SMALLEST = 1e300, 1e-290
"""The largest bound of a range, and the smallest one other than 0: steps far below it would underflow."""


@dataclass(frozen=True, eq=False)
class RangeKnob(Knob):
    """One of the numbers of a line. Numbers are computed from their digits, never listed."""

    kind: ClassVar[str] = "range"
    tag: ClassVar[str] = "ot"
    entities: Line = field(repr=False)

    @property
    def line(self) -> Line:
        return self.entities

    def content(self) -> list[Any]:
        return self.entities.content()

    def find(self, value: Any) -> int | None:
        return self.entities.find(value.item() if isinstance(value, np.generic) else value)

    def detail(self) -> str:
        line = self.entities
        step = line.values.step if isinstance(line, IntLine) else 1
        kind = "integers" if isinstance(line, IntLine) else "numbers"
        return f"{kind} {line}{f' in steps of {step}' if step != 1 else ''}{', logarithmic' if line.log else ''}"


def int_knob(
    name: str, low: object, high: object, step: object, log: object, *, when: Condition | None = None
) -> RangeKnob:
    """Make a knob of the integers `low`, `low + step`, ... up to `high`; see `ConfigSpace.define_int`."""
    what, limit = f"knob {value_text(name)}", int(LARGEST)
    first = check_int(f"{what}: low", low, minimum=-limit, maximum=limit, error=SpaceError)
    last = check_int(f"{what}: high", high, minimum=-limit, maximum=limit, error=SpaceError)
    apart = check_int(f"{what}: step", step, error=SpaceError)
    return range_knob(name, range(first, last + 1, apart), _checked_log(what, first, last, log), when)


def range_knob(name: str, values: range, log: bool, when: Condition | None) -> RangeKnob:
    """Make a knob of the integers of a range that is not empty."""
    count = (values[-1] - values[0]) // values.step + 1  # len() fails beyond sys.maxsize
    if count > MOST:
        raise SpaceError(f"knob {value_text(name)} would have more than 2**53 values; give a larger step")
    return RangeKnob(name, IntLine(values, log), when=when)


def float_knob(name: str, low: object, high: object, log: object, *, when: Condition | None = None) -> RangeKnob:
    """Make a knob of the numbers between `low` and `high`; see `ConfigSpace.define_float`."""
    what = f"knob {value_text(name)}"
    first = check_float(f"{what}: low", low, minimum=-LARGEST, maximum=LARGEST, error=SpaceError)
    last = check_float(f"{what}: high", high, minimum=-LARGEST, maximum=LARGEST, error=SpaceError)
    for bound, number in {"low": first, "high": last}.items():
        if 0 < abs(number) < SMALLEST:
            raise SpaceError(f"{what}: {bound}={number} is closer to 0 than {SMALLEST}; give 0 or a larger number")
    return RangeKnob(name, FloatLine(first, last, _checked_log(what, first, last, log)), when=when)


def _checked_log(what: str, low: float, high: float, log: object) -> bool:
    """Return whether the line is logarithmic. Raises `SpaceError` if the bounds do not make such a line."""
    logarithmic = check_flag(f"{what}: log", log, error=SpaceError)
    if low > high:
        raise SpaceError(f"{what}: low={low} is above high={high}; give the smaller bound first")
    if logarithmic and low <= 0:
        raise SpaceError(f"{what}: low={low} has no logarithm; give a bound above 0, or leave out log=True")
    return logarithmic
