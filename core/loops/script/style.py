"""The spelling of values in printed scripts: literals of annotations, casts, calls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pegbox.expr import dtypes
from pegbox.expr.affine import constant, linear
from pegbox.expr.nodes import Const, Expr
from pegbox.expr.printer import Style, quoted


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
    """Write a plain number where reading gives the same type back: whole numbers are indices."""
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
