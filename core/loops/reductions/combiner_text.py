"""Combiners as nested tuples of strings, for annotations: hashable, printed and read back.

("select", ("ge", "a1", "b1"), "a0", "b0"), ("max", "a1", "b1")        argmax
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pegbox.errors import PegboxError
from pegbox.expr import build
from pegbox.expr.nodes import Binary, Call, Cast, Compare, Const, Expr, Logic, Not, Select, Var

_READ: dict[str, Callable[[str], int | float | bool]] = {"bool": lambda text: text == "True"}
_BUILD: dict[str, Callable[..., Expr]] = {
    "add": build.add, "sub": build.sub, "mul": build.mul, "div": build.div, "floordiv": build.floordiv,
    "floormod": build.floormod, "min": build.minimum, "max": build.maximum, "and": build.logical_and,
    "or": build.logical_or, "not": build.logical_not, "select": build.select,
}  # fmt: skip
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")


def encode(values: Sequence[Expr], names: Mapping[Var, str]) -> tuple[Any, ...] | None:
    """Write the expressions as tuples; None if they are not arithmetic on these variables."""
    try:
        return tuple(_encode(value, names) for value in values)
    except LookupError:
        return None


def _encode(expr: Expr, names: Mapping[Var, str]) -> Any:
    match expr:
        case Var():
            return names[expr]
        case Const(value, dtype):
            return ("const", dtype, repr(value))
        case Binary(op, a, b) | Compare(op, a, b) | Logic(op, a, b):
            return (op, _encode(a, names), _encode(b, names))
        case Not(a):
            return ("not", _encode(a, names))
        case Select(cond, a, b):
            return ("select", _encode(cond, names), _encode(a, names), _encode(b, names))
        case Cast(dtype, a):
            return ("cast", dtype, _encode(a, names))
        case Call(name, args, dtype):
            return ("call", name, dtype, *(_encode(a, names) for a in args))
        case _:
            raise LookupError(type(expr).__name__)


def decode(coded: Any, variables: Mapping[str, Var]) -> tuple[Expr, ...] | None:
    """Invert `encode`; None for other values than combinations of these variables."""
    try:
        return tuple(_decode(each, variables) for each in coded)
    except (LookupError, TypeError, ValueError, PegboxError):
        return None


def _decode(coded: Any, variables: Mapping[str, Var]) -> Expr:
    if isinstance(coded, str):
        return variables[coded]
    head, *rest = coded
    if head == "const":
        dtype, text = rest
        read = _READ.get(dtype, float if dtype.startswith(("float", "bfloat")) else int)
        return Const(read(text), dtype)
    if head == "cast":
        return Cast(rest[0], _decode(rest[1], variables))
    if head == "call":
        name, dtype, *args = rest
        return Call(name, tuple(_decode(a, variables) for a in args), dtype)
    parts = [_decode(part, variables) for part in rest]
    return build.compare(head, *parts) if head in _COMPARE else _BUILD[head](*parts)
