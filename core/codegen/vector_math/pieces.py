"""erf in float32 by pieces, whose coefficients a permutation picks out of one register.

erf(x) = t + t p(x) with t = min(x, 1), where p is small and loses nothing by rounding. On each of as many pieces of
equal width as a register has lanes, a polynomial interpolates p at the zeros of a Chebyshev polynomial. Two pieces meet
at one.

The product a (1 + erf(x)) needs no small relative error near zero, so its polynomials are those of erf itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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

GATE_PIECES: Final = {16: Pieces(4.0, 5), 8: Pieces(1.877109375, 6)}
"""The pieces of a gate: a power of two for `VectorValue.fraction`, and a density at which many constant terms are near
numbers of float32 (found by trials)."""


def erf_in_pieces(x: VectorValue) -> VectorValue:
    """Compute the error function, where `x.can_pick`."""
    count = x.body.register_lanes
    density = PIECES[count].density
    size = x.abs()
    inside = size.below(_LIMIT)  # NaN becomes the limit
    number, offset = _divided(inside, density)
    p = polynomial(offset, [number.picked(table) for table in coefficients(count)])
    t = size.at_most(1.0)
    return t.fma(p, t).copysign(x)


def erf_gate_in_pieces(a: VectorValue, b: VectorValue) -> VectorValue:
    """Compute a (1 + erf(b)) as a + a erf(b), where `b.can_pick`."""
    count = b.body.register_lanes
    density = GATE_PIECES[count].density
    inside = b.abs().at_most((count - 0.5) / density * (1 - 2.0**-24))  # rounds into the last piece; NaN stays
    number, offset = _divided(inside, density)
    tables = gate_coefficients(count)
    if inside.fills_avx512:  # one instruction, whose offset has the unit of b
        offset = inside.fraction(int(math.log2(density)))
        tables = tuple(tuple(c * density**power for c in table) for power, table in enumerate(tables))
    *rest, last = (number.picked(table) for table in tables)
    for each in reversed(rest):
        last = last.fma(offset, each)
    return a.fma(last.copysign(b), a)


def _divided(x: VectorValue, density: float) -> tuple[VectorValue, VectorValue]:
    """Split x * density into an integer, in the low bits of the first value, and the rest."""
    shifted = x.fma(density, _ROUND_MAGIC)
    return shifted.bits(), x.fma(density, _ROUND_MAGIC - shifted)


@cache
def coefficients(count: int) -> tuple[tuple[float, ...], ...]:
    """Compute the coefficients of `count` pieces of p, a tuple for each degree from 0 on."""
    numbers = range(count)
    found = (_polynomial(PIECES[count], number, lambda x: math.erf(x) / min(x, 1.0) - 1) for number in numbers)
    return tuple(zip(*found, strict=True))


@cache
def gate_coefficients(count: int) -> tuple[tuple[float, ...], ...]:
    """Compute the coefficients of `count` pieces of erf plus a high power, by which the last piece ends at one."""
    end = (count - 0.5) / GATE_PIECES[count].density
    missing = math.erfc(end) + 2.0**-25
    numbers = range(count)
    found = (_polynomial(GATE_PIECES[count], k, lambda x: math.erf(x) + missing * (x / end) ** 16) for k in numbers)
    return tuple(zip(*found, strict=True))


def _polynomial(pieces: Pieces, number: int, function: Callable[[float], float]) -> list[float]:
    """Interpolate a function around the middle of a piece, whose width is the unit, by Newton's divided differences."""
    count = pieces.degree + 1
    low = -0.5 if number else 0.0
    nodes = [(0.5 + low - (0.5 - low) * math.cos(math.pi * (2 * k + 1) / (2 * count))) / 2 for k in range(count)]
    arguments = [(number + node) / pieces.density for node in nodes]
    differences = [function(x) for x in arguments]
    for order in range(1, count):
        for k in range(count - 1, order - 1, -1):
            differences[k] = (differences[k] - differences[k - 1]) / (nodes[k] - nodes[k - order])
    result = [0.0] * count
    for node, difference in zip(reversed(nodes), reversed(differences), strict=True):  # result * (x - node) + it
        result = [after - node * c for after, c in zip([0.0, *result], result, strict=False)]
        result[0] += difference
    return result
