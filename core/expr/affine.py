"""The canonical form of index arithmetic: a sum of coefficient × term, plus a constant.

Terms are variables and what is not linear in them (floordiv, floormod, loads, casts ...), told apart by structure.
Equal index expressions have equal linear forms, which is what makes subtracting two of them useful.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pegbox.expr import build
from pegbox.expr.dtypes import INDEX
from pegbox.expr.nodes import Binary, Const, Expr, Var


@dataclass(frozen=True, slots=True)
class Linear:
    """`sum(coefficient * term) + const`; no coefficient is zero."""

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
            total = terms.get(term, 0) + coefficient * scale
            if total:
                terms[term] = total
            else:
                del terms[term]
        return Linear(terms, self.const + other.const * scale)

    def times(self, factor: int) -> Linear:
        if factor == 0:
            return Linear({}, 0)
        return Linear({t: c * factor for t, c in self.terms.items()}, self.const * factor)

    def to_expr(self) -> Expr:
        """Terms in the order in which they came, the constant last."""
        result: Expr | None = None
        for term, coefficient in self.terms.items():
            if result is None:
                result = build.mul(term, build.index(coefficient))
            elif coefficient < 0:
                result = build.sub(result, build.mul(term, build.index(-coefficient)))
            else:
                result = build.add(result, build.mul(term, build.index(coefficient)))
        if result is None:
            return build.index(self.const)
        if self.const < 0:
            return build.sub(result, build.index(-self.const))
        return build.add(result, build.index(self.const))


def constant(value: int) -> Linear:
    return Linear({}, value)


def linear(expr: Expr) -> Linear:
    """The linear form of an int64 expression; sub-expressions that are not linear become terms as they are."""
    if expr.dtype == INDEX:
        match expr:
            case Const(value):
                return Linear({}, int(value))
            case Var():
                return Linear({expr: 1}, 0)
            case Binary("add", a, b):
                return linear(a).add(linear(b))
            case Binary("sub", a, b):
                return linear(a).add(linear(b), -1)
            case Binary("mul", a, b):
                la, lb = linear(a), linear(b)
                if lb.is_const:
                    return la.times(lb.const)
                if la.is_const:
                    return lb.times(la.const)
            case _:
                pass
    return Linear({expr: 1}, 0)


def difference(a: Expr, b: Expr) -> Linear:
    """`a - b` in linear form."""
    return linear(a).add(linear(b), -1)
