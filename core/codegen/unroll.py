"""Which serial loops auto_unroll_max_step unrolls.

The pragma on a loop covers the loop and everything inside. From the inside out, a serial loop whose body has no loop
left is unrolled while the steps of the unrolled code (stores, a vectorized one counting once) stay within the
limit. `pragma_unroll_explicit` false leaves the unrolling to LLVM.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pegbox.expr.nodes import Var
from pegbox.loops.nodes import For, ForKind, Stmt, Store
from pegbox.loops.visit import children


@dataclass
class Unrolling:
    """Loops to unroll here (`explicit`) and loops that LLVM is told to unroll (`hinted`), by variable."""

    explicit: set[Var] = field(default_factory=set)
    hinted: set[Var] = field(default_factory=set)


def plan(body: Stmt) -> Unrolling:
    result = Unrolling()
    _visit(body, 0, True, result)
    return result


def _visit(stmt: Stmt, limit: int, explicit: bool, result: Unrolling) -> tuple[int, bool]:
    """(steps of the code as it will be written, does a loop remain in it)."""
    if isinstance(stmt, Store):
        return 1, False
    if isinstance(stmt, For):
        notes = dict(stmt.annotations)
        limit = int(notes.get("pragma_auto_unroll_max_step", limit))
        explicit = bool(notes.get("pragma_unroll_explicit", explicit))
        steps, looped = _visit(stmt.body, limit, explicit, result)
        if stmt.kind is ForKind.VECTORIZED:
            return steps, looped
        if stmt.kind is ForKind.UNROLLED or stmt.extent == 1:
            return steps * stmt.extent, looped
        if stmt.kind is ForKind.SERIAL and not looped and steps * stmt.extent <= limit:
            (result.explicit if explicit else result.hinted).add(stmt.var)
            return steps * stmt.extent, False
        return steps, True
    parts = [_visit(child, limit, explicit, result) for child in children(stmt)]
    return sum(steps for steps, _ in parts), any(looped for _, looped in parts)
