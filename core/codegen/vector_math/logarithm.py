"""log, and its parts that pow shares.

x = 2^k m with m around 1, taken from the bits. float32: log(1 + f) = f - f^2/2 + f^3 P(f). float64: the series of atanh
at s = f / (2 + f), arranged as in Sun's fdlibm (1993) so that the rounding of s does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pegbox.codegen.vector_math import coefficients
from pegbox.codegen.vector_math.exponential import FORMATS
from pegbox.codegen.vector_math.values import VectorValue, polynomial

# The smallest m: 2/3 makes f symmetric around 0, sqrt(1/2) makes s symmetric.
_LOWEST_BITS = {"float": 0x3F2AAAAB, "double": 0x3FE6A09E667F3BCD}


def split(x: VectorValue) -> tuple[VectorValue, VectorValue]:
    """Split x = 2^k m into m and k, for positive finite x, subnormal ones included; garbage for others."""
    fmt = FORMATS[x.element]
    lift = fmt.mantissa + 1
    subnormal = x.lt(2.0 ** (1 - fmt.bias))
    bits = subnormal.where(x * 2.0**lift, x).bits()
    exponent = (bits - _LOWEST_BITS[x.element]) >> fmt.mantissa
    m = (bits - (exponent << fmt.mantissa)).from_bits(x.element)
    # Many targets cannot convert vectors of 64-bit integers, so a float is built whose low bits are the integer.
    k = (exponent + fmt.round_magic_bits).from_bits(x.element) - fmt.round_magic
    return m, k - subnormal.where(x.lift(float(lift)), 0.0)


def with_limits(x: VectorValue, result: VectorValue) -> VectorValue:
    """Replace `result` by log's special values where x is not a positive finite number."""
    result = x.lt(math.inf).where(result, x)
    result = x.eq(0.0).where(-math.inf, result)
    return x.lt(0.0).where(math.nan, result)


def log(x: VectorValue) -> VectorValue:
    """Compute the natural logarithm: -inf at 0, NaN below."""
    m, k = split(x)
    return with_limits(x, _log_f32(m - 1.0, k) if x.element == "float" else log_f64(m - 1.0, k))


def _log_f32(f: VectorValue, k: VectorValue) -> VectorValue:
    fmt = FORMATS["float"]
    square = f * f
    tail = k.fma(fmt.ln2_low, square * f * polynomial(f, coefficients.LOG_TAIL_F32))
    return k.fma(fmt.ln2_high, f + square.fma(-0.5, tail))


def log_f64(f: VectorValue, k: VectorValue, table: Sequence[float] = coefficients.ATANH_TAIL_F64) -> VectorValue:
    fmt = FORMATS["double"]
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    tail = s.fma(z.fma(polynomial(z, table), half_square), k * fmt.ln2_low)
    return k.fma(fmt.ln2_high, f - (half_square - tail))
