"""Conversions from and to 16-bit floats, which are represented by integers.

Rounding is to nearest, ties to even; values that are too large become infinity, and NaN stays NaN (made quiet).
"""

from __future__ import annotations

from pegbox.codegen.vector_math.values import VectorValue

_SIGN, _INFINITY, _MANTISSA, _QUIET_NAN = 0x8000, 0x7C00, 0x03FF, 0x7E00  # of float16
_REBIAS = (127 - 15) << 23  # the difference between the exponent biases of float16 and float32, at the latter's place
_SMALLEST_NORMAL = (127 - 14) << 23  # of float16, as float32 bits


def float16_to_float32(x: VectorValue) -> VectorValue:
    """Move exponent and mantissa to their new places; infinities and NaN are rebiased twice.

    The smallest normal number is added to subnormal ones, and subtracted again as a float.
    """
    bits = x.to_int("i32")
    magnitude = bits & (_SIGN - 1)
    moved = magnitude << 13
    normal = moved + _REBIAS
    large = magnitude.ge(_INFINITY).where(normal + _REBIAS, normal)
    small = ((moved + _SMALLEST_NORMAL).from_bits("float") - 2.0**-14).bits()
    return (magnitude.gt(_MANTISSA).where(large, small) | ((bits & _SIGN) << 16)).from_bits("float")


def float32_to_float16(x: VectorValue) -> VectorValue:
    """Round numbers in the range of normal float16s as integers; a carry gives the next exponent, and finally infinity.

    Smaller numbers are rounded to multiples of 2^-24, as a float32 is when 0.5 is added to it.
    """
    bits = x.bits()
    magnitude = bits & 0x7FFFFFFF
    high = magnitude >> 13
    rounded = (magnitude + ((high & 1) + (0xFFF - _REBIAS))) >> 13
    large = rounded.gt(_INFINITY).where(_INFINITY, rounded)
    small = (magnitude.from_bits("float") + 0.5).bits() - 0x3F000000
    number = magnitude.ge(_SMALLEST_NORMAL).where(large, small)
    chosen = x.is_nan().where(high & _MANTISSA | _QUIET_NAN, number)
    return (chosen | ((bits >> 16) & _SIGN)).to_int("i16")


def bfloat16_to_float32(x: VectorValue) -> VectorValue:
    """Append sixteen zero bits."""
    return (x.to_int("i32") << 16).from_bits("float")


def float32_to_bfloat16(x: VectorValue) -> VectorValue:
    bits = x.bits()
    high = bits >> 16
    rounded = (bits + ((high & 1) + 0x7FFF)) >> 16
    return x.is_nan().where(high | 0x40, rounded).to_int("i16")


def float64_to_odd_float32(x: VectorValue) -> VectorValue:
    """Round to the neighbour with an odd last bit unless exact, so that rounding the result to float16 is correct.

    Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Transactions on Computers 57, 2008.
    """
    near = x.to_float("float")
    back, bits = near.to_float("double"), near.bits()
    towards_zero = back.abs().gt(x.abs()).where(bits - 1, bits)
    return back.eq(x).where(bits, towards_zero | 1).from_bits("float")
