"""Races: loops with concurrent iterations that conflict.

Schedules make a loop parallel, vectorize it, or bind it only if its iterations have their own elements. A script may do
so with any loop. Each loop is judged by the accesses below it, in programs with and without blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from pegbox.expr.affine import Linear, linear
from pegbox.expr.bounds import Ranges
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.visit import free_vars
from pegbox.loops.access.access import Access, accesses
from pegbox.loops.access.interval import SymbolicInterval, hull, interval, relaxation, tested_ranges
from pegbox.loops.access.private_loops import private_loops
from pegbox.loops.nodes import For, ForKind, Function, Stmt, Store
from pegbox.loops.passes.flatten import flatten_blocks
from pegbox.loops.passes.init import lower_inits
from pegbox.loops.reductions.update import reads, update
from pegbox.loops.refusal import Refusal
from pegbox.loops.visit import children, expressions, loop_ranges, realizes, walk


def race(func: Function) -> Refusal | None:
    """Find a loop whose iterations cannot provably run at once; the refusal names it."""
    if not any(isinstance(s, For) and not s.kind.in_order and s.extent > 1 for s in walk(func.body)):
        return None
    flat = flatten_blocks(lower_inits(func)) if any(True for _ in realizes(func.body)) else func
    ranges = loop_ranges(flat.body)
    users = [(access.buffer, access.loops) for access in accesses(flat.body) if access.buffer in func.allocs]
    for loop, outside in _loops(flat.body, ()):
        if not loop.kind.in_order and loop.extent > 1:
            # Lowering allocates an intermediate inside the innermost loop around all of its uses.
            own = {buffer for buffer in func.allocs if all(loop.var in at for used, at in users if used is buffer)}
            found = _RacingLoop(loop, frozenset(outside), ranges).race(set(func.params), own)
            if found is not None:
                return found
    return None


def _loops(stmt: Stmt, outside: tuple[Var, ...]) -> Iterator[tuple[For, tuple[Var, ...]]]:
    if isinstance(stmt, For):
        yield stmt, outside
        outside = (*outside, stmt.var)
    for child in children(stmt):
        yield from _loops(child, outside)


class _RacingLoop:
    """A loop with concurrent iterations; loops `outside` it are fixed."""

    def __init__(self, loop: For, outside: Set[Var], ranges: Ranges) -> None:
        self.loop, self.outside, self.ranges = loop, outside, ranges
        self.inside = [s.var for s in walk(loop.body) if isinstance(s, For)]

    def race(self, params: Set[Buffer], own: Set[Buffer]) -> Refusal | None:
        uses: dict[Buffer, list[Access]] = {}
        for access in accesses(self.loop.body):
            uses.setdefault(access.buffer, []).append(access)
        for buffer, found in uses.items():
            # Intermediates of iterations that wait for each other are checked with these waits (see `loop_carried`).
            exempt = buffer in own or (self.loop.kind.waits and buffer not in params)
            moves = any(self.loop.var in free_vars(lo) for access in found for lo, _ in access.region.box)
            if exempt or not any(a.stores for a in found) or self._is_apart(found):
                continue
            if moves or not self._may_meet(buffer, found):
                return self._described(buffer, found, moves)
        return None

    def _is_apart(self, found: Sequence[Access]) -> bool:
        """Decide if the iterations access their own elements, or tests leave only one iteration."""
        var = self.loop.var
        alone = {self._single_iteration(access) for access in found}
        return (
            (len(alone) == 1 and None not in alone)
            or var in private_loops([a.region for a in found], [var, *self.inside], self.outside, self.ranges)
            or self._has_own_boxes(found)
        )

    def _has_own_boxes(self, found: Sequence[Access]) -> bool:
        """Check that the boxes that an iteration touches do not overlap those of other iterations."""
        ranges = dict(self.ranges)
        places: list[Expr] = []
        for dim in range(len(found[0].region.box)):
            around = hull(self._spans(found, dim))
            if around is not None:
                digit = Var("element")
                ranges[digit] = (0, around.width)
                places.append(Linear({**around.lo.terms, digit: 1}, around.lo.const).to_expr())
        return self.loop.var in determined(places, self.outside, ranges)

    def _spans(self, found: Sequence[Access], dim: int) -> Iterator[SymbolicInterval | None]:
        """Yield the touched parts of a dimension, those of a single iteration in terms of the other iterations."""
        var = self.loop.var
        forms = [linear(access.region.box[dim][0]) for access in found]
        step = next((form.coefficient(var) for form in forms if form.coefficient(var)), 0)
        for form, access in zip(forms, found, strict=True):
            only = self._single_iteration(access)
            if only is not None and not form.coefficient(var):
                form = form.add(Linear({var: step}, -step * only))
            tests = [test.condition for test in access.tests]
            running = access.loops & set(self.inside)
            yield interval(form.to_expr(), relaxation(running, self.ranges, *tests), access.region.box[dim][1])

    def _single_iteration(self, access: Access) -> int | None:
        low, high = tested_ranges([test.condition for test in access.tests], self.ranges)[self.loop.var]
        return low if low >= high else None  # the tests may hold nowhere

    def _may_meet(self, buffer: Buffer, found: Sequence[Access]) -> bool:
        """Decide if all iterations may use the same elements, because they update them or compute the same values."""
        stmts = [a.path[-1] for a in found if a.stores]
        if self.loop.kind is ForKind.VECTORIZED:
            return (
                len({a.path[-1] for a in found}) == 1 and isinstance(stmts[0], Store) and update(stmts[0]) is not None
            )
        if not self.loop.kind.is_bound:
            return False
        changed = any(isinstance(s, Store) and reads(s.value, buffer) for s in stmts)
        alike = not any(self.loop.var in free_vars(e) for s in stmts for e in expressions(s))
        return alike if not changed else self.loop.kind.waits or (alike and found[0].stores)

    def _described(self, buffer: Buffer, found: Sequence[Access], moves: bool) -> Refusal:
        name, loop = buffer.name, self.loop
        if not any(not access.stores for access in found):
            why = f"several of its iterations may write the same elements of {name}"
            remedy = f"use a loop that selects what is written to {name}"
        elif not moves:
            why = f"its iterations add up into the same elements of {name}"
            remedy = f"make a loop {loop.kind.in_words} that selects what is written to {name}"
        else:
            why = f"an iteration may touch elements of {name} that another one writes"
            remedy = "write to another buffer than is read"
        reason = f"{loop.var.name} cannot be {loop.kind.in_words}: {why}"
        return Refusal(reason, f"{remedy}, or leave the loop serial", (loop.var.name,))
