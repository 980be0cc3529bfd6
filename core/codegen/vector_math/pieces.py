"""erf in float32 by pieces, whose coefficients a permutation picks out of one register.

erf(x) = t + t p(x) with t = min(x, 1), where p is small and loses nothing by rounding. On each of as many pieces of
equal width as a register has lanes, a polynomial interpolates p at the zeros of a Chebyshev polynomial. Two pieces meet
at one.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final, NamedTuple

from pegbox.codegen.vector_math.values import VectorValue, polynomial

_LIMIT: Final = 3.93
"""A number from which on erf rounds to one."""

_ROUND_MAGIC: Final = 1.5 * 2.0**23


class Pieces(NamedTuple):
    """Intervals around multiples of 1 / `density`, and the degree of their polynomials."""

    density: float
    degree: int


PIECES: Final = {16: Pieces(3.5, 5), 8: Pieces(1.5, 6)}
"""The pieces for each number of lanes of a register."""


def erf_in_pieces(x: VectorValue) -> VectorValue:
    """Compute the error function, where `x.can_pick`."""
    count = x.body.register_lanes
    density = PIECES[count].density
    size = x.abs()
    inside = size.bits().lesser(x.lift(_LIMIT).bits()).from_bits("float")  # NaN becomes the limit
    shifted = inside.fma(density, _ROUND_MAGIC)
    offset = inside.fma(density, _ROUND_MAGIC - shifted)
    p = polynomial(offset, [shifted.bits().picked(table) for table in coefficients(count)])
    t = size.at_most(1.0)
    return t.fma(p, t).copysign(x)


@cache
def coefficients(count: int) -> tuple[tuple[float, ...], ...]:
    """Compute the coefficients of `count` pieces, a tuple for each degree from 0 on."""
    return tuple(zip(*(_polynomial(PIECES[count], number) for number in range(count)), strict=True))


def _polynomial(pieces: Pieces, number: int) -> list[float]:
    """Interpolate p around the middle of a piece, whose width is the unit, by Newton's divided differences."""
    count = pieces.degree + 1
    low = -0.5 if number else 0.0
    nodes = [(0.5 + low - (0.5 - low) * math.cos(math.pi * (2 * k + 1) / (2 * count))) / 2 for k in range(count)]
    arguments = [(number + node) / pieces.density for node in nodes]
    differences = [math.erf(x) / min(x, 1.0) - 1 for x in arguments]
    for order in range(1, count):
        for k in range(count - 1, order - 1, -1):
            differences[k] = (differences[k] - differences[k - 1]) / (nodes[k] - nodes[k - order])
    result = [0.0] * count
    for node, difference in zip(reversed(nodes), reversed(differences), strict=True):  # result * (x - node) + it
        result = [after - node * c for after, c in zip([0.0, *result], result, strict=False)]
        result[0] += difference
    return result
