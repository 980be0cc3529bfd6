"""Affine forms: the canonical form of index arithmetic, a sum of coefficient × term plus a constant.

Coefficients and constants are whole numbers without a limit: modulo 2^64, the sum equals the result of int64 arithmetic
in any order. Equality without the modulus depends on ranges: see `pegbox.expr.bounds.fits`.

Terms are variables and parts that are not linear in them (floordiv, floormod, loads, casts ...), compared by structure.
Equal index expressions have equal linear forms, which is what makes subtracting two of them useful.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pegbox.expr import build
from pegbox.expr.dtypes import INDEX, wrap
from pegbox.expr.nodes import Binary, BinaryOp, Const, Expr

Term = TypeVar("Term")
_LIMIT = 2**63


def fits_int64(value: int) -> bool:
    """Check if an expression is a value of int64."""
    return -_LIMIT <= value < _LIMIT


def int64(value: int) -> int:
    """Reduce a number to int64 modulo 2^64; a number that already fits stays the same object."""
    return value if fits_int64(value) else wrap(value, INDEX)


@dataclass(frozen=True, slots=True)
class Linear:
    """The sum `sum(coefficient * term) + const`; no coefficient is zero."""

    terms: Mapping[Expr, int]
    const: int

    @property
    def is_const(self) -> bool:
        return not self.terms

    def coefficient(self, var: Expr) -> int:
        return self.terms.get(var, 0)

    def add(self, other: Linear, scale: int = 1) -> Linear:
        terms = dict(self.terms)
        for term, coefficient in other.terms.items():
            add_term(terms, term, coefficient * scale)
        return Linear(terms, self.const + other.const * scale)

    def minus(self, other: Linear) -> Linear:
        """Return the difference, in which quotients and remainders of sums cancel for any order of the sums."""
        rest = self.add(other, -1)
        if sum(isinstance(term, Binary) for term in rest.terms) < 2:
            return rest
        return Linear(dict(_merged(rest).values()), rest.const)

    def times(self, factor: int) -> Linear:
        if factor == 0:
            return Linear({}, 0)
        return Linear({t: c * factor for t, c in self.terms.items()}, self.const * factor)

    def literal(self) -> Linear:
        """Return the same sum with numbers reduced to int64: its bounds may be known if the other's are not."""
        for value in (self.const, *self.terms.values()):
            if not -_LIMIT <= value < _LIMIT:
                break
        else:
            return self
        terms = {term: int64(coefficient) for term, coefficient in self.terms.items()}
        return Linear({term: coefficient for term, coefficient in terms.items() if coefficient}, int64(self.const))

    def to_expr(self) -> Expr:
        """Return an int64 expression of the same value: the terms in their original order, the constant last."""
        # Such a sum does not fold, so that its nodes need not be built by `build`.
        result: Expr | None = None
        for term, coefficient in self.terms.items():
            factor = int64(coefficient)
            sign: BinaryOp = "add"
            if result is not None and _has_opposite(factor):
                sign, factor = "sub", -factor
            # A traced run's number is not a plain int: it may be 1 here and something else elsewhere.
            part = term if type(factor) is int and factor == 1 else Binary("mul", term, Const(factor, INDEX))
            result = part if result is None else Binary(sign, result, part)
        const = int64(self.const)
        if result is None:
            return build.index(const)
        if const == 0:
            return result
        if _has_opposite(const):
            return Binary("sub", result, Const(-const, INDEX))
        return Binary("add", result, Const(const, INDEX))


def _merged(form: Linear) -> dict[Hashable, tuple[Expr, int]]:
    """Merge equivalent terms: keep the first of each, with the sum of the coefficients, unless it is zero."""
    merged: dict[Hashable, tuple[Expr, int]] = {}
    for term, coefficient in form.terms.items():
        meaning = _meaning(term)
        first, total = merged.get(meaning, (term, 0))
        merged[meaning] = first, total + coefficient
    return {meaning: found for meaning, found in merged.items() if found[1]}


def _meaning(term: Expr) -> Hashable:
    """Return a key that is equal for terms that differ only in the order of sums."""
    if not isinstance(term, Binary):
        return term
    forms = [linear(operand) for operand in (term.a, term.b)]
    sums = [frozenset((meaning, c) for meaning, (_, c) in _merged(form).items()) for form in forms]
    return term.op, *zip(sums, (form.const for form in forms), strict=True)


def _has_opposite(value: int) -> bool:
    """Check if a literal is negative and its opposite is also a literal, unlike that of the lowest int64."""
    return value < 0 and fits_int64(-value)


def constant(value: int) -> Linear:
    return Linear({}, value)


def linear(expr: Expr) -> Linear:
    """Return the linear form of an int64 expression; nonlinear sub-expressions become terms unchanged."""
    terms: dict[Expr, int] = {}
    return Linear(terms, _collect(expr, 1, terms))


def weighted_sum(exprs: Sequence[Expr], weights: Sequence[int]) -> Linear:
    """Return the linear form of the sum of weight * expression."""
    terms: dict[Expr, int] = {}
    return Linear(terms, sum([_collect(expr, weight, terms) for expr, weight in zip(exprs, weights, strict=True)]))


def _collect(expr: Expr, scale: int, terms: dict[Expr, int]) -> int:
    """Add the terms of `scale * expr` to `terms`; return its constant part."""
    if expr.dtype == INDEX:
        if isinstance(expr, Const):
            return scale * expr.integer
        if isinstance(expr, Binary):
            if expr.op == "add":
                return _collect(expr.a, scale, terms) + _collect(expr.b, scale, terms)
            if expr.op == "sub":
                return _collect(expr.a, scale, terms) + _collect(expr.b, -scale, terms)
            if expr.op == "mul":
                if isinstance(expr.b, Const):
                    return _collect(expr.a, scale * expr.b.integer, terms)
                factor, other = linear(expr.b), expr.a
                if not factor.is_const:
                    factor, other = linear(expr.a), expr.b
                if factor.is_const:
                    return _collect(other, scale * factor.const, terms)
    add_term(terms, expr, scale)
    return 0


def add_term(terms: dict[Expr, int], term: Expr, coefficient: int) -> None:
    """Add a term to a sum without zero coefficients."""
    total = terms.get(term, 0) + coefficient
    if total:
        terms[term] = total
    else:
        terms.pop(term, None)


@dataclass(frozen=True, slots=True)
class Division(Generic[Term]):
    """A division `sum == divisor * quotient + rest`; only the rest remains to be divided.

    is_whole: the rest lies in [0, divisor), so that the quotient is `sum // divisor` and the rest `sum % divisor`.
    """

    quotient: dict[Term, int]
    quotient_const: int
    rest: dict[Term, int]
    rest_const: int
    is_whole: bool


def divide(
    terms: Iterable[tuple[Term, int]],
    const: int,
    divisor: int,
    bounds: Callable[[dict[Term, int], int], tuple[int, int] | None],
) -> Division[Term]:
    """Split the division of a sum by a positive number into its multiple and the rest.

    This holds for whole numbers. For int64, the caller must prove that neither the sum nor the rest wraps around.

    Args:
        terms: the terms of the sum, each with its coefficient.
        bounds: a function that returns the bounds of a sum of such terms and a constant, as whole numbers; None if
            unknown.
    """
    quotient: dict[Term, int] = {}
    rest: dict[Term, int] = {}
    for term, coefficient in terms:
        if coefficient % divisor == 0:
            quotient[term] = coefficient // divisor
        else:
            rest[term] = coefficient
    if between := bounds(rest, const):
        period = between[0] // divisor
        if between[1] // divisor == period:
            return Division(quotient, period, rest, const - period * divisor, True)
    # Move out only constants beyond one period, so that equal remainders look equal.
    period = const // divisor
    return Division(quotient, period, rest, const - period * divisor, False)


def difference(a: Expr, b: Expr) -> Linear:
    """Return `a - b` in linear form."""
    return linear(a).minus(linear(b))
