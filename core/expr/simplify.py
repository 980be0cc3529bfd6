"""Simplification of index arithmetic and conditions, given the ranges of the variables."""

from __future__ import annotations

import math

from pegbox.expr import build
from pegbox.expr.affine import Linear, add_term, divide, fits_int64, linear
from pegbox.expr.bounds import Interval, Ranges, fits, linear_bounds
from pegbox.expr.dtypes import INDEX
from pegbox.expr.nodes import Binary, Compare, Const, Expr, Load, Var
from pegbox.expr.visit import rewrite


def simplify(expr: Expr, ranges: Ranges) -> Expr:
    """Simplify an expression for values of its variables within `ranges` (variables without a range may have any
    value).

    int64 arithmetic ends in canonical linear form, which is correct even if it wraps around. Steps that do not commute
    with wrapping are taken only if the ranges prove that nothing wraps: `//` and `%` by constants vanish, minima,
    maxima and comparisons are decided, and comparisons get their variables on the left and a constant on the right.
    """

    def leaf(e: Expr) -> Expr | None:
        match e:
            case Const():
                return e
            case Var():
                fixed = ranges.get(e) if e.dtype == INDEX else None
                return build.index(fixed[0]) if fixed is not None and fixed[0] == fixed[1] else e
            case Binary() if e.dtype == INDEX:
                return _linear(e, ranges).to_expr()
            case Compare():
                return _compare(e, ranges)
            case Load(buffer, indices):
                return e.at(buffer, tuple(simplify(i, ranges) for i in indices))
            case _:
                return None

    return rewrite(expr, leaf)


def simplified_linear(expr: Expr, ranges: Ranges) -> Linear:
    """Return the linear form of the simplified expression; a sum known to wrap around is a single term."""
    form = _linear(expr, ranges)
    between = linear_bounds(form, ranges)
    return form if between is None or fits(form, ranges) else Linear({form.to_expr(): 1}, 0)


def _linear(expr: Expr, ranges: Ranges) -> Linear:
    """Return the linear form of an int64 expression with simplified terms."""
    terms: dict[Expr, int] = {}
    const = _collect(expr, 1, terms, ranges)
    return rejoined(Linear(terms, const).literal(), ranges)


def rejoined(form: Linear, ranges: Ranges) -> Linear:
    """Apply (x // d) * d·k + (x % d) * k = x * k."""
    if len(form.terms) < 2:
        return form
    for rest, scale in form.terms.items():
        digit = _digit(rest, ranges)
        if digit is None:
            continue
        number, divisor = digit
        whole = _divide("floordiv", number, build.index(divisor), ranges)
        if whole.terms and all(form.coefficient(t) == c * divisor * scale for t, c in whole.terms.items()):
            without = Linear({t: c for t, c in form.terms.items() if t is not rest}, form.const)
            joined = without.add(whole.times(divisor * scale), -1).add(_linear(number.to_expr(), ranges).times(scale))
            return rejoined(joined, ranges)
    return form


def _digit(term: Expr, ranges: Ranges) -> tuple[Linear, int] | None:
    """Return x and d of a term x % d, also in the form (y % (c·d)) // c, which is (y // c) % d."""
    match term:
        case Binary("floormod", a, Const() as b):
            return linear(a), b.integer
        case Binary("floordiv", Binary("floormod", a, Const() as b), Const() as c) if (
            c.integer > 0 and b.integer % c.integer == 0
        ):
            return _divide("floordiv", linear(a), c, ranges), b.integer // c.integer
    return None


def _collect(expr: Expr, scale: int, terms: dict[Expr, int], ranges: Ranges) -> int:
    """Add the terms of `scale * expr` to `terms`; returns its constant part."""
    if isinstance(expr, Const):
        return scale * expr.integer
    if isinstance(expr, Var):
        between = ranges.get(expr)
        if between is not None and between[0] == between[1]:
            return scale * between[0]
        add_term(terms, expr, scale)
        return 0
    if isinstance(expr, Binary):
        if expr.op in ("add", "sub"):
            rest = _collect(expr.a, scale, terms, ranges)
            return rest + _collect(expr.b, scale if expr.op == "add" else -scale, terms, ranges)
        if expr.op == "mul" and isinstance(expr.b, Const) and isinstance(expr.a, Var):
            return _collect(expr.a, scale * expr.b.integer, terms, ranges)
    form = _simplified(expr, ranges)
    for term, coefficient in form.terms.items():
        add_term(terms, term, scale * coefficient)
    return scale * form.const


def _simplified(expr: Expr, ranges: Ranges) -> Linear:
    """Return the linear form of an expression that is neither a variable nor a sum."""
    match expr:
        case Binary("mul", a, b):
            la, lb = _linear(a, ranges), _linear(b, ranges)
            if lb.is_const:
                return la.times(lb.const)
            if la.is_const:
                return lb.times(la.const)
            return linear(build.mul(la.to_expr(), lb.to_expr()))
        case Binary("floordiv" | "floormod" as op, a, b):
            return _divide(op, _linear(a, ranges), simplify(b, ranges), ranges)
        case Binary("min" | "max" as op, a, b):
            return _extremum(op, _linear(a, ranges), _linear(b, ranges), ranges)
        case _:
            return linear(simplify(expr, ranges))


def _divide(op: str, a: Linear, b: Expr, ranges: Ranges) -> Linear:
    """Split a into c·q + r with r in [0, c) if the ranges prove it: a // c = q, a % c = r."""
    if not isinstance(b, Const) or int(b.value) <= 0 or not fits(a, ranges):
        return _undivided(op, a, b)
    c = b.integer
    parts = divide(a.terms.items(), a.const, c, lambda terms, const: linear_bounds(Linear(terms, const), ranges))
    quotient, rest = Linear(parts.quotient, parts.quotient_const), Linear(parts.rest, parts.rest_const)
    if parts.is_whole:
        return quotient if op == "floordiv" else rest
    if not fits(rest, ranges):
        return _undivided(op, a, b)
    rest_value = _nested(op, rest, c, ranges) or _without_lowest(op, rest, c, ranges) or _reduced(op, rest, c)
    return rest_value if op == "floormod" else quotient.add(rest_value)


def _undivided(op: str, a: Linear, b: Expr) -> Linear:
    return linear((build.quotient if op == "floordiv" else build.remainder)(a.to_expr(), b))


def _reduced(op: str, rest: Linear, c: int) -> Linear:
    """Divide out the common factor g: (g·x + k) // (g·d) = (x + k // g) // d, and likewise for %."""
    g = math.gcd(c, *rest.terms.values())
    inner = Linear({t: k // g for t, k in rest.terms.items()}, rest.const // g).to_expr()
    divisor = build.index(c // g)
    if op == "floordiv":
        return linear(build.quotient(inner, divisor))
    return linear(build.remainder(inner, divisor)).times(g).add(Linear({}, rest.const % g))


def _nested(op: str, rest: Linear, c: int, ranges: Ranges) -> Linear | None:
    """Apply (x // d) // c = x // (d·c), and (x % d) % c = x % c if c divides d."""
    if rest.const or len(rest.terms) != 1:
        return None
    ((term, coefficient),) = rest.terms.items()
    if coefficient != 1 or not isinstance(term, Binary) or not isinstance(term.b, Const):
        return None
    d = term.b.integer
    if op == term.op == "floordiv" and d > 0 and fits_int64(d * c):
        return _divide("floordiv", linear(term.a), build.index(d * c), ranges)
    if op == term.op == "floormod" and d > 0 and d % c == 0:
        return _divide("floormod", linear(term.a), build.index(c), ranges)
    return None


def _without_lowest(op: str, rest: Linear, c: int, ranges: Ranges) -> Linear | None:
    """Apply (g·x + r) // (g·d) = x // d and (g·x + r) % (g·d) = g·(x % d) + r if 0 <= r < g."""
    factors = {math.gcd(c, k) for k in rest.terms.values()} if len(rest.terms) > 1 else ()
    for g in sorted(factors, reverse=True):
        lowest = Linear({t: k for t, k in rest.terms.items() if k % g}, rest.const % g)
        between = linear_bounds(lowest, ranges)
        if g > 1 and lowest.terms and between is not None and between[0] >= 0 and between[1] < g:
            higher = Linear({t: k // g for t, k in rest.terms.items() if k % g == 0}, rest.const // g)
            found = _divide(op, higher, build.index(c // g), ranges)
            return found if op == "floordiv" else found.times(g).add(lowest)
    return None


def _extremum(op: str, a: Linear, b: Linear, ranges: Ranges) -> Linear:
    between = linear_bounds(a.add(b, -1), ranges) if fits(a, ranges) and fits(b, ranges) else None
    if between is not None:
        if between[1] <= 0:
            return a if op == "min" else b
        if between[0] >= 0:
            return b if op == "min" else a
    combine = build.minimum if op == "min" else build.maximum
    return linear(combine(a.to_expr(), b.to_expr()))


def _compare(expr: Compare, ranges: Ranges) -> Expr:
    if expr.a.dtype != INDEX:
        return build.compare(expr.op, simplify(expr.a, ranges), simplify(expr.b, ranges))
    a, b = _linear(expr.a, ranges), _linear(expr.b, ranges)
    if fits(a, ranges) and fits(b, ranges):
        gap = a.add(b, -1)
        between = linear_bounds(gap, ranges)
        decided = decide(expr.op, between) if between is not None else None
        if decided is not None:
            return build.TRUE if decided else build.FALSE
        left = Linear(gap.terms, 0)
        if fits(left, ranges) and fits_int64(-gap.const):
            return build.compare(expr.op, left.to_expr(), build.index(-gap.const))
    # The difference of two numbers may wrap around: int64's lowest is less than 1, but lowest - 1 is not below 0.
    return build.compare(expr.op, a.to_expr(), b.to_expr())


def decide(op: str, between: Interval) -> bool | None:
    """Decide `x op 0` for every x of an interval; None if it is not the same for all."""
    lo, hi = between
    opposite = {"ge": "lt", "gt": "le", "ne": "eq"}.get(op)
    if opposite is not None:
        truth = decide(opposite, between)
        return None if truth is None else not truth
    match op:
        case "lt":
            return True if hi < 0 else False if lo >= 0 else None
        case "le":
            return True if hi <= 0 else False if lo > 0 else None
        case "eq":
            return True if lo == hi == 0 else False if lo > 0 or hi < 0 else None
        case _:
            raise TypeError(f"unknown comparison {op!r}")
