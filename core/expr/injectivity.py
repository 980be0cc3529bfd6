"""Injectivity: distinct iterations of a loop reach distinct points of a block's domain.

Loops are bound to block variables by sums of coefficient × loop, and by `//` and `%` of such sums, as splits and
fusions make them. The loops can be read from the values of the block variables, as digits of a mixed-radix number; a
loop that can be read visits another point in each iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import product

from pegbox.expr.affine import Linear, linear
from pegbox.expr.bounds import Ranges, bounds, fits
from pegbox.expr.build import floordiv, index
from pegbox.expr.nodes import Binary, Const, Expr, Var
from pegbox.expr.simplify import simplified_linear
from pegbox.expr.visit import free_vars, walk

Caps = Sequence[tuple[Mapping[Expr, int], int]]


def determined(values: Iterable[Expr], fixed: Set[Var], ranges: Ranges, caps: Caps = ()) -> set[Var]:
    """Find the loop variables that the values determine if the `fixed` variables are known.

    This is sound but not complete: a missing variable may still be determined.

    Args:
        caps: sums of coefficient × variable, with their largest values in relevant iterations.
    """
    values, pinned = list(values), set[Expr](fixed)
    forms: list[Linear] = []
    for value in values:
        if isinstance(value, Var):
            pinned.add(value)
        elif fits(form := linear(value), ranges):
            forms.append(form)
    caps = [*caps, *_of_quotients(caps, values, ranges)]
    while True:
        before = len(pinned)
        for form in forms:
            _read_digits(form, pinned, ranges, caps)
        if len(pinned) == before:
            return {term for term in pinned if isinstance(term, Var)} - set(fixed)
        joined = [_joined(term, pinned, ranges) for term in pinned]
        forms += [form for form in joined if form is not None]


def _is_determined(term: Expr, pinned: Set[Expr]) -> bool:
    return term in pinned or (not isinstance(term, Var) and all(v in pinned for v in free_vars(term)))


def _read_digits(form: Linear, pinned: set[Expr], ranges: Ranges, caps: Caps) -> None:
    """Determine each term whose coefficient exceeds the largest sum of the smaller ones."""
    terms = sorted(((abs(c), t) for t, c in form.terms.items() if not _is_determined(t, pinned)), key=lambda p: -p[0])
    spans: list[int] = []
    for coefficient, term in terms:
        between = bounds(term, ranges)
        if between is None:
            return
        spans.append(coefficient * (between[1] - between[0]))
    rest = sum(spans)
    for n, ((coefficient, term), span) in enumerate(zip(terms, spans, strict=True)):
        rest -= span
        if coefficient <= min([rest, *_capped(form, terms[n + 1 :], spans[n + 1 :], caps)]):
            return
        pinned.add(term)


def _capped(form: Linear, terms: Sequence[tuple[int, Expr]], spans: Sequence[int], caps: Caps) -> Iterator[int]:
    """Yield the largest values of a sum's last terms, if a cap limits some of them."""
    for capped, last in caps:
        ratios = {divmod(form.coefficient(t), c) for t, c in capped.items()}
        inside = [term in capped for _, term in terms]
        if len(ratios) == 1 and sum(inside) == len(capped):
            factor, remainder = ratios.pop()
            if factor > 0 and remainder == 0:
                yield factor * last + sum(s for s, is_capped in zip(spans, inside, strict=True) if not is_capped)


def _of_quotients(caps: Caps, values: Iterable[Expr], ranges: Ranges) -> Iterator[tuple[Mapping[Expr, int], int]]:
    """Yield caps of sum // d, for divisors of values, coefficients of the sum, and products of two of these."""
    divisors = {_divisor(node) for value in values for node in walk(value)} if caps else set()
    for capped, last in caps:
        factors = {1, *divisors, *(abs(c) for c in capped.values())}
        for d in {a * b for a, b in product(factors, repeat=2)} - {1}:
            form = simplified_linear(floordiv(Linear(capped, 0).to_expr(), index(d)), ranges)
            if form.const == 0:
                yield form.terms, last // d


def _divisor(node: Expr) -> int:
    if isinstance(node, Binary) and node.op == "floordiv" and isinstance(node.b, Const):
        return max(node.b.integer, 1)
    return 1


def _joined(term: Expr, pinned: Set[Expr], ranges: Ranges) -> Linear | None:
    """Join a % c and a // c into a."""
    if not (isinstance(term, Binary) and term.op == "floormod" and isinstance(term.b, Const)):
        return None
    for quotient in _quotients(linear(term.a), term.b.integer, ranges):
        if all(_is_determined(t, pinned) for t in quotient.terms):
            return linear(term.a)
    return None


def _quotients(a: Linear, c: int, ranges: Ranges) -> Iterator[Linear]:
    """Yield forms of a // c: as it is, and (x + y // d) // c as (d·x + y) // (d·c)."""
    yield simplified_linear(floordiv(a.to_expr(), index(c)), ranges)
    for term, coefficient in a.terms.items():
        if coefficient == 1 and isinstance(term, Binary) and term.op == "floordiv" and isinstance(term.b, Const):
            d = term.b.integer
            whole = a.minus(linear(term)).times(d).add(linear(term.a))
            if d > 0 and fits(whole, ranges):
                yield simplified_linear(floordiv(whole.to_expr(), index(d * c)), ranges)
