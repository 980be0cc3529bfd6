"""The spelling of names and values in printed scripts: literals in annotations, casts and calls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pegbox.compute.printer import identifier as python_name
from pegbox.expr import dtypes
from pegbox.expr.affine import constant, linear
from pegbox.expr.nodes import Buffer, Const, Expr, Var
from pegbox.expr.printer import Style, quoted, unused_name


def literal(value: Any) -> str:
    """Write an annotation or attribute: a number, a string, or a tuple or dictionary of these."""
    if isinstance(value, tuple | list):
        inner = ", ".join(map(literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool) or value is None:
        return repr(value)
    number = dtypes.integer(value)
    if number is not None:
        return repr(number)
    return repr(float(value)) if math.isfinite(value) else f'float("{float(value)}")'


def _number(expr: Const) -> str:
    """Write a plain number if reading it gives the same type back: whole numbers are indices."""
    if expr.dtype in (dtypes.INDEX, "bool"):
        return repr(expr.value)
    value = float(expr.value)
    if dtypes.is_float(expr.dtype) and not math.isfinite(value):
        return f'T.{expr.dtype}("{value}")'
    return f"T.{expr.dtype}({expr.value!r})"


def _end(lowest: Expr, count: int) -> Expr:
    return linear(lowest).add(constant(count)).to_expr()


SCRIPT = Style(
    literal=_number,
    quote=quoted,
    end=_end,
    prefix="T.",
    select="if_then_else",
    broadcast="Broadcast",
    cast="Cast",
    call="call_intrin",
    call_llvm="call_llvm_intrin",
    stride="{}.strides[{}]",
    no_index="()",
)

# Names that a program may not use: the script's words, and the builtins that it prints.
_RESERVED = frozenset({"T", "I", "range", "float"})


def identifier(name: str) -> str:
    """Return the name in the form that a script accepts."""
    plain = python_name(name)
    return f"{plain}_" if plain in _RESERVED else plain


class Names:
    """The names in scope; a name that is declared while a `scope()` is open leaves with it."""

    def __init__(self) -> None:
        self._names: dict[Var | Buffer, str] = {}
        self._visible: list[str] = []

    def __getitem__(self, what: Var | Buffer) -> str:
        # Objects that the program does not declare keep their names: such a text is only meant for people.
        return self._names.get(what) or identifier(what.name)

    def declare(self, what: Var | Buffer) -> str:
        name = unused_name(identifier(what.name), self._visible)
        self._names[what] = name
        self._visible.append(name)
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        depth = len(self._visible)
        yield
        del self._visible[depth:]
