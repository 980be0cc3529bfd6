"""erf and GELU in float32 by pieces, whose coefficients a permutation picks from one register.

There are as many pieces of equal width as a register has lanes; on each, a polynomial interpolates a function at the
zeros of a Chebyshev polynomial. With AVX-512, erf(x) = t + t p(x) with t = min(x, 1), where p is so small that its
rounding does not matter; two pieces meet at one. With AVX2, whose registers hold half as many numbers, fewer operations
count more: the polynomials are those of erf, and the first one, x q(x), has no constant term.

The product a (1 + erf(x)) needs no small relative error near zero, so its polynomials are those of erf itself. GELU is
max(x, 0) - |x| erfc(|x| / sqrt(2)) / 2 with AVX2, which needs no sign of x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from pegbox.codegen.vector_math.values import VectorValue, horner, polynomial

_LIMIT: Final = 3.93
"""A number from which erf rounds to one."""

_ROUND_MAGIC: Final = 1.5 * 2.0**23
_SIGN: Final = -(2**31)


class Pieces(NamedTuple):
    """Intervals around multiples of 1 / `density`, and the degree of their polynomials."""

    density: float
    degree: int


PIECES: Final = {16: Pieces(3.5, 5), 8: Pieces(1.5, 6)}
"""The pieces of erf for each number of lanes of a register."""

GATE_PIECES: Final = {16: Pieces(4.0, 5), 8: Pieces(1.877109375, 6)}
"""The pieces of a gate.

The densities are a power of two for `VectorValue.fraction`, and one for which many constant terms are close to float32
numbers (found by trials).
"""


ERF_WIDTH: Final = 17 / 32
"""The width of each of eight pieces of erf: its multiples are exact in float32, and the last piece ends at erf = 1."""

GELU_WIDTH: Final = 25 / 32
"""The width of each of eight pieces of erfc(x / sqrt(2)) / 2; the last one ends 1/4 after its middle."""


def erf_in_pieces(x: VectorValue) -> VectorValue:
    """Compute the error function, if `x.can_pick`."""
    count = x.body.register_lanes
    if count == 8:
        inside = x.abs().at_most(7.5 * ERF_WIDTH * (1 - 2.0**-24))  # rounds into the last piece; NaN stays
        return (_in_pieces(inside, ERF_WIDTH, erf_coefficients()).bits() | (x.bits() & _SIGN)).from_bits(x.element)
    density = PIECES[count].density
    size = x.abs()
    inside = size.below(_LIMIT)  # NaN becomes the limit
    number, offset = _divided(inside, density)
    p = polynomial(offset, [number.picked(table) for table in coefficients(count)])
    t = size.at_most(1.0)
    return t.fma(p, t).copysign(x)


def erf_gate_in_pieces(a: VectorValue, b: VectorValue) -> VectorValue:
    """Compute a (1 + erf(b)) as a + a erf(b), if `b.can_pick`."""
    count = b.body.register_lanes
    density = GATE_PIECES[count].density
    inside = b.abs().at_most((count - 0.5) / density * (1 - 2.0**-24))  # rounds into the last piece; NaN stays
    number, offset = _divided(inside, density)
    tables = gate_coefficients(count)
    if inside.fills_avx512:  # one instruction, which gives the offset in the unit of b
        offset = inside.fraction(int(math.log2(density)))
        tables = tuple(tuple(c * density**power for c in table) for power, table in enumerate(tables))
    erf = horner(offset, [number.picked(table) for table in tables])
    return a.fma(erf.copysign(b), a)


def gelu_in_pieces(x: VectorValue) -> VectorValue:
    """Compute x (1 + erf(x / sqrt(2))) / 2, if `x.can_pick`, with eight lanes."""
    inside = x.abs().at_most(7 * GELU_WIDTH + 0.25)
    half_erfc = _in_pieces(inside, GELU_WIDTH, gelu_coefficients())
    return inside.fma(half_erfc * -1.0, x.at_least(0.0))


def _in_pieces(size: VectorValue, width: float, tables: tuple[tuple[float, ...], ...]) -> VectorValue:
    """Compute the function with the coefficients in `tables`, for powers of the distance from the middle of a piece."""
    shifted = size.fma(1 / width, _ROUND_MAGIC)
    offset = (shifted - _ROUND_MAGIC).fma(-width, size)
    return horner(offset, [shifted.bits().picked(table) for table in tables])


def _divided(x: VectorValue, density: float) -> tuple[VectorValue, VectorValue]:
    """Split x * density into an integer, in the low bits of the first value, and the rest."""
    shifted = x.fma(density, _ROUND_MAGIC)
    return shifted.bits(), x.fma(density, _ROUND_MAGIC - shifted)


@cache
def coefficients(count: int) -> tuple[tuple[float, ...], ...]:
    """Compute the coefficients of `count` pieces of p, a tuple for each degree."""
    numbers = range(count)
    found = (_polynomial(PIECES[count], number, lambda x: math.erf(x) / min(x, 1.0) - 1) for number in numbers)
    return tuple(zip(*found, strict=True))


@cache
def gate_coefficients(count: int) -> tuple[tuple[float, ...], ...]:
    """Compute the coefficients of `count` pieces of erf plus a high power, which makes the last piece end at one."""
    end = (count - 0.5) / GATE_PIECES[count].density
    missing = math.erfc(end) + 2.0**-25
    numbers = range(count)
    found = (_polynomial(GATE_PIECES[count], k, lambda x: math.erf(x) + missing * (x / end) ** 16) for k in numbers)
    return tuple(zip(*found, strict=True))


@cache
def erf_coefficients() -> tuple[tuple[float, ...], ...]:
    """Compute the coefficients of eight pieces of erf, which end at one as a gate's do."""
    pieces, end = Pieces(1 / ERF_WIDTH, 6), 7.5 * ERF_WIDTH
    missing = math.erfc(end) + 2.0**-25
    found = [_polynomial(pieces, k, lambda x: math.erf(x) + missing * (x / end) ** 16) for k in range(1, 8)]
    first = _polynomial(pieces._replace(degree=5), 0, lambda x: math.erf(x) / x)
    return _unscaled([[0.0, *(c / pieces.density for c in first)], *found], pieces.density)


@cache
def gelu_coefficients() -> tuple[tuple[float, ...], ...]:
    """Compute the coefficients of eight pieces of erfc(x / sqrt(2)) / 2 less a high power, which end at exactly zero.

    The last piece ends at an offset that is a power of two, so products with it are exact.
    """
    pieces, end, quarter = Pieces(1 / GELU_WIDTH, 6), 7 * GELU_WIDTH + 0.25, np.float32(0.25)
    left = math.erfc(end * math.sqrt(0.5)) / 2
    found = (
        _polynomial(pieces, k, lambda x: math.erfc(x * math.sqrt(0.5)) / 2 - left * (x / end) ** 16) for k in range(8)
    )
    tables = _unscaled(list(found), pieces.density)
    total = np.float64(0)
    for table in reversed(tables[1:]):  # as `horner` does
        total = np.float64(np.float32(total * quarter + np.float32(table[7])))
    return ((*tables[0][:7], float(-total * quarter)), *tables[1:])


def _unscaled(found: list[list[float]], density: float) -> tuple[tuple[float, ...], ...]:
    """Convert coefficients for distances in widths of a piece to distances in x's unit, a tuple for each degree."""
    return tuple(tuple(c * density**power for c in table) for power, table in enumerate(zip(*found, strict=True)))


def _polynomial(pieces: Pieces, number: int, function: Callable[[float], float]) -> list[float]:
    """Interpolate a function around the middle of a piece of width 1 by Newton's divided differences."""
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
