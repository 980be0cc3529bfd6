"""pow(x, y) = exp(y log|x|), with the special values of C99 (annex F.9.4.4), as in NumPy.

The product y log|x| needs more digits than its operands have. float32 computes in float64. float64 carries the
logarithm as an unevaluated sum of two numbers (Dekker, A floating-point technique for extending the available
precision, 1971); products are split by masking bits, because not every target has a fused multiply-add.
"""

from __future__ import annotations

import math

from pegbox.codegen.vector_math import coefficients
from pegbox.codegen.vector_math.exponential import FORMATS, expm1_reduced, power_of_two, reduce, scale
from pegbox.codegen.vector_math.logarithm import log_f64, split, with_limits
from pegbox.codegen.vector_math.values import VectorValue, polynomial

# Exponents beyond this overflow or vanish for any base; clamping avoids inf * 0 and inf - inf.
_HUGE = 2.0**65


def pow_(x: VectorValue, y: VectorValue) -> VectorValue:
    size = x.abs()
    exponent = y.at_most(_HUGE).at_least(-_HUGE)
    result = _pow_f32(size, exponent) if x.element == "float" else _pow_f64(size, exponent)
    return _with_special_values(x, y, size, result)


def _pow_f32(x: VectorValue, y: VectorValue) -> VectorValue:
    wide = x.to_float("double")
    m, k = split(wide)
    log = log_f64(m - 1.0, k, coefficients.ATANH_TAIL_POW_F32)
    r, n = reduce((with_limits(wide, log) * y.to_float("double")).at_most(200.0).at_least(-200.0))
    value = expm1_reduced(r, coefficients.EXP_TAIL_POW_F32) + 1.0
    return (value * power_of_two(n, "double")).to_float("float")


def _pow_f64(x: VectorValue, y: VectorValue) -> VectorValue:
    fmt = FORMATS["double"]
    high, low = _log_pair(x)
    product, error = _two_product(y, high)
    clamped = product.at_most(fmt.exp_max).at_least(fmt.exp_min)
    error = clamped.eq(product).where(y.fma(low, error), 0.0)
    r, n = reduce(clamped, factors=2)
    return scale(expm1_reduced(r + error, fmt.exp_tail), n)


def _log_pair(x: VectorValue) -> tuple[VectorValue, VectorValue]:
    """Compute log x as high + low, with an error of 2^-64, for positive finite x.

    log m = 2s + s z (2/3 + z B(z)) with s = (m - 1) / (m + 1), z = s^2; all but z B(z) are pairs.
    """
    fmt = FORMATS["double"]
    m, k = split(x)
    s, s_low = _quotient(m)
    z, z_low = _two_product(s, s)
    z_low = (s * 2.0).fma(s_low, z_low)
    third = 2.0 / 3.0
    t, t_low = _fast_two_sum(x.lift(third), z * polynomial(z, coefficients.ATANH_TAIL_POW_F64))
    t_low = t_low + 3.700743415417188e-17  # 2/3 - third
    u, u_low = _product(z, z_low, t, t_low)
    v, v_low = _product(s, s_low, u, u_low)
    high, low = _fast_two_sum(s * 2.0, v)
    low = low + s_low.fma(2.0, v_low)
    high, carry = _fast_two_sum(k * fmt.ln2_high, high)
    return _fast_two_sum(high, k.fma(fmt.ln2_low, low) + carry)


def _quotient(m: VectorValue) -> tuple[VectorValue, VectorValue]:
    """Compute (m - 1) / (m + 1) as a pair."""
    f, g = m - 1.0, m + 1.0
    g_low = m - (g - 1.0)
    s = f / g
    product, error = _two_product(s, g)
    rest = ((f - product) - error) - s * g_low
    return s, rest / g


def _fast_two_sum(a: VectorValue, b: VectorValue) -> tuple[VectorValue, VectorValue]:
    """Compute a + b and its rounding error, for |a| >= |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def _two_product(a: VectorValue, b: VectorValue) -> tuple[VectorValue, VectorValue]:
    """Compute a * b and its rounding error."""
    product = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    error = a_low * b_high + (a_high * b_low + (a_high * b_high - product))
    return product, a_low.fma(b_low, error)


def _upper_half(a: VectorValue) -> VectorValue:
    return (a.bits() & -(1 << 27)).from_bits(a.element)


def _product(a: VectorValue, a_low: VectorValue, b: VectorValue, b_low: VectorValue) -> tuple[VectorValue, VectorValue]:
    """Multiply two pairs."""
    product, error = _two_product(a, b)
    return product, a.fma(b_low, a_low.fma(b, error))


def _with_special_values(x: VectorValue, y: VectorValue, size: VectorValue, result: VectorValue) -> VectorValue:
    whole, odd = _parity(y)
    downwards = y.lt(0.0)
    result = size.eq(0.0).where(downwards.where(result.lift(math.inf), 0.0), result)
    result = size.eq(math.inf).where(downwards.where(result.lift(0.0), math.inf), result)
    result = (x.lt(0.0) & x.gt(-math.inf) & ~whole).where(math.nan, result)
    sign_bit = -(1 << (FORMATS[x.element].mantissa + FORMATS[x.element].bias.bit_length() + 1))
    sign = odd.where(x.bits() & sign_bit, 0)
    result = (result.bits() ^ sign).from_bits(x.element)
    result = (x.is_nan() | y.is_nan()).where(x + y, result)
    return (x.eq(1.0) | y.eq(0.0)).where(1.0, result)


def _parity(y: VectorValue) -> tuple[VectorValue, VectorValue]:
    """Decide if y is an integer, and if it is odd. (Infinity is even.)"""
    fmt = FORMATS[y.element]
    unit = 2.0**fmt.mantissa  # floats from here on are integers, and from twice this even
    size = y.abs()
    shifted = size + unit
    large = size.ge(unit)
    whole = large | (shifted - unit).eq(size)
    last_bit = large.where(size.bits(), shifted.bits()) & 1
    return whole, whole & size.lt(2.0 * unit) & last_bit.eq(1)
