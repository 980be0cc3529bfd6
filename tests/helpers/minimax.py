"""The source of the coefficients of `pegbox.codegen.vector_math`: `python3 tests/helpers/minimax.py` prints them.

Minimax polynomials by the exchange algorithm of Remez (1934), with a weight, in 60-digit decimal arithmetic: solve
for the polynomial whose weighted error alternates on a set of points, move the points to the extrema of the error,
repeat. The functions to fit are what is left of exp, log, atanh and erf when their leading terms are taken off.

The quotient of two polynomials for tanh interpolates at points that move until the largest errors between them are
equal.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, getcontext
from itertools import pairwise
from typing import NamedTuple

Function = Callable[[Decimal], Decimal]
DIGITS = 60


class Fit(NamedTuple):
    """`function` on [lo, hi] by a polynomial of `degree`, minimising weight * |error|."""

    function: Function
    lo: float
    hi: float
    degree: int
    weight: Function


def remez(fit: Fit, *, rounds: int = 12, grid: int = 400) -> tuple[list[Decimal], Decimal]:
    """Coefficients (lowest first) and the largest weighted error."""
    points = [_chebyshev(fit, i, fit.degree + 1) for i in range(fit.degree + 2)]
    samples = [_chebyshev(fit, i, grid) for i in range(grid + 1)]
    values = [(x, fit.function(x), fit.weight(x)) for x in samples]
    coefficients: list[Decimal] = []
    worst = Decimal(0)
    for _ in range(rounds):
        coefficients = _alternating(fit, points)
        errors = [(w * (f - _polynomial(coefficients, x)), x) for x, f, w in values]
        worst = max(abs(e) for e, _ in errors)
        points = _extrema(errors, fit.degree + 2)
    return coefficients, worst


class Quotient(NamedTuple):
    """An odd function on [0, hi] by x P(x^2) / Q(x^2), exact to the first order at zero, where its slope is given.

    Q's last coefficient is one. terms: the numbers of coefficients of P and of the others of Q. weight: that of the
    relative error.
    """

    function: Function
    slope: float
    hi: float
    terms: tuple[int, int]
    weight: Function


def level(quotient: Quotient, *, rounds: int = 100, samples: int = 16) -> tuple[list[Decimal], list[Decimal], Decimal]:
    """Return the coefficients of P, those of Q without the last one, and the largest weighted error.

    Where the error between two points of interpolation is above the mean, they move towards each other.
    """
    lengths = [Decimal(1)] * sum(quotient.terms)
    top: list[Decimal] = []
    bottom: list[Decimal] = []
    worst = Decimal(0)
    for _ in range(rounds):
        ends = [Decimal(quotient.hi) * sum(lengths[:k]) / sum(lengths) for k in range(len(lengths) + 1)]
        top, bottom = _interpolating(quotient, ends[1:-1])
        errors = [
            max(_weighted_error(quotient, top, bottom, low + (high - low) * k / samples) for k in range(1, samples + 1))
            for low, high in pairwise(ends)
        ]
        worst = max(errors)
        if worst < Decimal("1.02") * min(errors):
            break
        lengths = [n * (worst / (e + worst / 1000)) ** Decimal("0.15") for n, e in zip(lengths, errors, strict=True)]
    return top, bottom, worst


def _interpolating(quotient: Quotient, points: list[Decimal]) -> tuple[list[Decimal], list[Decimal]]:
    above, below = quotient.terms
    rows = []
    for x in points:
        f, square = quotient.function(x), x * x
        tops, bottoms = [x * square**k for k in range(above)], [-f * square**k for k in range(below)]
        rows.append([Decimal(quotient.slope) * tops[0] + bottoms[0], *tops[1:], *bottoms[1:], f * square**below])
    first, *rest = _solve(rows)
    return [Decimal(quotient.slope) * first, *rest[: above - 1]], [first, *rest[above - 1 :]]


def _weighted_error(quotient: Quotient, top: list[Decimal], bottom: list[Decimal], x: Decimal) -> Decimal:
    value = x * _polynomial(top, x * x) / _polynomial([*bottom, Decimal(1)], x * x)
    return quotient.weight(x) * abs(value / quotient.function(x) - 1)


def _chebyshev(fit: Fit, i: int, n: int) -> Decimal:
    """The i-th of n + 1 Chebyshev extrema of the interval; never exactly its middle, where functions are 0/0."""
    lo, hi = Decimal(fit.lo), Decimal(fit.hi)
    return (lo + hi) / 2 - (hi - lo) / 2 * _cos(Decimal(i) * _pi() / n) + Decimal("1e-12") * (i * 2 == n)


def _alternating(fit: Fit, points: list[Decimal]) -> list[Decimal]:
    rows = []
    for i, x in enumerate(points):
        powers = [x**k if k else Decimal(1) for k in range(fit.degree + 1)]
        rows.append([*powers, (-1) ** i / fit.weight(x), fit.function(x)])
    return _solve(rows)[:-1]


def _solve(rows: list[list[Decimal]]) -> list[Decimal]:
    """Gaussian elimination with partial pivoting on an augmented matrix."""
    n = len(rows)
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for r in range(n):
            if r != i and rows[r][i]:
                factor = rows[r][i]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i], strict=True)]
    return [row[-1] for row in rows]


def _polynomial(coefficients: list[Decimal], x: Decimal) -> Decimal:
    result = Decimal(0)
    for c in reversed(coefficients):
        result = result * x + c
    return result


def _extrema(errors: list[tuple[Decimal, Decimal]], count: int) -> list[Decimal]:
    """The largest error of each run of one sign; surplus runs at the ends are dropped."""
    best: list[tuple[Decimal, Decimal]] = []
    for error, x in errors:
        if best and (error > 0) == (best[-1][0] > 0):
            if abs(error) > abs(best[-1][0]):
                best[-1] = (error, x)
        else:
            best.append((error, x))
    while len(best) > count:
        best.pop(0 if abs(best[0][0]) < abs(best[-1][0]) else -1)
    if len(best) < count:
        raise ArithmeticError(
            f"the error alternates {len(best)} times instead of {count}: more digits or samples needed"
        )
    return [x for _, x in best]


def _pi() -> Decimal:
    # Machin: pi/4 = 4 atan(1/5) - atan(1/239)
    def atan_inverse(n: int) -> Decimal:
        return sum((Decimal((-1) ** k) / ((2 * k + 1) * Decimal(n) ** (2 * k + 1)) for k in range(50)), Decimal(0))

    return 4 * (4 * atan_inverse(5) - atan_inverse(239))


def _cos(x: Decimal) -> Decimal:
    term = total = Decimal(1)
    for k in range(1, 40):
        term *= -x * x / ((2 * k - 1) * 2 * k)
        total += term
    return total


def _series(first: int, ratio: Callable[[int], Decimal]) -> Function:
    """sum over k >= first of ratio(k) * x^(k - first)."""
    terms = [ratio(k) for k in range(first, first + 90)]
    return lambda x: _polynomial(terms, x)


def _factorial(n: int) -> Decimal:
    return Decimal(1) if n < 2 else n * _factorial(n - 1)


def erf(x: Decimal) -> Decimal:
    """2/sqrt(pi) * exp(-x^2) * sum of 2^k x^(2k+1) / (2k+1)!!: all terms positive, nothing cancels."""
    term = total = x
    k = 0
    while term > total * Decimal(10) ** -DIGITS:
        k += 1
        term *= 2 * x * x / (2 * k + 1)
        total += term
    return 2 / _pi().sqrt() * (-x * x).exp() * total


def tanh(x: Decimal) -> Decimal:
    return 1 - 2 / ((2 * x).exp() + 1)


def quotients() -> dict[str, Quotient]:
    """Return the tables in `coefficients` that belong to quotients."""

    def half(x: Decimal) -> Decimal:
        return tanh(x / 2)

    def slope_of_double(x: Decimal) -> Decimal:  # the relative error of tanh(x) for one of tanh(x / 2)
        return (1 - half(x) ** 2) / (1 + half(x) ** 2) + Decimal("1e-6")

    return {"tanh_half_f32": Quotient(half, 0.5, 9.02, (4, 2), slope_of_double)}


def fits() -> dict[str, Fit]:
    """Every table of `pegbox.codegen.vector_math.coefficients`: what it approximates, and where."""
    exp_tail = _series(2, lambda k: 1 / _factorial(k))  # (e^r - 1 - r) / r^2
    log_tail = _series(3, lambda k: Decimal((-1) ** (k - 1)) / k)  # (log(1 + f) - f + f^2/2) / f^3
    half_ln2 = 0.34658
    small = 0.02945  # ((sqrt(2) - 1) / (sqrt(2) + 1))^2

    exp2_ratio = _series(1, lambda k: Decimal(2).ln() ** k / _factorial(k))  # (2^r - 1) / r

    def atanh_tail(first: int) -> Function:  # atanh(sqrt(z)) / sqrt(z) without its first terms, times 2
        return _series(first, lambda k: Decimal(2) / (2 * k + 1))

    def erf_small(z: Decimal) -> Decimal:  # erf(x) / x - 1 at z = x^2
        root = z.sqrt() if z > Decimal("1e-30") else Decimal("1e-15")
        return erf(root) / root - 1

    def log_erfc(x: Decimal) -> Decimal:
        return (1 - erf(x)).ln()

    def above_zero(x: Decimal) -> Decimal:
        return max(x, Decimal("1e-15"))

    def log_erfc_ratio(x: Decimal) -> Decimal:  # -log(erfc(x)) / x - 1
        return -log_erfc(above_zero(x)) / above_zero(x) - 1

    def erfc_slope(x: Decimal) -> Decimal:  # the relative error of erf(x) for an error of that ratio
        return above_zero(x) * erfc_over_erf(above_zero(x))

    def erfc_over_erf(x: Decimal) -> Decimal:
        return (1 - erf(x)) / erf(x) + Decimal("1e-12")

    def relative(function: Function) -> Function:
        return lambda x: 1 / abs(function(x))

    def square(r: Decimal) -> Decimal:  # the error of e^r
        return r * r + Decimal("1e-9")

    def one(x: Decimal) -> Decimal:
        return Decimal(1)

    return {
        "exp_tail_f32": Fit(exp_tail, -half_ln2, half_ln2, 4, relative(exp_tail)),
        "exp_tail_sixteenth_f32": Fit(exp_tail, -half_ln2 / 16, half_ln2 / 16, 1, relative(exp_tail)),
        "exp_tail_eighth_f32": Fit(exp_tail, -half_ln2 / 8, half_ln2 / 8, 1, square),
        "exp_tail_quarter_f32": Fit(exp_tail, -half_ln2 / 4, half_ln2 / 4, 2, square),
        "exp2_ratio_sixteenth_f32": Fit(exp2_ratio, 0, 1 / 16, 2, above_zero),
        "exp2_ratio_thirty_second_f32": Fit(exp2_ratio, 0, 1 / 32, 1, above_zero),
        "exp_tail_f64": Fit(exp_tail, -half_ln2, half_ln2, 10, relative(exp_tail)),
        "exp_tail_pow_f32": Fit(exp_tail, -half_ln2, half_ln2, 6, relative(exp_tail)),
        "log_tail_f32": Fit(log_tail, -0.33334, 0.33334, 7, lambda f: f * f + Decimal("0.02")),
        "atanh_tail_f64": Fit(atanh_tail(1), 0, small, 6, one),
        "atanh_tail_pow_f32": Fit(atanh_tail(1), 0, small, 4, one),
        "atanh_tail_pow_f64": Fit(atanh_tail(2), 0, small, 8, one),
        "erf_small_f64": Fit(erf_small, 0, 1, 11, one),
        "log_erfc_ratio_f32": Fit(log_erfc_ratio, 0, 4, 8, erfc_slope),
        "log_erfc_f64": Fit(log_erfc, 1, 6, 17, erfc_over_erf),
    }


def main() -> None:
    """Print each table with its largest weighted error."""
    getcontext().prec = DIGITS
    for name, fit in fits().items():
        coefficients, worst = remez(fit)
        print(f"{name.upper()}: Final = (  # error {float(worst):.1e}")
        print("".join(f"    {float(c)!r},\n" for c in coefficients) + ")\n")
    for name, quotient in quotients().items():
        *tables, worst = level(quotient)
        for side, table in zip(("numerator", "denominator"), tables, strict=True):
            print(f"{name.upper()}_{side.upper()}: Final = (  # of a quotient with error {float(worst):.1e}")
            print("".join(f"    {float(c)!r},\n" for c in table) + ")\n")


if __name__ == "__main__":
    main()
