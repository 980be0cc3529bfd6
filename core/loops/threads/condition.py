"""Conditions on thread axes: as text, "threadIdx.x == 0 and threadIdx.y < 4", or as a value, `tx.var.equal(0)`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar, NoReturn

from pegbox.errors import ExprError
from pegbox.expr import build
from pegbox.expr.nodes import Call, Expr, Load
from pegbox.expr.printer import show
from pegbox.expr.reader import ARITHMETIC, CONDITIONS, Operations, Reader
from pegbox.expr.visit import free_vars, substitute, walk
from pegbox.loops.threads.axis import ThreadAxis


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


def condition_text(condition: Expr) -> str:
    """A condition on thread axes as the text of it."""
    return show(condition, {axis: axis.thread_tag for axis in free_vars(condition) if isinstance(axis, ThreadAxis)})


def bound_condition(condition: Expr, axes: Mapping[str, Expr]) -> Expr:
    """The condition, with `axes` in the place of its thread axes.

    Raises:
        ValueError: it is not a condition, or speaks of something else than the axes; the message says of what.
    """
    if condition.dtype != "bool":
        raise ValueError(f"{condition_text(condition)!r} is a number, not a condition")
    for node in walk(condition):
        if isinstance(node, Load | Call):
            raise ValueError(f"{node} does not compare thread axes with numbers")
    values = {var: _axis(getattr(var, "thread_tag", var.name), axes) for var in free_vars(condition)}
    return substitute(condition, values)


def _axis(name: str, axes: Mapping[str, Expr]) -> Expr:
    if name not in axes:
        known = f"bound are {', '.join(axes)}" if axes else "no loop around it is bound"
        raise ValueError(f"no loop around the block is bound to {name}; {known}")
    return axes[name]


class _Condition(Reader):
    operations: ClassVar[Operations] = {**ARITHMETIC, **CONDITIONS}

    def __init__(self, axes: Mapping[str, Expr]) -> None:
        self.axes = axes

    def constant(self, node: ast.Constant) -> Expr:
        return build.const(node.value, "bool") if isinstance(node.value, bool) else super().constant(node)

    def name(self, node: ast.Name | ast.Attribute) -> Expr:
        return _axis(ast.unparse(node), self.axes)

    def refuse(self, node: ast.AST, operation: ast.AST | None = None) -> NoReturn:
        if operation is None:
            raise ValueError(f"{ast.unparse(node)} does not compare thread axes with numbers")
        raise ValueError(f"{type(operation).__name__} has no place in a condition on threads")
