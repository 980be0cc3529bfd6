"""Loop partition: peel the iterations that need a test from those that do not.

A split that does not divide leaves `outer * factor + inner < extent` around the work. Only the last outer iteration
can fail it, so the loop is cut there: the full tiles run without a test, and in the tail the outer variable is a
constant, so that the inner loop simply becomes shorter. What concerns lanes of a vectorized loop stays a mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pegbox.expr.affine import linear
from pegbox.expr.bounds import Interval, linear_bounds
from pegbox.expr.build import add, compare, conjuncts, index
from pegbox.expr.nodes import Buffer, Compare, Const, Expr, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import loads, substitute
from pegbox.loops.nodes import Alloc, For, ForKind, Function, If, Seq, Stmt, Store, seq
from pegbox.loops.visit import map_children, map_exprs, replace_buffer, walk

_HOT = 8  # a test is worth peeling when it guards at least one part in this many of the loop's work
_CHEAP = 2048  # stores that one test guards from where on it costs nothing
_GROWTH = 6  # how many times longer a program may get; beyond, tests stay


def partition_loops(func: Function) -> Function:
    """Cut loops so that their main part runs without the tests that cost something there."""
    if any(isinstance(node, If) for node in walk(func.body)):
        return func.with_body(_Partition(_count(func.body)).stmt(func.body) or Seq(()))
    return func


def _count(stmt: Stmt) -> int:
    return sum(isinstance(node, Store) for node in walk(stmt))


def _work(stmt: Stmt) -> int:
    """Stores executed, as if every condition held."""
    match stmt:
        case For():
            return stmt.extent * _work(stmt.body)
        case Seq(stmts):
            return sum(map(_work, stmts))
        case If():
            return _work(stmt.then)
        case Alloc():
            return _work(stmt.body)
        case Store():
            return 1
        case _:
            raise TypeError(f"unknown statement {type(stmt).__name__}")


class _Partition:
    """Walks from the outside in; `ranges` holds the loops around, singletons for peeled iterations."""

    def __init__(self, stores: int) -> None:
        self.ranges: dict[Var, Interval] = {}
        self.stores = stores
        self.limit = _GROWTH * stores

    def stmt(self, stmt: Stmt) -> Stmt | None:
        match stmt:
            case For():
                return self.loop(stmt)
            case If():
                condition = simplify(stmt.condition, self.ranges)
                if isinstance(condition, Const):
                    return self.stmt(stmt.then) if condition.value else None
                then = self.stmt(stmt.then)
                return None if then is None else If(condition, then, stmt.guard)
            case Seq(stmts):
                parts = [new for s in stmts if (new := self.stmt(s)) is not None]
                return seq(*parts) if parts else None
            case Alloc(buffer, body):
                new = self.stmt(body)
                if new is not None and not _is_read(new, buffer):
                    # What read it ran in no iteration of this part, and so need not be computed either.
                    return _without_stores(new, buffer)
                return None if new is None else Alloc(buffer, new)
            case Store():
                return stmt
            case _:
                raise TypeError(f"unknown statement {type(stmt).__name__}")

    def loop(self, loop: For) -> Stmt | None:
        cuts = None if loop.kind is ForKind.VECTORIZED else self.cuts(loop)
        if cuts is None:
            self.ranges[loop.var] = (0, loop.extent - 1)
            body = self.stmt(loop.body)
            return None if body is None else loop.with_body(body)
        parts = list(pairwise(cuts))
        self.stores += (len(parts) - 1) * _count(loop.body)
        if loop.kind is ForKind.PARALLEL:
            return self.branches(loop, parts)
        done = [self.part(loop, a, b) for a, b in parts]
        return seq(*found) if (found := [part for part in done if part is not None]) else None

    def part(self, loop: For, first: int, end: int) -> Stmt | None:
        """The loop over [first, end), with variables of its own."""
        var = loop.var.copy()
        body = _fresh(loop.body)
        self.ranges[var] = (0, end - first - 1)
        body = _substitute(body, {loop.var: add(var, index(first)) if end - first > 1 else index(first)})
        done = self.stmt(body)
        if done is None or end - first == 1:
            return done
        return For(var, end - first, done, loop.kind, loop.annotations)

    def branches(self, loop: For, parts: list[tuple[int, int]]) -> Stmt | None:
        """A parallel loop stays one loop, or its tail would run on one thread; the parts become branches."""
        found: list[Stmt] = []
        for first, end in parts:
            self.ranges[loop.var] = (first, end - 1)
            body = _fresh(loop.body)
            done = self.stmt(_substitute(body, {loop.var: index(first)}) if end - first == 1 else body)
            if done is not None:
                found.append(self.only(loop.var, first, end, loop.extent, done))
        self.ranges[loop.var] = (0, loop.extent - 1)
        return loop.with_body(seq(*found)) if found else None

    @staticmethod
    def only(var: Var, first: int, end: int, extent: int, body: Stmt) -> Stmt:
        if end < extent:
            body = If(compare("lt", var, index(end)), body)
        if first > 0:
            body = If(compare("ge", var, index(first)), body)
        return body

    def cuts(self, loop: For) -> list[int] | None:
        """Where the tests on this loop's variable begin or cease to hold; None if the loop is best left alone."""
        inner = {s.var: (0, s.extent - 1) for s in walk(loop.body) if isinstance(s, For)}
        scope = {**inner, **{v: r for v, r in self.ranges.items() if r[0] == r[1]}}
        end = loop.extent
        always, sometimes = (0, end), (0, end)
        total = _work(loop.body)
        for test, guarded in _tests(loop.body):
            solved = _solve(test, loop.var, scope)
            if solved is None or _work(guarded.then) >= _CHEAP:
                continue
            if _work_of(loop.body, guarded) * _HOT >= total:
                always, sometimes = _common(always, solved[0]), _common(sometimes, solved[1])
        points = sorted({0, *(min(p, end) for p in (*always, *sometimes)), end})
        too_big = self.stores + (len(points) - 2) * _count(loop.body) > self.limit
        return None if len(points) == 2 or too_big else points


def _common(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    lo = max(a[0], b[0])
    return lo, max(lo, min(a[1], b[1]))


def _tests(stmt: Stmt) -> Iterator[tuple[Compare, If]]:
    for node in walk(stmt):
        if isinstance(node, If):
            yield from ((c, node) for c in conjuncts(node.condition) if isinstance(c, Compare))


def _work_of(body: Stmt, target: Stmt) -> int:
    """Work done under `target` in one run of `body`."""

    def go(stmt: Stmt) -> int:
        if stmt is target:
            return _work(stmt)
        match stmt:
            case For():
                return stmt.extent * go(stmt.body)
            case Seq(stmts):
                return sum(map(go, stmts))
            case If():
                return go(stmt.then)
            case Alloc():
                return go(stmt.body)
            case _:
                return 0

    return go(body)


def _solve(test: Compare, var: Var, scope: dict[Var, Interval]) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Two ranges [lo, hi) of `var`: where the test always holds, and outside which it never does.

    "Always" and "never" speak of all values of the other variables; None if the test is not affine in them.
    """
    form = linear(test.a).add(linear(test.b), -1)
    coefficient = form.coefficient(var)
    if coefficient == 0 or test.op not in ("lt", "le", "gt", "ge"):
        return None
    between = linear_bounds(form.add(linear(var), -coefficient), scope)
    if between is None:
        return None
    low, high = between
    # Bring the test to the form: coefficient * var + rest <= 0.
    if test.op in ("gt", "ge"):
        coefficient, low, high = -coefficient, -high, -low
    if test.op in ("lt", "gt"):
        low, high = low + 1, high + 1
    return _at_most_zero(coefficient, high), _at_most_zero(coefficient, low)


def _at_most_zero(coefficient: int, rest: int) -> tuple[int, int]:
    """The v >= 0 with `coefficient * v + rest <= 0`, as a range [lo, hi)."""
    if coefficient > 0:
        return 0, max(-rest // coefficient + 1, 0)
    return max(-(-rest // -coefficient), 0), 1 << 62


def _is_read(stmt: Stmt, buffer: Buffer) -> bool:
    return any(
        load.buffer is buffer
        for node in walk(stmt)
        for expr in _reads(node)
        for load in loads(expr)
        # An accumulation reads its own buffer, which nobody else may ever look at.
        if not (isinstance(node, Store) and node.buffer is buffer)
    )


def _reads(stmt: Stmt) -> tuple[Expr, ...]:
    match stmt:
        case Store(_, indices, value):
            return (*indices, value)
        case If():
            return (stmt.condition,)
        case _:
            return ()


def _without_stores(stmt: Stmt, buffer: Buffer) -> Stmt | None:
    match stmt:
        case Store():
            return None if stmt.buffer is buffer else stmt
        case For():
            body = _without_stores(stmt.body, buffer)
            return None if body is None else stmt.with_body(body)
        case If():
            then = _without_stores(stmt.then, buffer)
            return None if then is None else If(stmt.condition, then, stmt.guard)
        case Alloc():
            inner = _without_stores(stmt.body, buffer)
            return None if inner is None else Alloc(stmt.buffer, inner)
        case Seq(stmts):
            parts = [new for s in stmts if (new := _without_stores(s, buffer)) is not None]
            return seq(*parts) if parts else None
        case _:
            raise TypeError(f"unknown statement {type(stmt).__name__}")


def _substitute(stmt: Stmt, mapping: dict[Var, Expr]) -> Stmt:
    return map_exprs(stmt, lambda e: simplify(substitute(e, mapping), {}))


def _fresh(stmt: Stmt) -> Stmt:
    """A copy with loop variables and allocated buffers of its own."""
    variables: dict[Var, Expr] = {}
    buffers: dict[Buffer, Buffer] = {}
    for node in walk(stmt):
        if isinstance(node, For):
            variables[node.var] = node.var.copy()
        elif isinstance(node, Alloc):
            old = node.buffer
            buffers[old] = Buffer(old.name, old.shape, old.dtype, old.scope)

    def rename(node: Stmt) -> Stmt:
        inner = map_children(node, rename)
        if isinstance(inner, For):
            var = variables[inner.var]
            assert isinstance(var, Var)
            return For(var, inner.extent, inner.body, inner.kind, inner.annotations)
        return inner

    renamed = map_exprs(rename(stmt), lambda e: substitute(e, variables))
    return replace_buffer(renamed, buffers) if buffers else renamed
