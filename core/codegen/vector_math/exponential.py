"""exp, exp2, decays, sigmoid, tanh, erf and GELU.

Reduction after Cody and Waite (Software Manual for the Elementary Functions, 1980): x = n ln 2 + r with ln 2 in two
parts, the first short enough that n times it is exact; e^r = 1 + r + r^2 Q(r) with a minimax Q; then 2^n is assembled
from its bits. In float32 with AVX-512 or AVX2, a permutation picks a root of a power of two, 2^(k/32) to 2^(k/4), and r
is smaller. In float32, erf is 1 - exp(-q(x)), where the polynomial q approximates -log(erfc(x)). An error of q is
multiplied by erfc(x), and the fit minimises that product, so the reduction needs no extra precision. With AVX-512 or
AVX2, erf is computed in pieces (pieces), and with AVX2 tanh is a minimax quotient. In float64, erf is 1 - exp(q(x))
with q near log(erfc(x)), and x + x E(x^2) below one.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from pegbox.codegen.vector_math import coefficients
from pegbox.codegen.vector_math.pieces import erf_gate_in_pieces, erf_in_pieces, gelu_in_pieces
from pegbox.codegen.vector_math.values import VectorValue, horner, polynomial

LOG2_E: Final = 1.4426950408889634

_COUNT: Final = 16
"""The number of powers of two between one and two from which a permutation of AVX-512 picks."""

_BELOW_ONE: Final = -64.0
"""An exponent x for which 1 + 2^x and 1 + e^x round to one.

Powers with smaller exponents may be subnormal, which is slow: see `_is_normal`.
"""


def _exp2_ratio(tail: Sequence[float]) -> list[float]:
    """Compute the coefficients of (2^r - 1) / r from those of (e^r - 1 - r) / r^2."""
    return [math.log(2) ** (k + 1) * c for k, c in enumerate([1.0, *tail])]


class Format(NamedTuple):
    """A floating-point format, with its constants for the algorithms."""

    mantissa: int  # stored bits
    bias: int
    ln2_high: float
    ln2_low: float
    exp_max: float  # e^x overflows above this
    exp_min: float  # e^x rounds to zero below this
    tanh_max: float  # tanh rounds to one above this
    exp_tail: Sequence[float]

    @property
    def exp2_ratio(self) -> list[float]:
        """The coefficients of (2^r - 1) / r."""
        return _exp2_ratio(self.exp_tail)

    @property
    def round_magic(self) -> float:
        """The number whose addition rounds to an integer in the low bits (1.5 makes it work for negatives)."""
        return 1.5 * 2.0**self.mantissa

    @property
    def round_magic_bits(self) -> int:
        return ((self.bias + self.mantissa) << self.mantissa) | (1 << (self.mantissa - 1))


FORMATS: Final = {
    "float": Format(23, 127, 0.693145751953125, 1.4286068203094172e-06, 89.0, -104.0, 10.0, coefficients.EXP_TAIL_F32),
    "double": Format(
        52, 1023, 0.6931471803691238, 1.9082149292705877e-10, 710.0, -746.0, 22.0, coefficients.EXP_TAIL_F64
    ),
}


_TANH_LIMIT: Final = 9.01
"""A number from which tanh rounds to one; `_tanh_by_half` gives one here."""


class EightRoots(NamedTuple):
    """Powers of two that a permutation of AVX2 picks, 2^(k / density) for k from 0 to 7.

    bias: the number added to the exponent of a result or, over two octaves, to the sum of its factors' exponents.
    tail: the coefficients of (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2 / density.
    """

    density: int
    bias: int
    tail: Sequence[float]

    @property
    def magic(self) -> float:
        """The number whose addition rounds to a multiple of 1 / density: k is in the three lowest bits, m above."""
        return FORMATS["float"].round_magic / self.density + self.bias

    def added(self, *, octaves: int) -> list[float]:
        """List the floats whose bits, added to those of 2^m (1 + k/8), give 2^(m + octaves + k / density)."""
        roots = (struct.pack("f", 2.0 ** (octaves + k / self.density)) for k in range(8))
        bits = (struct.unpack("I", root)[0] - (127 << 23) - (k << 20) for k, root in enumerate(roots))
        return [struct.unpack("f", struct.pack("I", each))[0] for each in bits]


_TWO_OCTAVES: Final = EightRoots(4, 2 * 127, coefficients.EXP_TAIL_QUARTER_F32)
_NORMAL: Final = EightRoots(8, 127 - 1, coefficients.EXP_TAIL_EIGHTH_F32)
_HALVED: Final = EightRoots(8, 127 - 2, coefficients.EXP_TAIL_EIGHTH_F32)
"""The roots for normal powers, and for halves of them; one more octave keeps `added` positive."""
_RAISE: Final = 30
_RAISED: Final = EightRoots(8, 127 - 1 + _RAISE, coefficients.EXP_TAIL_EIGHTH_F32)
"""The roots for 2^30 e^x, which has a normal exponent for all x from `exp_min` to 0."""


def reduce(x: VectorValue, *, factors: int = 1, less: int = 0) -> tuple[VectorValue, VectorValue]:
    """Split x = n ln 2 + r with |r| <= ln 2 / 2 into r and an integer for `power_of_two`, or `scale` with 2 factors.

    The low bits of the integer are n - less plus the exponent's bias for each factor of the power.
    """
    fmt = FORMATS[x.element]
    magic = fmt.round_magic + factors * fmt.bias
    shifted = x.fma(LOG2_E, magic - less)
    return _less_powers(x, shifted - (magic - less)), shifted.bits()


def _less_powers(x: VectorValue, n: VectorValue) -> VectorValue:
    """Compute x - n ln 2."""
    fmt = FORMATS[x.element]
    return n.fma(-fmt.ln2_low, n.fma(-fmt.ln2_high, x))


def expm1_reduced(r: VectorValue, tail: Sequence[float]) -> VectorValue:
    """Compute e^r - 1 with a small relative error, for |r| <= ln 2 / 2."""
    return (r * r).fma(polynomial(r, tail), r)


def power_of_two(biased: VectorValue, element: str) -> VectorValue:
    """Make 2^n from the integer of `reduce`, within the range of normal exponents."""
    return (biased << FORMATS[element].mantissa).from_bits(element)


def scale(less_one: VectorValue, biased: VectorValue) -> VectorValue:
    """Compute (1 + less_one) 2^n for any n of `reduce` with 2 factors; subnormal results are rounded once."""
    first, second = _halves(biased, less_one.element)
    return first.fma(less_one, first) * second


def _halves(biased: VectorValue, element: str) -> tuple[VectorValue, VectorValue]:
    """Make two powers of two whose product is 2^n, for any n of `reduce` with 2 factors."""
    half = biased.shifted_right(1)
    return power_of_two(half, element), power_of_two(biased - half, element)


def exp(x: VectorValue, *, where: VectorValue | None = None) -> VectorValue:
    """Compute e^x; inf above the range, 0 below, subnormal results rounded correctly.

    Args:
        where: the lanes to compute, in whole registers of AVX-512; the others are 0.
    """
    if _picks_eight(x):
        inside = x.at_least(FORMATS["float"].exp_min)
        return _power(*_reduced(inside, inside.below(FORMATS["float"].exp_max), _TWO_OCTAVES))
    inside = x if x.fills_avx512 else _within_range(x)
    if x.can_pick and x.body.register_lanes == _COUNT:  # fewer roots save nothing
        return _exp_with_roots(inside, where)
    return _exp_in_range(inside, where)


def _within_range(x: VectorValue) -> VectorValue:
    return x.at_most(FORMATS[x.element].exp_max).at_least(FORMATS[x.element].exp_min)


def _exp_in_range(x: VectorValue, where: VectorValue | None = None) -> VectorValue:
    fmt = FORMATS[x.element]
    if not x.fills_avx512:
        r, n = reduce(x, factors=2)
        return scale(expm1_reduced(r, fmt.exp_tail), n)
    power = x.fma(LOG2_E, fmt.round_magic) - fmt.round_magic
    return (expm1_reduced(_bounded_rest(x, power, 0.5), fmt.exp_tail) + 1.0).scaled(power, where=where)


def _bounded_rest(x: VectorValue, power: VectorValue, most: float) -> VectorValue:
    """Compute x - n ln 2 for `scaled` by any power n; infinite powers and NaN override the result.

    If x is so large that the result is wrong, the power is out of range, too, and the factor only has to be positive
    and finite. This takes one instruction; clamping x would take two, to keep NaN.
    """
    return _less_powers(x, power).bounded(most)


def _exp_with_roots(x: VectorValue, where: VectorValue | None) -> VectorValue:
    """Compute 2^n 2^(k/16) e^r with |r| <= ln 2 / 32; a permutation picks the second factor."""
    fmt = FORMATS["float"]
    magic = fmt.round_magic / _COUNT + 2 * fmt.bias
    shifted = x.fma(LOG2_E, magic)
    power, numbers = shifted - magic, shifted.bits()
    root = numbers.picked([2 ** (k / _COUNT) for k in range(_COUNT)])
    r = _bounded_rest(x, power, 1 / _COUNT) if x.fills_avx512 else _less_powers(x, power)
    value = root.fma(expm1_reduced(r, coefficients.EXP_TAIL_SIXTEENTH_F32), root)
    if x.fills_avx512:
        return value.scaled(power, where=where)  # `scaled` rounds the power down
    first, second = _halves(numbers.shifted_right(_COUNT.bit_length() - 1), "float")
    return value * first * second


def exp2(x: VectorValue, *, where: VectorValue | None = None) -> VectorValue:
    """Compute 2^x; inf above the range, 0 below, subnormal results rounded correctly.

    x = n + r is exact, so this takes fewer operations than e^x. `where` is as for `exp`.
    """
    fmt = FORMATS[x.element]
    if x.can_pick and x.body.register_lanes == _COUNT:
        return x.in_whole_register(partial(_exp2_with_roots, where=where))
    if _picks_eight(x):
        inside = x.at_least(-fmt.bias - fmt.mantissa - 2.0)
        return _power(*_reduced_exp2(inside, inside.below(fmt.bias + 2.0), _TWO_OCTAVES))
    if x.fills_avx512:
        r = x.fraction(0)
        return (r * polynomial(r, fmt.exp2_ratio) + 1.0).scaled(x - r, where=where)
    return scale(*_split_exponent(_within_range_of_exp2(x), factors=2))


def _split_exponent(x: VectorValue, *, factors: int = 1, less: int = 0) -> tuple[VectorValue, VectorValue]:
    """Split 2^x = 2^n 2^r with |r| <= 1/2 into 2^r - 1 and an integer like that of `reduce`."""
    fmt = FORMATS[x.element]
    magic = fmt.round_magic + factors * fmt.bias - less
    shifted = x + magic
    r = x - (shifted - magic)
    return r * polynomial(r, fmt.exp2_ratio), shifted.bits()


def _within_range_of_exp2(x: VectorValue) -> VectorValue:
    fmt = FORMATS[x.element]
    return x.at_most(fmt.bias + 2.0).at_least(-fmt.bias - fmt.mantissa - 2.0)


def _exp2_with_roots(x: VectorValue, count: int = _COUNT, *, where: VectorValue | None = None) -> VectorValue:
    """Compute 2^n 2^(k/count) 2^r with 0 <= r <= 1/count; a permutation picks the second factor.

    n + k/count is x rounded down, so the instruction that multiplies by 2^n can take x, which it rounds down, too.
    """
    ratio = coefficients.EXP2_RATIO_SIXTEENTH_F32 if count == _COUNT else coefficients.EXP2_RATIO_THIRTY_SECOND_F32
    numbers = x.plus_down(FORMATS["float"].round_magic / count).bits()
    root, r = numbers.picked([2 ** (k / count) for k in range(count)]), x.fraction(count.bit_length() - 1, down=True)
    return root.fma(r * horner(r, ratio), root).scaled(x, where=where)


def decay(x: VectorValue) -> VectorValue:
    """Compute 2^x for x <= 0; a subnormal result is any number from 0 to the smallest normal one."""
    fmt = FORMATS[x.element]
    if x.body.register_lanes == _COUNT:
        return x.in_whole_register(_decay_with_roots) if x.can_pick else exp2(x, where=_is_normal(x, 1.0))
    inside = x.at_least(-float(fmt.bias))
    if _picks_eight(x):
        return _normal_power(*_reduced_exp2(inside, inside, _NORMAL))
    less_one, n = _split_exponent(inside)
    power = power_of_two(n, x.element)
    return power.fma(less_one, power)


def _decay_with_roots(x: VectorValue) -> VectorValue:
    return _exp2_with_roots(x, 2 * _COUNT, where=_is_normal(x, 1.0))


def exp_decay(x: VectorValue) -> VectorValue:
    """Compute e^x for x <= 0; a subnormal result is any number from 0 to the smallest normal one."""
    fmt = FORMATS[x.element]
    if x.body.register_lanes == _COUNT:
        return exp(x, where=_is_normal(x, math.log(2)))
    inside = x.at_least(-fmt.bias * math.log(2))
    if _picks_eight(x):
        return _normal_power(*_reduced(inside, inside, _NORMAL))
    r, n = reduce(inside)
    power = power_of_two(n, x.element)
    return power.fma(expm1_reduced(r, fmt.exp_tail), power)


def _is_normal(x: VectorValue, of_two: float) -> VectorValue:
    """Decide in which lanes the power with exponent x is normal or NaN; the power with exponent `of_two` is 2.

    An instruction with a subnormal result, even one that is rounded to 0, takes an Intel core much longer than other
    instructions.
    """
    return ~x.lt((1 - FORMATS[x.element].bias) * of_two)


def _picks_eight(x: VectorValue) -> bool:
    """Decide if a permutation of AVX2 picks roots of powers of two."""
    return x.can_pick and x.body.register_lanes == 8


def _reduced(x: VectorValue, low: VectorValue, roots: EightRoots) -> tuple[VectorValue, VectorValue]:
    """Split e^x into m and k of `roots`, in one integer, and e^r - 1; `low` is x clamped to the top of the range.

    Above the range, r and e^r - 1 rise to infinity, and NaN stays.
    """
    shifted = low.fma(LOG2_E, roots.magic)
    return shifted.bits(), expm1_reduced(_less_powers(x, shifted - roots.magic), roots.tail)


def _reduced_exp2(x: VectorValue, low: VectorValue, roots: EightRoots) -> tuple[VectorValue, VectorValue]:
    """Split 2^x as `_reduced` does e^x."""
    shifted = low + roots.magic
    r = x - (shifted - roots.magic)
    return shifted.bits(), r * polynomial(r, _exp2_ratio(roots.tail))


def _power(numbers: VectorValue, less_one: VectorValue) -> VectorValue:
    """Compute 2^m 2^(k/4) (1 + less_one) 2^m; all factors are normal, so subnormal results are rounded once."""
    powers = numbers << 20
    value = (powers + numbers.picked(_TWO_OCTAVES.added(octaves=0)).bits()).from_bits("float")
    return value.fma(less_one, value) * (powers & 0x7F800000).from_bits("float")


def _normal_power(numbers: VectorValue, less_one: VectorValue) -> VectorValue:
    """Compute 2^(m + 1) 2^(k/8) (1 + less_one), a number with a normal exponent."""
    value = ((numbers << 20) + numbers.picked(_NORMAL.added(octaves=1)).bits()).from_bits("float")
    return value.fma(less_one, value)


def sigmoid(x: VectorValue) -> VectorValue:
    """Compute 1 / (1 + e^-x) from e^-|x|, so that small results keep their relative accuracy."""
    size, one = x.abs() * -1.0, 1.0
    if not x.fills_avx512:
        size = size.at_least(FORMATS[x.element].exp_min)
    if _picks_eight(x):  # scales numerator and denominator, so that a subnormal result is rounded once
        z, one = _normal_power(*_reduced(size, size, _RAISED)), 2.0**_RAISE
    else:
        z = _exp_in_range(size)
    return x.bits().lt(0).where(z, one) / (z + one)


def gate(a: VectorValue, b: VectorValue) -> VectorValue:
    """Compute a * sigmoid(b) as a / (1 + e^-b).

    Where e^-b overflows (b < -88.72 in float32, -709.78 in float64), the result is zero, with an error below 2^-128 |a|
    (2^-1024 |a|), and NaN for infinite a.
    """
    fmt, x = FORMATS[b.element], b * -1.0
    if x.fills_avx512:
        return a / (exp(x.at_least(_BELOW_ONE)) + 1.0)
    if _picks_eight(b):
        inside = x.at_least((2 - fmt.bias) * math.log(2))
        half = _normal_power(*_reduced(inside, inside.below(fmt.exp_max), _HALVED))
        return a / half.fma(2.0, 1.0)
    r, n = reduce(x.at_most(fmt.exp_max).at_least((2 - fmt.bias) * math.log(2)), less=1)
    return a / (_twice(expm1_reduced(r, fmt.exp_tail), n) + 1.0)


def gate2(a: VectorValue, b: VectorValue) -> VectorValue:
    """Compute a / (1 + 2^-b), with the limits of `gate` where 2^-b overflows (b <= -128 or -1024)."""
    fmt, x = FORMATS[b.element], b * -1.0
    if x.fills_avx512:
        return a / (exp2(x.at_least(_BELOW_ONE)) + 1.0)
    if _picks_eight(b):
        inside = x.at_least(2.0 - fmt.bias)
        half = _normal_power(*_reduced_exp2(inside, inside.below(fmt.bias + 1.5), _HALVED))
        return a / half.fma(2.0, 1.0)
    inside = x.at_most(fmt.bias + 1.0).at_least(2.0 - fmt.bias)
    return a / (_twice(*_split_exponent(inside, less=1)) + 1.0)


def _twice(less_one: VectorValue, biased: VectorValue) -> VectorValue:
    """Compute 2 (1 + less_one) 2^n for normal results, up to overflow."""
    return less_one.fma(2.0, 2.0) * power_of_two(biased, less_one.element)


def tanh(x: VectorValue) -> VectorValue:
    """Compute t / (t + 2) with t = e^(2|x|) - 1, which is also accurate near zero."""
    if x.element == "float" and x.body.register_lanes == 8:
        return _tanh_by_half(x)
    fmt = FORMATS[x.element]
    size, magic = x.abs().at_most(fmt.tanh_max), fmt.round_magic + fmt.bias
    shifted = size.fma(2 * LOG2_E, magic)
    power = power_of_two(shifted.bits(), x.element)
    half = (shifted - magic).fma(-math.log(2) / 2, size)  # half of r, whose error matters less if t is large
    tail = [c * 2 ** (k + 2) for k, c in enumerate(fmt.exp_tail)]
    t = power.fma((half * half).fma(polynomial(half, tail), half + half), power - 1.0)
    return (t / (t + 2.0)).copysign(x)


def _tanh_by_half(x: VectorValue) -> VectorValue:
    """Compute 2 n d / (n^2 + d^2) with n / d near tanh(x / 2): n = x P(x^2), d = Q(x^2), whose last coefficient is one.

    Where tanh is near one, the result hardly depends on n / d, so rounding errors of P and Q matter little.
    """
    inside = x.at_most(_TANH_LIMIT).at_least(-_TANH_LIMIT)
    square = inside * inside
    *rest, last = coefficients.TANH_HALF_F32_DENOMINATOR
    n = inside * horner(square, coefficients.TANH_HALF_F32_NUMERATOR)
    d = horner(square, [*rest, square + last])
    return n * (d + d) / n.fma(n, d * d)


def erf(x: VectorValue) -> VectorValue:
    """Compute the error function, 2/sqrt(pi) times the integral of e^-t^2 from 0 to x."""
    if x.can_pick:
        return erf_in_pieces(x)
    return (_erf_f32 if x.element == "float" else _erf_f64)(x)


def erf_gate(a: VectorValue, b: VectorValue) -> VectorValue:
    """Compute a (1 + erf(b))."""
    return erf_gate_in_pieces(a, b) if b.can_pick else a * (erf(b) + 1.0)


def gelu(x: VectorValue) -> VectorValue:
    """Compute x (1 + erf(x / sqrt(2))) / 2."""
    return gelu_in_pieces(x) if _picks_eight(x) else erf_gate(x * 0.5, x * math.sqrt(0.5))


def _erf_f32(x: VectorValue) -> VectorValue:
    """Compute 1 - e^-q with q = -log(erfc(x)) = x + x P(x); erf rounds to one above 4.

    Near zero, 1 - e^-q keeps the relative error of q.
    """
    fmt = FORMATS["float"]
    size = x.abs().at_most(4.0)
    q = size.fma(polynomial(size, coefficients.LOG_ERFC_RATIO_F32), size)
    magic = fmt.round_magic + fmt.bias
    shifted = q.fma(-LOG2_E, magic)
    r, power = (shifted - magic).fma(math.log(2), q), power_of_two(shifted.bits(), "float")
    tail = [c * (-1) ** (k + 1) for k, c in enumerate(fmt.exp_tail)]  # for 1 - e^-r
    return power.fma(expm1_reduced(r, tail), 1.0 - power).copysign(x)


def _erf_f64(x: VectorValue) -> VectorValue:
    """Choose between x + x E(x^2) below one and 1 - e^q(x) above; erf rounds to one above 6."""
    size = x.abs()
    small = x.fma(polynomial(x * x, coefficients.ERF_SMALL_F64), x)
    erfc = _normal_exp2(polynomial(size.at_most(6.0), [c * LOG2_E for c in coefficients.LOG_ERFC_F64]))
    return size.lt(1.0).where(small, (1.0 - erfc).copysign(x))


def _normal_exp2(x: VectorValue) -> VectorValue:
    """Compute 2^x for results with normal exponents; x is rounded, so the relative error grows with |x|."""
    fmt = FORMATS[x.element]
    magic = fmt.round_magic + fmt.bias
    shifted = x + magic
    r, power = x - (shifted - magic), power_of_two(shifted.bits(), x.element)
    return (power * r).fma(polynomial(r, fmt.exp2_ratio), power)
