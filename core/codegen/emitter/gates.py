"""Gates and decays, each computed by one function: products with sigmoids, 1 + tanh or 1 + erf, and powers with
exponents up to 0.

    a * sigmoid(b)        = a / (1 + e^-b)
    k * a * (1 + tanh(b)) = 2 k a / (1 + 2^(-c b)) with c = 2 log2(e)
    a * (1 + erf(b))      = a + a erf(b), and gelu(x) where a = x / 2 and b = x / sqrt(2)
    exp2(b)               = 2^b, where b = -abs(c) or b = nonpositive(c)
    exp(b)                = e^b, for the same b

SiLU, GELU and its approximation by tanh are such products. The quotient takes fewer operations than the function and
the product do. So does the sum, because the error of its erf only has to be small relative to 1, not to erf. 1 +
tanh(b) has few correct digits where tanh(b) is near -1, so c b may be rounded once more.

Other factors keep their order: another order could overflow or give zero where the program's does not. The 2 goes into
a constant k that keeps the numerator from overflow, |2 k| <= 1; without such a constant, tanh stays.

In GELU, both factors depend on the same x; with AVX2, this saves an operation for the sign and a product.

The last two, decays, are between 0 and 1; on targets without an instruction for exponents, this saves the operations
that guard against overflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pegbox.expr.equal import same
from pegbox.expr.nodes import Binary, Call, Const, Expr

NAMES = ("gate", "gate2", "erf_gate", "gelu", "decay", "exp_decay")
"""The functions a / (1 + e^-b), a / (1 + 2^-b) and a (1 + erf(b)); GELU, and 2^b and e^b for b up to 0."""

_DECAYS = {"exp2": "decay", "exp": "exp_decay"}


def fused(expr: Expr) -> Expr:
    """Return the call that replaces a gate or a decay; return any other expression unchanged."""
    found = gate(expr) if isinstance(expr, Binary) else decay(expr) if isinstance(expr, Call) else None
    return expr if found is None else found


def decay(call: Call) -> Call | None:
    """Return the call that replaces a power of 2 or e whose exponent cannot be positive; None for other calls."""
    if call.name not in _DECAYS or call.dtype not in ("float32", "float64"):
        return None
    (exponent,) = call.args
    if isinstance(exponent, Call) and exponent.name == "nonpositive":
        return Call(_DECAYS[call.name], exponent.args, call.dtype)
    size = _scaled(exponent, -1.0, most=1.0)
    if isinstance(size, Call) and size.name == "abs":
        return Call(_DECAYS[call.name], (exponent,), call.dtype)
    return None


def gate(product: Binary) -> Call | None:
    """Return the call that replaces a product of floats; None if the product is not a gate."""
    if product.op != "mul" or product.dtype not in ("float32", "float64"):
        return None
    for a, b in (*_sides(product), *_around_constants(product)):
        if (x := _gelu_of(a, b)) is not None:
            return Call("gelu", (x,), product.dtype)
    for a, b in _sides(product):
        if isinstance(b, Call) and b.name == "sigmoid":
            return Call("gate", (a, b.args[0]), product.dtype)
        erf = _after_one(b, "erf")
        if erf is not None:
            return Call("erf_gate", (a, erf.args[0]), product.dtype)
    for a, b in (*_sides(product), *_around_constants(product)):
        exponent = _exponent(b)
        if exponent is not None and (doubled := _scaled(a, 2.0, most=1.0)) is not None:
            return Call("gate2", (doubled, exponent), product.dtype)
    return None


def _gelu_of(a: Expr, b: Expr) -> Expr | None:
    """Find x, where a = x / 2 and b = 1 + erf(x / sqrt(2)); None for other factors."""
    erf, x = _after_one(b, "erf"), _scaled(a, 2.0, most=1.0)
    if erf is None or x is None:
        return None
    inner = erf.args[0]
    if not isinstance(inner, Binary) or inner.op not in ("mul", "div"):
        return None
    for k, other in _sides(inner) if inner.op == "mul" else ((inner.b, inner.a),):
        if isinstance(k, Const) and k.value and same(other, x):
            factor = float(k.value) if inner.op == "mul" else 1 / float(k.value)
            if abs(factor / math.sqrt(0.5) - 1) <= np.finfo(x.dtype).eps:
                return x
    return None


def _sides(product: Binary) -> tuple[tuple[Expr, Expr], tuple[Expr, Expr]]:
    return (product.a, product.b), (product.b, product.a)


def _around_constants(product: Binary) -> Iterator[tuple[Expr, Expr]]:
    """Yield k a and b for k (a b), where k is a constant."""
    for k, other in _sides(product):
        if isinstance(k, Const) and isinstance(other, Binary) and other.op == "mul":
            yield from ((Binary("mul", k, a), b) for a, b in _sides(other))


def _exponent(factor: Expr) -> Expr | None:
    """Return c b for a factor 1 + tanh(b); None for other factors."""
    tanh = _after_one(factor, "tanh")
    if tanh is None:
        return None
    b, c = tanh.args[0], 2 / math.log(2)
    scaled = _scaled(b, c, most=1e30)
    return Binary("mul", Const(c, b.dtype), b) if scaled is None else scaled


def _after_one(factor: Expr, name: str) -> Call | None:
    """Find the call f(b) in a factor 1 + f(b); None for other factors."""
    if not isinstance(factor, Binary) or factor.op != "add":
        return None
    for one, other in _sides(factor):
        if isinstance(one, Const) and one.value == 1 and isinstance(other, Call) and other.name == name:
            return other
    return None


def _scaled(expr: Expr, number: float, *, most: float) -> Expr | None:
    """Multiply the constant that `expr` is, or has as a factor; None if it is missing, tiny or gets above `most`."""
    if isinstance(expr, Const):
        value = float(expr.value)
        fits = abs(value) >= np.finfo(expr.dtype).tiny and abs(value * number) <= most
        return Const(value * number, expr.dtype) if fits else None
    if not isinstance(expr, Binary) or expr.op != "mul":
        return None
    for k, other in _sides(expr):
        scaled = _scaled(k, number, most=most) if isinstance(k, Const) else None
        if isinstance(scaled, Const):
            return other if scaled.value == 1 else Binary("mul", scaled, other)
    return None
