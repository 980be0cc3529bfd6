"""Expressions as script."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pegbox.expr import dtypes
from pegbox.expr.affine import constant, linear
from pegbox.expr.intrinsics import ARITY
from pegbox.expr.low_level import EXTERN, Address, Broadcast, Reinterpret, Stride, VectorLoad
from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var
from pegbox.loops.nodes import Region
from pegbox.loops.script.names import Names

_BINARY = {
    "add": ("+", 5), "sub": ("-", 5), "mul": ("*", 6), "div": ("/", 6), "floordiv": ("//", 6), "floormod": ("%", 6),
}  # fmt: skip
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def show(expr: Expr, names: Names, outer: int = 0) -> str:
    """The text of an expression; `outer` is how tightly what stands around it binds."""
    match expr:
        case Const():
            return _number(expr)
        case Var():
            return names[expr]
        case Binary(op, a, b) if op in _BINARY:
            sign, level = _BINARY[op]
            return _wrap(f"{show(a, names, level)} {sign} {show(b, names, level + 1)}", level, outer)
        case Compare(op, a, b):
            return _wrap(f"{show(a, names, 5)} {_COMPARE[op]} {show(b, names, 5)}", 4, outer)
        case Logic(op, a, b):
            level = 2 if op == "and" else 1
            return _wrap(f"{show(a, names, level)} {op} {show(b, names, level + 1)}", level, outer)
        case Not(a):
            return _wrap(f"not {show(a, names, 3)}", 3, outer)
        case Load():
            return _load(expr, names)
        case Stride(buffer, dim):
            return f"{names[buffer]}.strides[{dim}]"
        case _:
            return _word(expr, names)


def _word(expr: Expr, names: Names) -> str:
    """What is written as a call of one of T's names."""
    match expr:
        case Binary(op, a, b):
            word, parts = op, [a, b]
        case Select(cond, a, b):
            word, parts = "if_then_else", [cond, a, b]
        case Cast(dtype, a):
            return f"T.Cast({_quoted(dtype)}, {show(a, names)})"
        case Broadcast(a, lanes):
            return f"T.Broadcast({show(a, names)}, {lanes})"
        case Reinterpret(dtype, a):
            return f"T.reinterpret({_quoted(dtype)}, {show(a, names)})"
        case Call(name, args):
            if name not in ARITY:
                return _call(expr, names)
            word, parts = name, list(args)
        case _:
            raise TypeError(f"unknown expression {type(expr).__name__}")
    return f"T.{word}({', '.join(show(part, names) for part in parts)})"


def _call(expr: Call, names: Names) -> str:
    """Calls of machine code, with their type and name as text."""
    word, name = "call_intrin", expr.name
    if name.startswith(EXTERN):
        word, name = "call_extern", name.removeprefix(EXTERN)
    elif name.startswith("llvm."):
        word = "call_llvm_intrin"
    return f"T.{word}({', '.join([_quoted(expr.dtype), _quoted(name), *(show(a, names) for a in expr.args)])})"


def _load(expr: Load, names: Names) -> str:
    match expr:
        case Address(buffer, indices, extents, access):
            return f"T.address({box(buffer, indices, extents, names)}, {_quoted(access)})"
        case VectorLoad(buffer, indices):
            return box(buffer, indices, expr.box, names)
        case _:
            return box(expr.buffer, expr.indices, (1,) * len(expr.indices), names)


def region(area: Region, names: Names) -> str:
    return box(area.buffer, tuple(lo for lo, _ in area.box), tuple(count for _, count in area.box), names)


def box(buffer: Buffer, indices: tuple[Expr, ...], extents: tuple[int, ...], names: Names) -> str:
    """`A[i, j:j + 16]`, with the lowest index alone where there is one element."""
    parts = [
        show(lo, names) if count == 1 else f"{show(lo, names)}:{show(linear(lo).add(constant(count)).to_expr(), names)}"
        for lo, count in zip(indices, extents, strict=True)
    ]
    return f"{names[buffer]}[{', '.join(parts) or '()'}]"


def _number(expr: Const) -> str:
    """Plain where reading gives the same type back: whole numbers are indices."""
    if expr.dtype in (dtypes.INDEX, "bool"):
        return repr(expr.value)
    value = float(expr.value)
    if dtypes.is_float(expr.dtype) and not math.isfinite(value):
        return f'T.{expr.dtype}("{value}")'
    return f"T.{expr.dtype}({expr.value!r})"


def literal(value: Any) -> str:
    """Annotations and attributes: numbers, strings, and tuples or dictionaries of them."""
    if isinstance(value, tuple | list):
        inner = ", ".join(map(literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool) or value is None:
        return repr(value)
    number = dtypes.integer(value)
    if number is not None:
        return repr(number)
    return repr(float(value)) if math.isfinite(value) else f'float("{float(value)}")'


def _quoted(text: str) -> str:
    """In double quotes, as people write it, where that needs no escapes."""
    plain = text.isprintable() and '"' not in text and "\\" not in text
    return f'"{text}"' if plain else repr(text)


def _wrap(text: str, level: int, outer: int) -> str:
    return f"({text})" if level < outer else text
