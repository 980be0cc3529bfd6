"""Expressions as text, with the fewest parentheses that keep the meaning."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from pegbox.expr.low_level import EXTERN, Address, Broadcast, Reinterpret, Stride, VectorLoad
from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var

_BINARY: dict[str, tuple[str, int]] = {
    "add": ("+", 5), "sub": ("-", 5), "mul": ("*", 6), "div": ("/", 6), "floordiv": ("//", 6), "floormod": ("%", 6),
}  # fmt: skip
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def unused_name(name: str, taken: Container[str]) -> str:
    """The name, numbered if it is taken: `k`, `k_1`, `k_2`."""
    unused, count = name, 0
    while unused in taken:
        count += 1
        unused = f"{name}_{count}"
    return unused


def show(expr: Expr, names: Mapping[Any, str] | None = None, outer: int = 0) -> str:
    """Python-like text of `expr`; `names` overrides names (to tell apart variables or buffers that share one)."""
    match expr:
        case Const(value, dtype):
            if dtype in ("int64", "float32", "bool"):
                return repr(value)
            return f"{dtype}({value!r})"
        case Var(name):
            return names.get(expr, name) if names else name
        case Binary(op, a, b) if op in _BINARY:
            sign, level = _BINARY[op]
            return _wrap(f"{show(a, names, level)} {sign} {show(b, names, level + 1)}", level, outer)
        case Binary(op, a, b):
            return f"{op}({show(a, names)}, {show(b, names)})"
        case Compare(op, a, b):
            return _wrap(f"{show(a, names, 5)} {_COMPARE[op]} {show(b, names, 5)}", 4, outer)
        case Logic(op, a, b):
            level = 2 if op == "and" else 1
            return _wrap(f"{show(a, names, level)} {op} {show(b, names, level + 1)}", level, outer)
        case Not(a):
            return _wrap(f"not {show(a, names, 3)}", 3, outer)
        case Select(cond, a, b):
            return f"select({show(cond, names)}, {show(a, names)}, {show(b, names)})"
        case Cast(dtype, a):
            return f"{dtype}({show(a, names)})"
        case Call(name, args) if name.startswith((EXTERN, "llvm.")):
            label, how = name.removeprefix(EXTERN), "call_extern" if name.startswith(EXTERN) else "call_llvm"
            return f"{how}({', '.join([repr(expr.dtype), repr(label), *(show(a, names) for a in args)])})"
        case Call(name, args):
            return f"{name}({', '.join(show(a, names) for a in args)})"
        case Address(buffer, indices, extents, access):
            return f"address({_box(buffer, indices, extents, names)}, {access!r})"
        case VectorLoad(buffer, indices, lanes):
            return _box(buffer, indices, expr.box, names)
        case Stride(buffer, dim):
            return f"stride({names.get(buffer, buffer.name) if names else buffer.name}, {dim})"
        case Broadcast(a, lanes):
            return f"broadcast({show(a, names)}, {lanes})"
        case Reinterpret(dtype, a):
            return f"reinterpret({dtype!r}, {show(a, names)})"
        case Load(buffer, indices):
            label = names.get(buffer, buffer.name) if names else buffer.name
            return f"{label}[{', '.join(show(i, names) for i in indices)}]"
        case _:
            return object.__repr__(expr) if not hasattr(expr, "show") else expr.show(names)


def _box(buffer: Buffer, indices: tuple[Expr, ...], box: tuple[int, ...], names: Mapping[Any, str] | None) -> str:
    """`A[i, j:j + 16]`, with the lowest index alone where one element is touched."""
    label = names.get(buffer, buffer.name) if names else buffer.name
    parts = (
        show(i, names) if n == 1 else f"{show(i, names)}:{show(i + n, names)}"
        for i, n in zip(indices, box, strict=True)
    )
    return f"{label}[{', '.join(parts)}]"


def _wrap(text: str, level: int, outer: int) -> str:
    return f"({text})" if level < outer else text
