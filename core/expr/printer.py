"""Expressions as text, with the fewest parentheses that keep the meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegbox.expr.nodes import Binary, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var

_BINARY: dict[str, tuple[str, int]] = {
    "add": ("+", 5), "sub": ("-", 5), "mul": ("*", 6), "div": ("/", 6), "floordiv": ("//", 6), "floormod": ("%", 6),
}  # fmt: skip
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


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
        case Call(name, args):
            return f"{name}({', '.join(show(a, names) for a in args)})"
        case Load(buffer, indices):
            label = names.get(buffer, buffer.name) if names else buffer.name
            return f"{label}[{', '.join(show(i, names) for i in indices)}]"
        case _:
            return object.__repr__(expr) if not hasattr(expr, "show") else expr.show(names)


def _wrap(text: str, level: int, outer: int) -> str:
    return f"({text})" if level < outer else text
