"""Conditions on thread axes as text: "threadIdx.x == 0 and threadIdx.y < 4"."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar, NoReturn

from pegbox.errors import ExprError
from pegbox.expr import build
from pegbox.expr.nodes import Expr
from pegbox.expr.reader import ARITHMETIC, CONDITIONS, Operations, Reader


def read_condition(text: str, axes: Mapping[str, Expr]) -> Expr:
    """The condition, with `axes` for what it calls threadIdx.x and so on.

    Raises:
        ValueError: it is not a condition, or speaks of something else than the axes; the message says of what.
    """
    try:
        found: Expr = _Condition(axes).value(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"{text!r} is not a condition") from error
    except ExprError as error:
        raise ValueError(str(error)) from error
    if found.dtype != "bool":
        raise ValueError(f"{text!r} is a number, not a condition")
    return found


class _Condition(Reader):
    operations: ClassVar[Operations] = {**ARITHMETIC, **CONDITIONS}

    def __init__(self, axes: Mapping[str, Expr]) -> None:
        self.axes = axes

    def constant(self, node: ast.Constant) -> Expr:
        return build.const(node.value, "bool") if isinstance(node.value, bool) else super().constant(node)

    def name(self, node: ast.Name | ast.Attribute) -> Expr:
        name = ast.unparse(node)
        if name not in self.axes:
            known = f"bound are {', '.join(self.axes)}" if self.axes else "no loop around it is bound"
            raise ValueError(f"no loop around the block is bound to {name}; {known}")
        return self.axes[name]

    def refuse(self, node: ast.AST, operation: ast.AST | None = None) -> NoReturn:
        if operation is None:
            raise ValueError(f"{ast.unparse(node)} does not compare thread axes with numbers")
        raise ValueError(f"{type(operation).__name__} has no place in a condition on threads")
