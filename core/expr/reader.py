"""Values of Python's syntax for arithmetic and conditions; who reads says what names mean and what is allowed."""

from __future__ import annotations

import ast
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NoReturn, TypeAlias

from pegbox.expr import build
from pegbox.expr.nodes import Expr
from pegbox.expr.operators import COMPARE

# Of Python's values, and as soon as an expression is among the operands.
Operation: TypeAlias = tuple[Callable[..., Any], Callable[..., Expr]]
Operations: TypeAlias = Mapping[type[ast.AST], Operation]

_COMPARISONS: dict[type[ast.AST], str] = {
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
    ast.And: (lambda *values: all(values), build.logical_and),
    ast.Or: (lambda *values: any(values), build.logical_or),
}


class Reader(ABC):
    """Evaluates syntax; `operations` are those that are allowed."""

    operations: ClassVar[Operations] = ARITHMETIC

    @abstractmethod
    def name(self, node: ast.Name | ast.Attribute) -> Any:
        """What a name means."""

    @abstractmethod
    def refuse(self, node: ast.AST, operation: ast.AST | None = None) -> NoReturn:
        """Raise the error for syntax that is not allowed, because of an operation in it or as a whole."""

    def constant(self, node: ast.Constant) -> Any:
        return build.index(node.value) if type(node.value) is int else self.refuse(node)

    def checked(self, node: ast.AST, value: Any) -> Any:
        """The value as an operand."""
        return value

    def guarded(self, node: ast.AST, action: Callable[..., Any], *args: Any) -> Any:
        """Run what may refuse its arguments."""
        return action(*args)

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name() | ast.Attribute():
                return self.name(node)
            case ast.BinOp(left, op, right):
                return self._apply(node, op, (left, self.value(left)), (right, self.value(right)))
            case ast.UnaryOp(op, operand):
                return self._apply(node, op, (operand, self.value(operand)))
            case ast.BoolOp():
                return self._logic(node)
            case ast.Compare():
                return self._comparison(node)
            case _:
                self.refuse(node)

    def _apply(self, node: ast.AST, op: ast.AST, *operands: tuple[ast.expr, Any]) -> Any:
        plain, combine = self._operation(node, op)
        values = [self.checked(place, value) for place, value in operands]
        return self.guarded(node, combine if _has_expr(values) else plain, *values)

    def _operation(self, node: ast.AST, op: ast.AST) -> Operation:
        return self.operations.get(type(op)) or self.refuse(node, op)

    def _logic(self, node: ast.BoolOp) -> Any:
        plain, combine = self._operation(node, node.op)
        values = [self.value(part) for part in node.values]
        if not _has_expr(values):
            return plain(*values)
        result = values[0]
        for part, value in zip(node.values[1:], values[1:], strict=True):
            result = self.guarded(part, combine, result, self.checked(part, value))
        return result

    def _comparison(self, node: ast.Compare) -> Any:
        """Chains too: `0 <= x < n`."""
        sides = [(side, self.value(side)) for side in (node.left, *node.comparators)]
        parts = [self._apply(node, op, *sides[n : n + 2]) for n, op in enumerate(node.ops)]
        return parts[0] if len(parts) == 1 else self.guarded(node, build.all_of, parts)


def _has_expr(values: list[Any]) -> bool:
    return any(isinstance(value, Expr) for value in values)
