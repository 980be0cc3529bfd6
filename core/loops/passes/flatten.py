"""Pass: replace blocks by their bodies, with bound variables and predicates as conditions."""

from __future__ import annotations

from pegbox.expr.bounds import Ranges
from pegbox.expr.build import all_of, conjuncts
from pegbox.expr.low_level import PREFETCH
from pegbox.expr.nodes import Call, Const, Expr, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.access.region import written
from pegbox.loops.nodes import Annotation, BlockRealize, Evaluate, For, Function, If, Seq, Stmt, Store
from pegbox.loops.passes.domain import leaves_domain, overrun_is_disjoint, written_in_parts
from pegbox.loops.passes.partition import HINT
from pegbox.loops.passes.prefetch import AMONG, NOTE, SHARED
from pegbox.loops.visit import map_children, map_present, walk

_OF_ONE_LOOP = (NOTE, SHARED, AMONG, HINT)  # annotations that do not apply to inner loops


def flatten_blocks(func: Function) -> Function:
    """Replace blocks by plain statements, and remove loops of one iteration."""
    return func.with_body(_Flatten(func).stmt(func.body) or Seq(()))


class Simplifier:
    """A simplifier of plain loops, given the ranges of the loops around; it removes statements that never run."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = dict(ranges)

    def expr(self, expr: Expr) -> Expr:
        return simplify(expr, self.ranges)

    def stmt(self, stmt: Stmt) -> Stmt | None:
        """Return the simplified statement, or None if it never runs."""
        match stmt:
            case For():
                return self.loop(stmt)
            case If(condition, then, guard):
                return self.guarded(self.expr(condition), then, guard)
            case Store(buffer, indices, value):
                return Store(buffer, tuple(map(self.expr, indices)), self.expr(value))
            case Evaluate(expr):
                return Evaluate(self.expr(expr))
            case _:
                return map_present(stmt, self.stmt)

    def loop(self, loop: For) -> Stmt | None:
        self.ranges[loop.var] = (0, loop.extent - 1)
        body = self.stmt(loop.body)
        if body is None or loop.extent > 1 or loop.kind.is_bound:
            return None if body is None else loop.with_body(body)
        return _inherited(body, loop.annotations) if loop.annotations else body

    def guarded(self, condition: Expr, then: Stmt, guard: bool) -> Stmt | None:
        if isinstance(condition, Const):
            return self.stmt(then) if condition.value else None
        body = self.stmt(then)
        return None if body is None else If(condition, body, guard)


class _Flatten(Simplifier):
    """A walk with the `ranges` of the surrounding loops and the `binding` of the block variables in scope."""

    def __init__(self, func: Function) -> None:
        super().__init__({})
        self.intermediates = set(func.allocs) - written_in_parts(func)
        self.binding: dict[Var, Expr] = {}

    def expr(self, expr: Expr) -> Expr:
        return super().expr(substitute(expr, self.binding) if self.binding else expr)

    def stmt(self, stmt: Stmt) -> Stmt | None:
        return self.realize(stmt) if isinstance(stmt, BlockRealize) else super().stmt(stmt)

    def is_private(self, stmt: Stmt) -> bool:
        """Check if a statement itself accesses only intermediates; a C function may access anything."""
        if isinstance(stmt, Evaluate) and not (isinstance(stmt.expr, Call) and stmt.expr.name == PREFETCH):
            return False
        return all(region.buffer in self.intermediates for region in written(stmt))

    def realize(self, realize: BlockRealize) -> Stmt | None:
        block = realize.block
        conditions = [self.expr(c) for c in conjuncts(realize.predicate)]
        outer = self.binding
        values = [self.expr(value) for value in realize.values]
        self.binding = {**outer, **{it.var: value for it, value in zip(block.iters, values, strict=True)}}
        body = self.stmt(block.body)
        self.binding = outer
        if body is None:
            return None
        reducing = {v for it, value in zip(block.iters, values, strict=True) if it.is_reduce for v in free_vars(value)}
        private = all(self.is_private(s) for s in walk(block.body))
        spatial = [(v, it) for it, v in zip(block.iters, values, strict=True) if not it.is_reduce]

        def only_guards(condition: Expr) -> bool:
            if not private or free_vars(condition) & reducing:
                return False
            # Only elements that are never read may be written beyond the domain.
            return any(
                leaves_domain(condition, value, it.extent, self.ranges) and overrun_is_disjoint(block, it)
                for value, it in spatial
            )

        guards: list[Expr] = []
        tests: list[Expr] = []
        for condition in conditions:
            (guards if only_guards(condition) else tests).append(condition)
        for guard, own in ((True, guards), (False, tests)):
            together = all_of(own)
            if isinstance(together, Const):
                if not together.value:
                    return None
            else:
                body = If(together, body, guard)
        return body


def _inherited(stmt: Stmt, annotations: tuple[Annotation, ...]) -> Stmt:
    """Move the annotations of a removed loop to the loops directly inside it."""
    if isinstance(stmt, For):
        return For(stmt.var, stmt.extent, stmt.body, stmt.kind, _merge(annotations, stmt.annotations))
    return map_children(stmt, lambda child: _inherited(child, annotations))


def _merge(outer: tuple[Annotation, ...], inner: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    own = {key for key, _ in inner}
    return (*inner, *((key, value) for key, value in outer if key not in own and key not in _OF_ONE_LOOP))
