"""sin and cos in float32.

x is reduced to r = x - n pi/2 with |r| <= pi/4 in float64, by pi/2 in two parts after Cody and Waite (Software Manual
for the Elementary Functions, 1980), the first short enough that n times it is exact. Larger numbers go to the C
library, in a function that is not inlined: a kernel contains only a call of this function, which returns at once if no
number is that large.
"""

from __future__ import annotations

import math
from typing import Final

from pegbox.codegen.vector_math.values import VectorValue, polynomial

_LIMIT: Final = 2.0**28
"""The largest magnitude of an argument that is reduced here."""
_HALF_PI_HIGH: Final = 26353589 * 2.0**-24
"""The first bits of pi/2, few enough that the product with n is exact up to the limit."""
_HALF_PI_LOW: Final = 1.5893254773528196e-08
"""The rest of pi/2."""
_ROUND_MAGIC: Final = 1.5 * 2.0**52
_SIN: Final = (-0.16666654611, 0.0083321608736, -0.00019515295891)
"""The coefficients of (sin(r) / r - 1) / r^2, by powers of r^2."""
_COS: Final = (-0.5, 0.041666645683, -0.0013887316255, 2.4433157118e-05)
"""The coefficients of (cos(r) - 1) / r^2, by powers of r^2."""


def sin(x: VectorValue) -> VectorValue:
    """Compute the sine of x in radians."""
    return x.unless_beyond(_LIMIT, "sin", _turned(x, 0))


def cos(x: VectorValue) -> VectorValue:
    """Compute the cosine of x in radians."""
    return x.unless_beyond(_LIMIT, "cos", _turned(x, 1))


def _turned(x: VectorValue, quarters: int) -> VectorValue:
    """Compute the sine of x plus some quarter turns."""
    wide = x.to_float("double")
    shifted = wide.fma(2 / math.pi, _ROUND_MAGIC)
    n = shifted - _ROUND_MAGIC
    r = n.fma(-_HALF_PI_LOW, n.fma(-_HALF_PI_HIGH, wide)).to_float("float")
    quadrant = shifted.bits().to_int("i32") + quarters
    square = r * r
    sine = r.fma(square * polynomial(square, _SIN), r).copysign(r)  # a zero keeps its sign
    cosine = square.fma(polynomial(square, _COS), 1.0)
    chosen = (quadrant & 1).eq(0).where(sine, cosine)
    return (chosen.bits() ^ ((quadrant & 2) << 30)).from_bits("float")
