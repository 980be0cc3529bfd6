"""Gates: products with a sigmoid, or with 1 + tanh, as one quotient.

    a * sigmoid(b)    = a / (1 + e^-b)
    a * (1 + tanh(b)) = 2 a / (1 + 2^(-c b)) with c = 2 log2(e)

SiLU and the approximation of GELU by tanh are such products. The quotient takes fewer operations than the function and
the product. 1 + tanh(b) has few digits where tanh(b) is near -1, so c b may be rounded once more. The factors 2 and c
go into constants where there are some.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pegbox.expr.nodes import Binary, Call, Const, Expr

NAMES = ("gate", "gate2")
"""The functions of two numbers a and b: a / (1 + e^-b) and a / (1 + 2^-b)."""


class _Gate(NamedTuple):
    """One of the functions, its second argument, and what the first one is multiplied by."""

    name: str
    argument: Expr
    factor: float


def gate(product: Binary) -> Call | None:
    """Return the call that a product of floats is, None if it is none."""
    if product.op != "mul" or product.dtype not in ("float32", "float64"):
        return None
    factors = list(_factors(product))
    found = [(number, each) for number, factor in enumerate(factors) if (each := _gate(factor)) is not None]
    if not found:
        return None
    number, chosen = found[0]
    others = [factor for place, factor in enumerate(factors) if place != number]
    return Call(chosen.name, (_times(chosen.factor, others), chosen.argument), product.dtype)


def _factors(expr: Expr) -> Iterator[Expr]:
    """Yield the factors of a product."""
    if isinstance(expr, Binary) and expr.op == "mul":
        yield from _factors(expr.a)
        yield from _factors(expr.b)
    else:
        yield expr


def _gate(factor: Expr) -> _Gate | None:
    if isinstance(factor, Call) and factor.name == "sigmoid":
        return _Gate("gate", factor.args[0], 1.0)
    if isinstance(factor, Binary) and factor.op == "add":
        for one, other in ((factor.a, factor.b), (factor.b, factor.a)):
            if isinstance(one, Const) and one.value == 1 and isinstance(other, Call) and other.name == "tanh":
                return _Gate("gate2", _times(2 / math.log(2), list(_factors(other.args[0]))), 2.0)
    return None


def _times(number: float, factors: Sequence[Expr]) -> Expr:
    """Multiply factors in their order, and a constant among them, or 1, by a number."""
    constant = next((each for each in factors if isinstance(each, Const)), Const(1.0, factors[0].dtype))
    scaled = Const(float(constant.value) * number, constant.dtype)
    others = [each for each in factors if each is not constant]
    result, *rest = others if scaled.value == 1 and others else [scaled, *others]
    for each in rest:
        result = Binary("mul", result, each)
    return result
