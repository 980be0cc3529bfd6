"""Patterns are found in expressions of the same operations only."""

from __future__ import annotations

from pegbox.expr import build
from pegbox.expr.nodes import Buffer, Load, Var
from pegbox.expr.unify import unify

A, B = Var("a"), Var("b")
X = Load(Buffer("x", (4,), "int64"), (build.ZERO,))
Y = Load(Buffer("y", (4,), "int64"), (build.ZERO,))


def _found(pattern: build.Expr, expr: build.Expr) -> list[str]:
    return [str(found[B]) for found in unify([pattern], [expr], {A: X}, frozenset({B}))]


def test_operands_may_be_exchanged() -> None:
    assert _found(build.maximum(A, B), build.maximum(X, Y)) == ["y[0]"]
    assert _found(build.maximum(A, B), build.maximum(Y, X)) == ["y[0]"]
    assert _found(build.compare("lt", A, B), build.compare("gt", Y, X)) == ["y[0]"]


def test_another_operation_is_no_match() -> None:
    inner = build.minimum(Y, build.const(3))
    assert _found(build.minimum(A, B), build.maximum(X, inner)) == []
    assert _found(build.add(A, B), build.mul(X, Y)) == []
    assert _found(build.compare("lt", A, B), build.compare("ge", X, Y)) == []
    assert _found(build.logical_and(A > B, A < B), build.logical_or(X > Y, X < Y)) == []


def test_difference_is_not_commutative() -> None:
    assert _found(build.sub(A, B), build.sub(Y, X)) == []
