"""Pass: drop tests that memory does not need, because computing a little too much is cheaper than testing."""

from __future__ import annotations

from collections.abc import Iterator

from pegbox.expr.bounds import Ranges, bounds
from pegbox.expr.build import all_of, conjuncts
from pegbox.expr.low_level import stored_box
from pegbox.expr.nodes import Binary, Buffer, Const, Expr, Load, Select
from pegbox.expr.visit import children as operands
from pegbox.expr.visit import free_vars, loads
from pegbox.expr.visit import walk as walk_expr
from pegbox.loops.nodes import For, Function, If, Stmt, Store
from pegbox.loops.passes.partition import is_hinted
from pegbox.loops.visit import expressions, loop_ranges, map_children, walk


def drop_guards(func: Function) -> Function:
    """Remove the conditions of guards (`If.guard`) under which every access stays inside its buffer anyway.

    Those on loops that will be cut for them stay: their tails become shorter.
    """
    ranges = loop_ranges(func.body)
    cut = {node.var for node in walk(func.body) if isinstance(node, For) and is_hinted(node)}

    def go(stmt: Stmt) -> Stmt:
        inner = map_children(stmt, go)
        if not isinstance(inner, If) or not inner.guard:
            return inner
        escaping = list(_escaping(inner.then, ranges))
        if any(True for e in escaping for _ in loads(e)):
            # It depends on data: every condition may keep it sane.
            return inner
        needed = cut.union(*map(free_vars, escaping))
        test = all_of([c for c in conjuncts(inner.condition) if free_vars(c) & needed])
        return inner.then if isinstance(test, Const) else If(test, inner.then, guard=True)

    return func.with_body(go(func.body))


def _escaping(stmt: Stmt, ranges: Ranges) -> Iterator[Expr]:
    """Yield expressions that may do harm within the loops' ranges: indices outside their buffer, divisors of zero."""
    for node in walk(stmt):
        if isinstance(node, Store):
            yield from _outside(node.buffer, node.indices, stored_box(node.indices, node.value), ranges)
            yield from _expr_escapes(node.value, ranges)
        else:
            for expr in expressions(node):
                yield from _expr_escapes(expr, ranges)


def _expr_escapes(expr: Expr, ranges: Ranges) -> Iterator[Expr]:
    match expr:
        case Load(buffer, indices):
            yield from _outside(buffer, indices, expr.box, ranges)
        case Select():
            # Its own condition protects the loads, however they look: all variables but fixed ones may matter. It
            # does not protect from values in memory.
            for var in free_vars(expr):
                between = ranges.get(var)
                if between is None or between[0] != between[1]:
                    yield var
            yield from _from_memory(expr, ranges)
            return
        case Binary("floordiv" | "floormod", _, divisor) if _may_be_zero(divisor, ranges):
            # Outside the domain it may be anything, and the machine traps.
            yield divisor
        case _:
            pass
    for operand in operands(expr):
        yield from _expr_escapes(operand, ranges)


def _from_memory(expr: Expr, ranges: Ranges) -> Iterator[Expr]:
    """Yield indices and divisors in an expression that are data."""
    for part in walk_expr(expr):
        match part:
            case Load(_, indices):
                yield from (index for index in indices if any(True for _ in loads(index)))
            case Binary("floordiv" | "floormod", _, divisor) if any(True for _ in loads(divisor)):
                if _may_be_zero(divisor, ranges):
                    yield divisor


def _may_be_zero(divisor: Expr, ranges: Ranges) -> bool:
    between = bounds(divisor, ranges)
    return between is None or between[0] <= 0 <= between[1]


def _outside(buffer: Buffer, indices: tuple[Expr, ...], box: tuple[int, ...], ranges: Ranges) -> Iterator[Expr]:
    for index, count, extent in zip(indices, box, buffer.shape, strict=True):
        between = bounds(index, ranges)
        if between is None or between[0] < 0 or between[1] + count > extent:
            yield index
