"""Pass: partition loops into parts with and without tests.

A split that does not divide leaves `outer * factor + inner < extent` around the work. Only the last outer iteration can
fail it, so the loop is cut there: the full tiles run without a test, and in the tail the outer variable is a constant,
so that the inner loop simply becomes shorter. Tests on lanes of a vectorized loop stay masks. But such a loop also
becomes shorter if each term of a sum would load and store a masked vector, or if masked lanes would gather elements of
rows that fewer lanes could load and transpose.

A loop with the pragma `loop_partition_hint` is also cut where conditions of `Select` change. Then only the last of many
tiles computes padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from pegbox.expr.affine import Linear, linear
from pegbox.expr.bounds import Interval, fits, linear_bounds
from pegbox.expr.build import add, compare, conjuncts, index
from pegbox.expr.dtypes import INDEX
from pegbox.expr.low_level import Stride
from pegbox.expr.nodes import Binary, Buffer, Compare, Const, Expr, Load, Logic, Select, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import free_vars, loads, rewrite
from pegbox.expr.visit import walk as walk_expr
from pegbox.loops.nodes import Alloc, Evaluate, For, ForKind, Function, If, Seq, Stmt, Store, seq
from pegbox.loops.passes.unused_buffer import drop_unused
from pegbox.loops.reductions.update import update
from pegbox.loops.visit import children, expressions, loop_ranges, map_present, walk

HINT = "pragma_loop_partition_hint"
"""The annotation of a loop that is cut where conditions of expressions begin or cease to hold."""
_HOT = 8  # a test is worth peeling if it guards at least this fraction (1 / _HOT) of the loop's work
_CHEAP = 2048  # the number of stores under one test for which its cost is negligible
_ANYWHERE = (0, 1 << 62)  # the range of a condition that never ceases to hold
_GROWTH = 6  # the largest growth of a program; beyond it, tests stay
_SHORT = 30  # the stores that a program may always have: nine pieces of a tile, with borders on all sides

_Solution: TypeAlias = tuple[tuple[int, int], tuple[int, int]]


def partition_loops(func: Function) -> Function:
    """Cut loops so that their main parts run without costly tests."""
    if any(isinstance(node, If) or is_hinted(node) for node in walk(func.body)):
        # A part may lack the only reader of a buffer.
        return drop_unused(func.with_body(_Partition(func.body).stmt(func.body) or Seq(())))
    return func


@dataclass(frozen=True, slots=True)
class _Summary:
    """The content of a statement.

    Attributes:
        stores: the number of its stores.
        work: the number of stores that it executes if every condition holds.
        tests: its tests, each with its If and the number of times that this runs.
        is_plain: True if it contains no tests, allocations or loops with a hint.
    """

    stores: int = 1
    work: int = 1
    tests: tuple[tuple[Compare | Logic, If, int], ...] = ()
    is_plain: bool = True


_STORE = _Summary()


def _summarize(stmt: Stmt, found: dict[int, _Summary]) -> _Summary:
    """Summarize a statement and all below it, by their ids."""
    below = [_summarize(each, found) for each in children(stmt)]
    if not below and not isinstance(stmt, Seq):
        made = _STORE
    else:
        times = stmt.extent if isinstance(stmt, For) else 1
        parts = conjuncts(stmt.condition) if isinstance(stmt, If) else ()
        own = [(part, stmt, 1) for part in parts if isinstance(part, Compare | Logic) and isinstance(stmt, If)]
        made = _Summary(
            sum([each.stores for each in below]),
            sum([each.work for each in below]) * times,
            (*own, *((test, guarded, runs * times) for each in below for test, guarded, runs in each.tests)),
            not (isinstance(stmt, If | Alloc) or is_hinted(stmt)) and all(each.is_plain for each in below),
        )
    found[id(stmt)] = made
    return made


class _Partition:
    """A walk from the outside in that writes each part out.

    Conditions are solved for the variables of the original program: `ranges` has their values in the part being written
    (just one, for a peeled iteration). `mapping` and `buffers` give the variables' values and the buffers' substitutes
    in the result.
    """

    def __init__(self, body: Stmt) -> None:
        # Keyed by the ids of the original program's statements, which stay alive.
        self.summary: dict[int, _Summary] = {}
        self.stores = _summarize(body, self.summary).stores
        self.limit = max(_GROWTH * self.stores, _SHORT)
        self.domain = loop_ranges(body)
        self.ranges: dict[Var, Interval] = {}
        self.mapping: dict[Var, Expr] = {}
        self.buffers: dict[Buffer, Buffer] = {}
        self.copying = False
        self.choosing = False  # True in a loop with a hint, where choices of expressions may be decided
        self.differences: dict[int, Linear | None] = {}  # keyed by the id of a test

    def stmt(self, stmt: Stmt) -> Stmt | None:
        if self.summary[id(stmt)].is_plain and not self.copying and self.is_identity:
            return stmt
        match stmt:
            case For():
                return self.loop(stmt)
            case If():
                return self.test(stmt)
            case Alloc():
                return self.alloc(stmt)
            case Store(buffer, indices, value):
                if self.is_identity:
                    return stmt
                return Store(self.buffers.get(buffer, buffer), tuple(map(self.expr, indices)), self.expr(value))
            case Evaluate(expr):
                return Evaluate(self.expr(expr))
            case _:
                return map_present(stmt, self.stmt)

    @property
    def is_identity(self) -> bool:
        """True if expressions do not change."""
        return not (self.mapping or self.buffers or self.choosing)

    def expr(self, expr: Expr) -> Expr:
        """Write an expression in the result's variables and buffers."""
        if self.is_identity:
            return expr

        def leaf(e: Expr) -> Expr | None:
            if isinstance(e, Var):
                return self.mapping.get(e, e)
            if isinstance(e, Load):
                return e.at(self.buffers.get(e.buffer, e.buffer), tuple(map(self.expr, e.indices)))
            if isinstance(e, Stride):
                return Stride(self.buffers.get(e.buffer, e.buffer), e.dim)
            if isinstance(e, Select):
                known = simplify(e.cond, self.ranges)
                return self.expr(e.a if known.value else e.b) if isinstance(known, Const) else None
            return linear(rewrite(e, in_index)).to_expr() if isinstance(e, Binary) and e.dtype == INDEX else None

        def in_index(e: Expr) -> Expr | None:
            return leaf(e) if isinstance(e, Var | Load | Stride) else None

        return rewrite(expr, leaf)

    def test(self, test: If) -> Stmt | None:
        condition = simplify(test.condition, self.ranges)
        if isinstance(condition, Const):
            return self.stmt(test.then) if condition.value else None
        then = self.stmt(test.then)
        return None if then is None else If(self.expr(condition), then, test.guard)

    def alloc(self, alloc: Alloc) -> Stmt | None:
        buffer = alloc.buffer
        if self.copying:
            buffer = Buffer(buffer.name, buffer.shape, buffer.dtype, buffer.scope)
            self.buffers[alloc.buffer] = buffer
        body = self.stmt(alloc.body)
        self.buffers.pop(alloc.buffer, None)
        return None if body is None else Alloc(buffer, body)

    def loop(self, loop: For) -> Stmt | None:
        if loop.kind is ForKind.VECTORIZED:
            return self.part(loop, 0, self.lanes(loop))
        cuts = self.cuts(loop)
        if cuts is None:
            return self.part(loop, 0, loop.extent)
        parts = list(pairwise(cuts))
        self.stores += (len(parts) - 1) * self.summary[id(loop)].stores
        if loop.kind is ForKind.PARALLEL:
            return self.branches(loop, parts)
        done = self.each(parts, lambda first, end: self.part(loop, first, end))
        return seq(*done) if done else None

    def each(self, parts: list[tuple[int, int]], write: Callable[[int, int], Stmt | None]) -> list[Stmt]:
        """Write the parts, the longest first, so that it may grow before little room is left for the others.

        All other parts get fresh variables and buffers.
        """
        outer = self.copying
        found: dict[int, Stmt] = {}
        for first, end in sorted(parts, key=lambda part: part[0] - part[1]):
            if (done := write(first, end)) is not None:
                found[first] = done
            self.copying = True
        self.copying = outer
        return [found[first] for first, _ in parts if first in found]

    def part(self, loop: For, first: int, end: int) -> Stmt | None:
        """Write the loop over [first, end)."""
        var = loop.var.copy() if self.copying else loop.var
        self.ranges[loop.var] = (first, end - 1)
        if end - first == 1 < loop.extent:
            self.mapping[loop.var] = index(first)
        elif first > 0 or self.copying:
            self.mapping[loop.var] = add(var, index(first))
        outer, self.choosing = self.choosing, self.choosing or is_hinted(loop)
        body = self.stmt(loop.body)
        self.choosing = outer
        self.mapping.pop(loop.var, None)
        if body is None or end - first == 1 < loop.extent:
            return body
        kind = loop.kind
        if kind is ForKind.UNROLLED and end - first < loop.extent and _only_reduces(loop):
            # The rest of a reduction runs once per tile; written out, it would only cost compile time.
            kind = ForKind.SERIAL
        return For(var, end - first, body, kind, loop.annotations)

    def lanes(self, loop: For) -> int:
        """Return the number of lanes of a vectorized loop, without the last ones if a test excludes them.

        Sums in memory and loads across rows lose these lanes. Sums in registers lose them only if half of the lanes
        remain: a register holds a whole vector or half of one. A single sum keeps all lanes.
        """
        lanes, tests, stmt = loop.extent, list(_tests_around(loop.body)), _tested(loop.body)
        if not tests or not (_is_sum(stmt, loop.var) or _is_across(stmt, loop.var)):
            return lanes
        fixed = {v: r for v, r in self.ranges.items() if r[0] == r[1]}
        for part in (part for test in tests for part in conjuncts(test.condition)):
            solved = self.solved(part, loop.var, fixed) if isinstance(part, Compare) else None
            if solved is not None and solved[0] == solved[1] == (0, solved[0][1]):
                lanes = min(lanes, solved[0][1])
        if _is_local_sum(stmt, loop.var) and 2 * lanes != loop.extent:
            return loop.extent
        return lanes or loop.extent

    def branches(self, loop: For, parts: list[tuple[int, int]]) -> Stmt | None:
        """Turn the parts into branches of a parallel loop, which stays whole, or its tail would run on one thread."""
        var = loop.var.copy() if self.copying else loop.var

        def branch(first: int, end: int) -> Stmt | None:
            self.ranges[loop.var] = (first, end - 1)
            self.mapping[loop.var] = index(first) if end - first == 1 else var
            body = self.stmt(loop.body)
            del self.mapping[loop.var]
            if body is not None and end < loop.extent:
                body = If(compare("lt", var, index(end)), body)
            if body is not None and first > 0:
                body = If(compare("ge", var, index(first)), body)
            return body

        found = self.each(parts, branch)
        return For(var, loop.extent, seq(*found), loop.kind, loop.annotations) if found else None

    def cuts(self, loop: For) -> list[int] | None:
        """Find the iterations where tests on this loop's variable begin or cease to hold; None to leave it uncut."""
        body = self.summary[id(loop.body)]
        choices = list(_choices(loop.body)) if is_hinted(loop) else []
        first_choices = [test for test, is_first in choices if is_first]
        tests = [*first_choices, *(test for test, *_ in body.tests)] if is_hinted(loop) else self.hot(body)
        if not tests:
            return None
        inner = loop_ranges(loop.body)
        constant, fixed = _variables_written_out(loop), {v for v, r in self.ranges.items() if r[0] == r[1]}
        of_lanes = {id(test) for test, guarded, _ in body.tests if constant and _shortens_vectors(loop, test, guarded)}
        # For inner loops, `ranges` may still hold those of a part that was written before.
        scope = {**{v: r for v, r in self.ranges.items() if r[0] == r[1]}, **inner}
        end = loop.extent
        always, sometimes = (0, end), (0, end)
        for test in tests:
            if constant and free_vars(test) - fixed <= constant and id(test) not in of_lanes:
                continue
            solved = self.solved(test, loop.var, scope)
            if solved is not None:
                always, sometimes = _common(always, solved[0]), _common(sometimes, solved[1])
        later = [self.solved(test, loop.var, scope) for test, is_first in choices if not is_first]
        more = {point for solved in later if solved is not None for interval in solved for point in interval}
        for found in {*always, *sometimes, *more}, {*always, *sometimes}:
            points = sorted({0, *(min(point, end) for point in found), end})
            if len(points) > 2 and self.stores + (len(points) - 2) * body.stores <= self.limit:
                return points
        return None

    def hot(self, body: _Summary) -> list[Compare | Logic]:
        """List the tests that take a noticeable part of a loop body's time."""
        works = [(test, self.summary[id(guarded)].work, runs) for test, guarded, runs in body.tests]
        return [test for test, work, runs in works if work < _CHEAP and runs * work * _HOT >= body.work]

    def solved(self, test: Compare | Logic, var: Var, scope: dict[Var, Interval]) -> _Solution | None:
        """Solve a test as `_solve` does; an `or` always holds if one of its sides does."""
        if isinstance(test, Compare):
            gap = self.difference(test)
            return None if gap is None else _solve(test.op, gap, var, scope)
        if isinstance(simplify(test, scope), Const):
            return None
        sides = [self.solved(side, var, scope) for side in (test.a, test.b) if isinstance(side, Compare)]
        return next(((found[0], _ANYWHERE) for found in sides if found is not None), None)

    def difference(self, test: Compare) -> Linear | None:
        """Subtract the right side from the left one; None if one may wrap around.

        Cached, as every loop around a test asks.
        """
        if id(test) not in self.differences:
            a, b = linear(test.a), linear(test.b)
            exact = fits(a, self.domain) and fits(b, self.domain)
            self.differences[id(test)] = a.add(b, -1) if exact else None
        return self.differences[id(test)]


def _variables_written_out(loop: For) -> set[Var]:
    """Return the variables of the loop and of inner ones that are constants in the written-out code."""
    kinds = ForKind.UNROLLED, ForKind.VECTORIZED
    inside = {s.var for s in walk(loop) if isinstance(s, For) and s.kind in kinds}
    return inside if loop.var in inside else set()


def _common(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    lo = max(a[0], b[0])
    return lo, max(lo, min(a[1], b[1]))


def _solve(op: str, form: Linear, var: Var, scope: dict[Var, Interval]) -> _Solution | None:
    """Solve the test `form op 0` for `var`: the range [lo, hi) in which it always holds, and one outside which never.

    "Always" and "never" refer to all values of the other variables; None if the test is not affine in them.
    """
    coefficient = form.coefficient(var)
    if coefficient == 0 or op not in ("lt", "le", "gt", "ge"):
        return None
    between = linear_bounds(form.add(linear(var), -coefficient), scope)
    if between is None:
        return None
    low, high = between
    # Bring the test to the form: coefficient * var + rest <= 0.
    if op in ("gt", "ge"):
        coefficient, low, high = -coefficient, -high, -low
    if op in ("lt", "gt"):
        low, high = low + 1, high + 1
    return _at_most_zero(coefficient, high), _at_most_zero(coefficient, low)


def _at_most_zero(coefficient: int, rest: int) -> tuple[int, int]:
    """Return the v >= 0 with `coefficient * v + rest <= 0`, as a range [lo, hi)."""
    if coefficient > 0:
        return 0, max(-rest // coefficient + 1, 0)
    return max(-(-rest // -coefficient), 0), 1 << 62


def _tests_around(stmt: Stmt) -> Iterator[If]:
    """Yield the tests directly around a statement, the outer ones first."""
    while isinstance(stmt, If):
        yield stmt
        stmt = stmt.then


def _tested(stmt: Stmt) -> Stmt:
    """Return the statement inside all tests that are directly around it."""
    tests = list(_tests_around(stmt))
    return tests[-1].then if tests else stmt


def _is_sum(stmt: Stmt, lane: Var) -> bool:
    """Check if each lane adds to its own element."""
    if not isinstance(stmt, Store) or update(stmt) is None:
        return False
    return any(lane in free_vars(each) for each in stmt.indices)


def _is_local_sum(stmt: Stmt, lane: Var) -> bool:
    return isinstance(stmt, Store) and stmt.buffer.scope == "local" and _is_sum(stmt, lane)


def _shortens_vectors(loop: For, test: Compare | Logic, guarded: If) -> bool:
    """Check if a test excludes lanes of a sum in a vectorized loop inside this one."""
    lanes = (each.var for each in walk(loop.body) if isinstance(each, For) and each.kind is ForKind.VECTORIZED)
    return any(lane in free_vars(test) and _is_sum(_tested(guarded), lane) for lane in lanes)


def _is_across(stmt: Stmt, lane: Var) -> bool:
    """Check if each lane stores elements that it loads from its own row."""
    return isinstance(stmt, Store) and any(
        not any(lane in free_vars(index) for index in load.indices[-1:])
        and any(lane in free_vars(index) for index in load.indices[:-1])
        for load in loads(stmt.value)
    )


def is_hinted(stmt: Stmt) -> bool:
    """Decide if a statement is a loop with the pragma `loop_partition_hint`."""
    return isinstance(stmt, For) and (HINT, True) in stmt.annotations


def _choices(stmt: Stmt) -> Iterator[tuple[Compare, bool]]:
    """Yield each condition on loop variables that an expression's choice depends on, with True for a first choice.

    The others matter if the choice before them fails, as in a concatenation of three arrays.
    """
    for node in walk(stmt):
        for expr in expressions(node):
            choices = [each for each in walk_expr(expr) if isinstance(each, Select)]
            later = {id(each.b) for each in choices}
            for choice in choices:
                for test in conjuncts(choice.cond):
                    if isinstance(test, Compare) and test.a.dtype == INDEX:
                        yield test, id(choice) not in later


def _only_reduces(loop: For) -> bool:
    """Check if every iteration writes the same elements."""
    stores = (node for node in walk(loop.body) if isinstance(node, Store))
    return not any(loop.var in free_vars(i) for store in stores for i in store.indices)
