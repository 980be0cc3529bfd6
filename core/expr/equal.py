"""Structural equality of expressions."""

from __future__ import annotations

import math

from pegbox.expr.low_level import Address, Broadcast, Reinterpret, Stride
from pegbox.expr.nodes import Binary, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select


def _uses(address: Address) -> object:
    return address.access, address.strides


def same_number(a: float, b: float) -> bool:
    """Equality of the values of two constants: NaN is NaN here, and the two zeros are different."""
    if not isinstance(a, float) or not isinstance(b, float):
        return a == b
    return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)


def same(a: object, b: object) -> bool:
    """Structural equality; variables, buffers and reductions are compared by identity."""
    if a is b:
        return True
    if not isinstance(a, Expr) or type(a) is not type(b):
        return False
    match a, b:
        case Const(), Const():
            return a.dtype == b.dtype and same_number(a.value, b.value)
        case Binary() | Compare() | Logic(), Binary() | Compare() | Logic():
            return a.op == b.op and same(a.a, b.a) and same(a.b, b.b)
        case Not(), Not():
            return same(a.a, b.a)
        case Cast(), Cast():
            return a.dtype == b.dtype and same(a.a, b.a)
        case Select(), Select():
            return same(a.cond, b.cond) and same(a.a, b.a) and same(a.b, b.b)
        case Call(), Call():
            return (
                a.name == b.name
                and a.dtype == b.dtype
                and len(a.args) == len(b.args)
                and all(map(same, a.args, b.args))
            )
        case Load(), Load():
            return (
                a.buffer is b.buffer
                and all(map(same, a.indices, b.indices))
                and a.box == b.box
                and not (isinstance(a, Address) and isinstance(b, Address) and _uses(a) != _uses(b))
            )
        case Stride(), Stride():
            return a.buffer is b.buffer and a.dim == b.dim
        case Broadcast() | Reinterpret(), Broadcast() | Reinterpret():
            return a.dtype == b.dtype and same(a.a, b.a)
        case _:
            # Variables, and reductions, which belong to the compute graph.
            return False
