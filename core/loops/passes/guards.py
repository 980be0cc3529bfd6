"""Pass: drop tests that no memory access needs, because computing a little too much is cheaper than testing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from pegbox.expr.affine import linear
from pegbox.expr.bounds import Ranges, bounds, fits
from pegbox.expr.build import all_of, conjuncts, index, sub
from pegbox.expr.low_level import stored_box
from pegbox.expr.nodes import Binary, Buffer, Compare, Const, Expr, Load, Select, Var
from pegbox.expr.visit import children as operands
from pegbox.expr.visit import free_vars, loads
from pegbox.expr.visit import walk as walk_expr
from pegbox.loops.nodes import For, ForKind, Function, If, Stmt, Store
from pegbox.loops.passes.partition import is_hinted
from pegbox.loops.visit import expressions, loop_ranges, map_children, walk


def drop_guards(func: Function) -> Function:
    """Remove the conditions of guards (`If.guard`) under which every access stays inside its buffer anyway.

    Conditions on loops that will be cut at them stay, since they make the tails shorter.
    """
    ranges = loop_ranges(func.body)
    found = [node for node in walk(func.body) if isinstance(node, For)]
    written_out = {loop.var for loop in found if loop.kind in (ForKind.VECTORIZED, ForKind.UNROLLED)}
    cut = {loop.var for loop in found if is_hinted(loop)}

    def go(stmt: Stmt) -> Stmt:
        inner = map_children(stmt, go)
        if not isinstance(inner, If) or not inner.guard:
            return inner
        escaping = list(_escaping(inner.then, ranges, written_out))
        if any(True for e in escaping for _ in loads(e)):
            # An index or divisor is read from memory: any of the conditions may keep it valid.
            return inner
        needed = cut.union(*map(free_vars, escaping))
        test = all_of([c for c in conjuncts(inner.condition) if free_vars(c) & needed])
        return inner.then if isinstance(test, Const) else If(test, inner.then, guard=True)

    return func.with_body(go(func.body))


def _escaping(stmt: Stmt, ranges: Ranges, written_out: Set[Var]) -> Iterator[Expr]:
    """Yield expressions that may fault within the loops' ranges: indices outside their buffer, and divisors of zero."""
    for node in walk(stmt):
        if isinstance(node, Store):
            yield from _outside(node.buffer, node.indices, stored_box(node.indices, node.value), ranges)
            yield from _expr_escapes(node.value, ranges, written_out)
        else:
            for expr in expressions(node):
                yield from _expr_escapes(expr, ranges, written_out)


def _expr_escapes(expr: Expr, ranges: Ranges, written_out: Set[Var]) -> Iterator[Expr]:
    match expr:
        case Load(buffer, indices):
            yield from _outside(buffer, indices, expr.box, ranges)
        case Select():
            yield from _choice_escapes(expr, ranges, written_out)
            yield from _from_memory(expr, ranges)
            return
        case Binary("floordiv" | "floormod", _, divisor) if _may_be_zero(divisor, ranges):
            # Outside the domain, the divisor may be zero, on which the machine traps.
            yield divisor
        case _:
            pass
    for operand in operands(expr):
        yield from _expr_escapes(operand, ranges, written_out)


def _choice_escapes(expr: Select, ranges: Ranges, written_out: Set[Var]) -> Iterator[Expr]:
    """Yield the variables with several values whose guards a choice may need, as its condition relies on them.

    Variables of unrolled and vectorized loops are omitted, unless a test links them with an index of the element that
    the choice's tests do not prove to be inside the buffer.
    """
    matter = free_vars(expr)
    if isinstance(expr.a, Load) and isinstance(expr.b, Const):
        tests, matter = conjuncts(expr.cond), matter - written_out
        for at, count, extent in zip(expr.a.indices, expr.a.box, expr.a.buffer.shape, strict=True):
            if not _is_inside(at, extent - count, ranges, tests):
                matter |= _linked_variables(at, tests)
        for part in (expr.cond, *expr.a.indices):  # the choice's tests do not protect their own loads and divisors
            for harm in _expr_escapes(part, ranges, written_out):
                matter |= _linked_variables(harm, tests)
    yield from (var for var in matter if var not in ranges or ranges[var][0] != ranges[var][1])


def _linked_variables(place: Expr, tests: Sequence[Expr]) -> set[Var]:
    """Return the variables of an expression, and all variables that tests connect with them."""
    found, before = free_vars(place), set[Var]()
    while found != before:
        before = found
        found = found.union(*(own for test in tests if (own := free_vars(test)) & found))
    return found


def _is_inside(place: Expr, last: int, ranges: Ranges, tests: Sequence[Expr]) -> bool:
    """Check if an index is from 0 to `last` when the tests hold."""
    return _holds("ge", place, ranges, tests) and _holds("lt", sub(place, index(last)), ranges, tests)


def _holds(op: str, value: Expr, ranges: Ranges, tests: Sequence[Expr]) -> bool:
    """Check if `value >= 0` ("ge") or `value <= 0` ("lt") holds in the loops' ranges, or follows from a test."""
    between = bounds(value, ranges)
    if between is not None and (between[0] >= 0 if op == "ge" else between[1] <= 0):
        return True
    form = linear(value)

    def implies(test: Expr) -> bool:
        if not isinstance(test, Compare) or test.op != op:
            return False
        tested = linear(test.a).minus(linear(test.b))
        apart = form.minus(tested)
        # A test `tested < 0` holds up to -1.
        close = apart.is_const and (apart.const >= 0 if op == "ge" else apart.const <= 1)
        return close and fits(form, ranges) and fits(tested, ranges)

    return any(map(implies, tests))


def _from_memory(expr: Expr, ranges: Ranges) -> Iterator[Expr]:
    """Yield the indices and divisors in an expression that are read from memory."""
    for part in walk_expr(expr):
        match part:
            case Load(_, indices):
                yield from (place for place in indices if any(True for _ in loads(place)))
            case Binary("floordiv" | "floormod", _, divisor) if any(True for _ in loads(divisor)):
                if _may_be_zero(divisor, ranges):
                    yield divisor


def _may_be_zero(divisor: Expr, ranges: Ranges) -> bool:
    between = bounds(divisor, ranges)
    return between is None or between[0] <= 0 <= between[1]


def _outside(buffer: Buffer, indices: tuple[Expr, ...], box: tuple[int, ...], ranges: Ranges) -> Iterator[Expr]:
    for place, count, extent in zip(indices, box, buffer.shape, strict=True):
        between = bounds(place, ranges)
        if between is None or between[0] < 0 or between[1] + count > extent:
            yield place
