"""Pass: move each test out to the innermost loop whose variable it uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pegbox.expr.build import all_of, conjuncts
from pegbox.expr.equal import same
from pegbox.expr.nodes import Expr, Load
from pegbox.expr.visit import free_vars
from pegbox.expr.visit import walk as walk_expr
from pegbox.loops.nodes import Alloc, Evaluate, For, Function, If, Seq, Stmt, Store, seq
from pegbox.loops.visit import walk


def hoist_tests(func: Function) -> Function:
    """Move the conditions of every If out of the loops that do not change them; neighbours share one test."""
    if not any(isinstance(node, If) for node in walk(func.body)):
        return func
    return func.with_body(_float(func.body).settled())


@dataclass(frozen=True)
class _Floating:
    """A statement, and the conditions under which it runs that have not found their place yet."""

    stmt: Stmt
    conditions: tuple[Expr, ...] = ()

    def settled(self) -> Stmt:
        return If(all_of(self.conditions), self.stmt) if self.conditions else self.stmt


def _float(stmt: Stmt) -> _Floating:
    match stmt:
        case If():
            inner = _float(stmt.then)
            fixed, moving = _split(conjuncts(stmt.condition), lambda c: any(isinstance(e, Load) for e in walk_expr(c)))
            if fixed:
                # An element that is read may be written in between: such a test stays where it is.
                return _Floating(If(all_of(fixed), inner.settled()), moving)
            more = (c for c in inner.conditions if not any(same(c, d) for d in moving))
            return _Floating(inner.stmt, (*moving, *more))
        case For():
            inner = _float(stmt.body)
            fixed, moving = _split(inner.conditions, lambda c: stmt.var in free_vars(c))
            return _Floating(stmt.with_body(_Floating(inner.stmt, fixed).settled()), moving)
        case Alloc(buffer, body):
            inner = _float(body)
            return _Floating(Alloc(buffer, inner.stmt), inner.conditions)
        case Seq(stmts):
            return _sequence([_float(s) for s in stmts])
        case Store() | Evaluate():
            return _Floating(stmt)
        case _:
            raise TypeError(f"unknown statement {type(stmt).__name__}")


def _sequence(parts: list[_Floating]) -> _Floating:
    """Put neighbours under the same conditions under one test; conditions that all share float on."""
    groups: list[_Floating] = []
    for part in parts:
        if groups and _equal(groups[-1].conditions, part.conditions):
            groups[-1] = _Floating(seq(groups[-1].stmt, part.stmt), part.conditions)
        else:
            groups.append(part)
    if len(groups) == 1:
        return groups[0]
    return _Floating(seq(*(group.settled() for group in groups)))


def _split(conditions: tuple[Expr, ...], stays: Callable[[Expr], bool]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """(those that stay, those that move on)."""
    fixed = tuple(c for c in conditions if stays(c))
    return fixed, tuple(c for c in conditions if not any(c is f for f in fixed))


def _equal(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    return len(a) == len(b) and all(any(same(c, d) for d in b) for c in a)
