"""Conditions on thread axes as text: "threadIdx.x == 0 and threadIdx.y < 4"."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from pegbox.expr import build
from pegbox.expr.nodes import Expr

_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip


def read_condition(text: str, axes: Mapping[str, Expr]) -> Expr:
    """The condition, with `axes` for what it calls threadIdx.x and so on.

    Raises:
        ValueError: it is not a condition, or speaks of something else than the axes; the message says of what.
    """
    try:
        parsed = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{text!r} is not a condition") from error
    found = _read(parsed, axes)
    if found.dtype != "bool":
        raise ValueError(f"{text!r} is a number, no condition")
    return found


def _read(node: ast.expr, axes: Mapping[str, Expr]) -> Expr:
    match node:
        case ast.Name() | ast.Attribute():
            name = ast.unparse(node)
            if name not in axes:
                known = f"bound are {', '.join(axes)}" if axes else "no loop around it is bound"
                raise ValueError(f"no loop around the block is bound to {name}; {known}")
            return axes[name]
        case ast.Constant(bool() as value):
            return build.const(value, "bool")
        case ast.Constant(int() as value):
            return build.index(value)
        case ast.BoolOp(op, values):
            parts = [_read(v, axes) for v in values]
            return build.all_of(parts) if isinstance(op, ast.And) else build.any_of(parts)
        case ast.UnaryOp(ast.Not(), inner):
            return build.logical_not(_read(inner, axes))
        case ast.UnaryOp(ast.USub(), inner):
            return -_read(inner, axes)
        case ast.Compare(left, ops, others):
            sides = [_read(n, axes) for n in (left, *others)]
            pairs = zip(ops, sides[:-1], sides[1:], strict=True)
            return build.all_of([build.compare(_COMPARE[type(op)], a, b) for op, a, b in pairs if type(op) in _COMPARE])
        case ast.BinOp(a, op, b):
            return _arithmetic(op, _read(a, axes), _read(b, axes))
        case _:
            raise ValueError(f"{ast.unparse(node)} is not a comparison of thread axes and numbers")


def _arithmetic(op: ast.operator, a: Expr, b: Expr) -> Expr:
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv():
            return a // b
        case ast.Mod():
            return a % b
        case _:
            raise ValueError(f"{type(op).__name__} has no place in a condition on threads")
