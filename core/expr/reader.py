"""Reader of Python arithmetic and conditions; subclasses give names their meaning and allow operations."""

from __future__ import annotations

import ast
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn, TypeAlias

from pegbox.expr import build
from pegbox.expr.nodes import CompareOp, Expr
from pegbox.expr.operators import COMPARE

# For Python's values, and for operands that include an expression.
Operation: TypeAlias = tuple[Callable[..., Any], Callable[..., Expr]]
Operations: TypeAlias = Mapping[type[ast.AST], Operation]

_COMPARISONS: dict[type[ast.AST], CompareOp] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip

ARITHMETIC: Operations = {
    ast.Add: (operator.add, build.add),
    ast.Sub: (operator.sub, build.sub),
    ast.Mult: (operator.mul, build.mul),
    ast.FloorDiv: (operator.floordiv, build.floordiv),
    ast.Mod: (operator.mod, build.floormod),
    ast.USub: (operator.neg, build.neg),
}
CONDITIONS: Operations = {
    **{kind: (COMPARE[name], partial(build.compare, name)) for kind, name in _COMPARISONS.items()},
    ast.Not: (operator.not_, build.logical_not),
    ast.And: (all, build.logical_and),
    ast.Or: (any, build.logical_or),
}


class Reader(ABC):
    """A reader that evaluates syntax; `operations` are the allowed ones."""

    operations: ClassVar[Operations] = ARITHMETIC

    @abstractmethod
    def name(self, node: ast.Name | ast.Attribute) -> Any:
        """Look up the meaning of a name."""

    @abstractmethod
    def refuse(self, node: ast.AST, operation: ast.AST | None = None) -> NoReturn:
        """Raise the error for disallowed syntax, because of an operation in it or as a whole."""

    def constant(self, node: ast.Constant) -> Any:
        return build.index(node.value) if type(node.value) is int else self.refuse(node)

    def checked(self, node: ast.AST, value: Any) -> Any:
        """Return the value as an operand."""
        return value

    def guarded(self, node: ast.AST, action: Callable[..., Any], *args: Any) -> Any:
        """Run a function that may refuse its arguments."""
        return action(*args)

    def other(self, node: ast.expr) -> Any:
        """Return the value of syntax that is neither arithmetic nor a condition."""
        self.refuse(node)

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name() | ast.Attribute():
                return self.name(node)
            case ast.BinOp(left, op, right):
                return self._apply(node, op, (left, right), (self.value(left), self.value(right)))
            case ast.UnaryOp(op, operand):
                return self._apply(node, op, (operand,), (self.value(operand),))
            case ast.BoolOp():
                return self._logic(node)
            case ast.Compare():
                return self._comparison(node)
            case _:
                return self.other(node)

    def _apply(self, node: ast.AST, op: ast.AST, parts: Sequence[ast.expr], values: Sequence[Any]) -> Any:
        plain, combine = self.operations.get(type(op)) or self.refuse(node, op)
        action = combine if isinstance(values[0], Expr) or isinstance(values[-1], Expr) else plain
        return self.guarded(node, action, *map(self.checked, parts, values))

    def _logic(self, node: ast.BoolOp) -> Any:
        plain, combine = self.operations.get(type(node.op)) or self.refuse(node, node.op)
        values = [self.value(part) for part in node.values]
        if not any(isinstance(value, Expr) for value in values):
            return plain(values)
        result = values[0]
        for part, value in zip(node.values[1:], values[1:], strict=True):
            result = self.guarded(part, combine, result, self.checked(part, value))
        return result

    def _comparison(self, node: ast.Compare) -> Any:
        """Evaluate a comparison, including chains: `0 <= x < n`."""
        sides = [node.left, *node.comparators]
        values = [self.value(side) for side in sides]
        parts = [self._apply(node, op, sides[n : n + 2], values[n : n + 2]) for n, op in enumerate(node.ops)]
        return parts[0] if len(parts) == 1 else self.guarded(node, build.all_of, parts)
