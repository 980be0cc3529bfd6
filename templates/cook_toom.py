"""The matrices of F(m × m, r × r), m × m outputs of a filter of r × r from a tile of n × n inputs, n = m + r - 1.

Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A, from Winograd, "Arithmetic Complexity of Computations" (1980), and Lavin and Gray, "Fast
Algorithms for Convolutional Neural Networks" (CVPR 2016). A tile takes n² products where the direct sum has m² r².

The matrices follow from n - 1 points and infinity: the outputs are the transpose of Cook's and Toom's product of two
polynomials, which are evaluated at the points, multiplied and interpolated. All entries are exact fractions.

The points determine the magnitudes of intermediate values, and so the rounding errors (Barabasz, Anderson, Soodhalter
and Gregg, "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020). Those
here have the least `amplification` among 0, pairs ±a and, in tiles of odd size, a single a, with multiples a of 1/8.
Pairs let two rows share their sums. Scales of rows, as in Vincent et al., "On Improving the Numerical Stability of
Winograd Convolutions" (2017), change nothing in floating point as long as they are powers of two, and little otherwise,
so none are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TypeAlias

from pegbox.expr import EPSILON

Matrix: TypeAlias = tuple[tuple[Fraction, ...], ...]

_PAIRS = {
    4: ("1",), 5: ("11/8",), 6: ("5/8", "3/2"), 7: ("7/8", "15/8"), 8: ("1/2", "1", "2"),
    10: ("3/8", "7/8", "5/4", "5/2"),
}  # fmt: skip
"""The points a > 0 of the pairs ±a by the size of a tile; 0 and infinity are points of all."""
_SINGLE = {5: "1/2", 7: "3/8"}
"""The single point of tiles of odd size."""

_OF_ROUNDOFF = 2.6
"""The error in units of roundoff × amplification, as measured for all of the sizes with random data of 64 channels."""


@dataclass(frozen=True)
class Transforms:
    """The matrices for tiles of m outputs of a filter of r, along one dimension."""

    m: int
    r: int
    points: tuple[Fraction, ...]

    @property
    def size(self) -> int:
        """The inputs of a tile, n."""
        return self.m + self.r - 1

    @cached_property
    def filters(self) -> Matrix:
        """G, n × r: a filter's polynomial at each point, over the denominators of the interpolation."""
        finite = [
            tuple(point**power / math.prod(point - other for other in self._without(point)) for power in range(self.r))
            for point in self.points
        ]
        return (*finite, _unit(self.r - 1, self.r))

    @cached_property
    def data(self) -> Matrix:
        """Bᵀ, n × n: the coefficients of the products of (x - point) over all other points, and over all."""
        finite = [(*_from_roots(self._without(point)), Fraction(0)) for point in self.points]
        return (*finite, tuple(_from_roots(self.points)))

    @cached_property
    def outputs(self) -> Matrix:
        """Aᵀ, m × n: powers of the points; infinity adds to the last output alone."""
        last = _unit(self.m - 1, self.m)
        return tuple((*(point**power for point in self.points), last[power]) for power in range(self.m))

    @property
    def amplification(self) -> float:
        """The root mean square of the terms of an output in two dimensions, over that of the direct sum.

        It holds for independent data and filters of mean 0.
        """
        powers = [_square(g) * _square(d) for g, d in zip(self.filters, self.data, strict=True)]
        sums = [sum(a * a * power for a, power in zip(row, powers, strict=True)) for row in self.outputs]
        return float(sum(sums) / self.m / self.r)

    def _without(self, point: Fraction) -> list[Fraction]:
        return [other for other in self.points if other != point]


@lru_cache(maxsize=32)
def transforms(m: int, r: int) -> Transforms:
    """Return the matrices of F(m, r), with points for the least error.

    Raises:
        KeyError: m + r - 1 is none of 4 to 8 and 10.
    """
    size = m + r - 1
    pairs = [Fraction(text) for text in _PAIRS[size]]
    single = [Fraction(_SINGLE[size])] if size in _SINGLE else []
    return Transforms(m, r, (Fraction(0), *(sign * point for point in pairs for sign in (1, -1)), *single))


def error_estimate(m: int, r: int, dtype: str) -> float:
    """Estimate the root mean square of the errors of F(m × m, r × r), relative to that of the outputs.

    The largest error is about five times as large; relative to the largest output, it is about the same.
    """
    return _OF_ROUNDOFF * EPSILON[dtype] / 2 * transforms(m, r).amplification


def _unit(place: int, length: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(int(i == place)) for i in range(length))


def _square(row: Sequence[Fraction]) -> Fraction:
    return sum((entry * entry for entry in row), Fraction(0))


def _from_roots(roots: Sequence[Fraction]) -> list[Fraction]:
    """Return the coefficients of the product of (x - root), that of 1 first."""
    product = [Fraction(1)]
    for root in roots:
        product = [
            high - root * low for high, low in zip([Fraction(0), *product], [*product, Fraction(0)], strict=True)
        ]
    return product
