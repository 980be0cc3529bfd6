"""Lines: the evenly spaced numbers of a range, by digit, without a list of them.

A line of floats is a lattice, too, so that a space of them remains a finite product with exact indices. Its points are
decimal numbers of few digits: 10 to 100 million in a range, which is the resolution of a float32. No measured optimum
is known more precisely.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.space.digits import Digits
from pegbox.space.entities import OtherEntity

Floats = NDArray[np.float64]

FINENESS = 7
"""The decimal logarithm of the smallest number of steps in a range of floats."""

NEAREST, FARTHEST = 1e-4, 0.3
"""The smallest and the largest distance of a near digit, as shares of a line."""

SIGNIFICANT = 15
"""The number of decimal digits that a float always holds."""


class Line(Sequence[OtherEntity], ABC):
    """The values of a range in ascending order of their digits, evenly spaced on the line or on its logarithm.

    A *share* of the line is a number in [0, 1]: 0 is the first value and 1 the last.
    """

    log: bool

    @abstractmethod
    def number(self, digit: int) -> int | float:
        """Return the value of a digit."""

    @abstractmethod
    def find(self, value: object) -> int | None:
        """Return the digit of a value; None for a value that is not on the line."""

    @abstractmethod
    def content(self) -> list[Any]:
        """Return the numbers that define the line."""

    @abstractmethod
    def numbers(self, digits: Digits) -> Floats:
        """Return the values of digits as floats; their binary logarithms if the line is logarithmic."""

    def shares(self, digits: Digits) -> Floats:
        """Return the places of digits on the line."""
        return np.asarray(digits / max(1, len(self) - 1), dtype=np.float64)

    def at(self, shares: Floats) -> Digits:
        """Return the digits closest to these places."""
        return np.rint(_within_line(shares) * (len(self) - 1)).astype(np.int64)

    def drawn(self, n: int, rng: np.random.Generator) -> Digits:
        """Draw digits uniformly on the line."""
        return rng.integers(0, len(self), n, dtype=np.int64)

    def near(self, digits: Digits, rng: np.random.Generator) -> Digits:
        """Draw another digit near each of these, at distances of all orders of magnitude.

        No single distance suits all functions, or both the beginning and the end of a search.
        """
        shares = self.shares(digits)
        distances = NEAREST * (FARTHEST / NEAREST) ** rng.random(len(digits))
        signs = np.where(rng.random(len(digits)) < 0.5, -1, 1)
        signs = np.where(np.abs(shares + signs * distances - 0.5) > 0.5, -signs, signs)
        moved = self.at(shares + signs * distances)
        beside = np.where((digits + signs < 0) | (digits + signs >= len(self)), digits - signs, digits + signs)
        return np.where(moved == digits, beside, moved)

    def spread(self, count: int) -> Digits:
        """Return at most `count` digits from the first to the last, evenly spaced on the line."""
        return np.unique(self.at(np.linspace(0.0, 1.0, count)))

    def __getitem__(self, digit: int) -> OtherEntity:  # type: ignore[override]  # no slices
        if not 0 <= digit < len(self):
            raise IndexError(digit)  # ends an iteration
        number = self.number(digit)
        return OtherEntity(repr(number), number)

    def __str__(self) -> str:
        return f"from {self.number(0)} to {self.number(len(self) - 1)}"


@dataclass(frozen=True)
class IntLine(Line):
    """The integers of a Python range."""

    values: range
    log: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def number(self, digit: int) -> int:
        return self.values[digit]

    def find(self, value: object) -> int | None:
        return self.values.index(value) if type(value) is int and value in self.values else None

    def content(self) -> list[Any]:
        return [self.values[0], self.values[-1], self.values.step, self.log]

    def numbers(self, digits: Digits) -> Floats:
        # A range may contain integers beyond int64, or start there.
        values = float(self.values[0]) + float(self.values.step) * digits
        return np.asarray(np.log2(values) if self.log else values, dtype=np.float64)

    @cached_property
    def _ends(self) -> tuple[float, float]:
        first, last = self.numbers(np.array([0, len(self) - 1])).tolist()
        return first, last

    def shares(self, digits: Digits) -> Floats:
        first, last = self._ends
        return (self.numbers(digits) - first) / ((last - first) or 1.0) if self.log else super().shares(digits)

    def at(self, shares: Floats) -> Digits:
        if not self.log:
            return super().at(shares)
        first, last = self._ends
        return self._nearest(first + _within_line(shares) * (last - first))

    def drawn(self, n: int, rng: np.random.Generator) -> Digits:
        if not self.log:
            return super().drawn(n, rng)
        # Each value owns half of the gap on either side: otherwise the first and the last would come half as often.
        first, last, half = float(self.values[0]), float(self.values[-1]), self.values.step / 2.0
        low, high = math.log2(max(first - half, first / 2.0)), math.log2(last + half)
        return self._nearest(low + rng.random(n) * (high - low))

    def _nearest(self, logarithms: Floats) -> Digits:
        places = np.rint((np.exp2(logarithms) - float(self.values[0])) / self.values.step)
        return np.clip(places, 0, len(self) - 1).astype(np.int64)


@dataclass(frozen=True)
class FloatLine(Line):
    """Decimal numbers between two floats, both of which are on it.

    The points are `(first + digit) * 10**exponent`, or ten to the power of these; the first and the last are moved to
    the bounds.
    """

    low: float
    high: float
    log: bool = False

    @cached_property
    def exponent(self) -> int:
        """The decimal logarithm of the step."""
        low, high = self._bounds
        if low == high:
            return 0
        # Steps below the precision of a float would make equal points.
        finest = 1 - SIGNIFICANT if self.log else _magnitude(max(abs(low), abs(high))) - SIGNIFICANT + 1
        return max(_magnitude(high - low) - FINENESS, finest)

    @property
    def _bounds(self) -> tuple[float, float]:
        return (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)

    @cached_property
    def _first(self) -> int:
        return round(self._steps(self._bounds[0]))

    def _steps(self, place: float) -> float:
        """Compute a place on the line (on its logarithm) in steps, without the rounding that makes 0.3 / 0.1 < 3."""
        return round(place / 10.0**self.exponent if self.exponent >= 0 else place * 10.0**-self.exponent, 6)

    @cached_property
    def _length(self) -> int:
        return 1 if self.low == self.high else max(2, round(self._steps(self._bounds[1])) - self._first + 1)

    def __len__(self) -> int:
        return self._length

    def number(self, digit: int) -> float:
        if digit in (0, len(self) - 1):
            return self.high if digit else self.low
        place = float(f"{self._first + digit}e{self.exponent}")  # the decimal number, correctly rounded
        return float(f"{10.0**place:.{max(1, 1 - self.exponent)}g}") if self.log else place

    def find(self, value: object) -> int | None:
        """Return the digit of the point closest to a number between the bounds."""
        if type(value) not in (int, float) or not self.low <= value <= self.high:  # type: ignore[operator]
            return None
        number = float(value)  # type: ignore[arg-type]
        about = round(self._steps(math.log10(number) if self.log else number)) - self._first
        near = range(max(0, min(about, len(self) - 1) - 1), min(about + 2, len(self)))
        return min(near, key=lambda digit: abs(self.number(digit) - number))

    def content(self) -> list[Any]:
        return [self.low, self.high, self.log]

    def numbers(self, digits: Digits) -> Floats:
        low, high = self._bounds
        places = np.clip((float(self._first) + digits) * 10.0**self.exponent, low, high)
        return np.asarray(places * math.log2(10.0) if self.log else places, dtype=np.float64)


def _within_line(shares: Floats) -> Floats:
    """Clip to 0 and 1, in a third of the time that `np.clip` takes for a few dozen numbers."""
    clipped: Floats = np.minimum(np.maximum(shares, 0.0), 1.0)
    return clipped


def _magnitude(number: float) -> int:
    """Return the exponent of a number in decimal scientific notation."""
    return math.floor(math.log10(number))
