"""`auto_unroll_max_step`: the choice of the serial loops to unroll.

The pragma on a loop covers the loop and everything inside. From the inside out, a serial loop whose body has no loop
left is unrolled while the steps of the unrolled code stay within the limit. A step is a store; a vectorized one counts
once for every sixteen lanes, for it becomes as many instructions. `pragma_unroll_explicit` false leaves the unrolling
to LLVM.

A loop around loops that the schedule vectorized or unrolled has the body that it is meant to have: LLVM is told not to
unroll it further, which would double the compile time of a candidate for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pegbox.expr.nodes import Var
from pegbox.loops.nodes import Evaluate, For, ForKind, Stmt, Store
from pegbox.loops.visit import children

STEP_LANES = 16  # float32 lanes of the widest vectors


@dataclass
class Unrolling:
    """Loops to unroll here (`explicit`), and loops that LLVM is told to unroll (`hinted`) or not to (`shaped`)."""

    explicit: set[Var] = field(default_factory=set)
    hinted: set[Var] = field(default_factory=set)
    shaped: set[Var] = field(default_factory=set)


def plan(body: Stmt) -> Unrolling:
    result = Unrolling()
    _visit(body, 0, True, result)
    return result


@dataclass(frozen=True)
class _Summary:
    """What a statement holds: steps of the code as it will be written, a loop that stays one, a shaped loop."""

    steps: int
    looped: bool = False
    shaped: bool = False


def _visit(stmt: Stmt, limit: int, explicit: bool, result: Unrolling) -> _Summary:
    if isinstance(stmt, Store | Evaluate):
        return _Summary(1)
    if not isinstance(stmt, For):
        parts = [_visit(child, limit, explicit, result) for child in children(stmt)]
        steps = sum(part.steps for part in parts)
        return _Summary(steps, any(part.looped for part in parts), any(part.shaped for part in parts))
    notes = dict(stmt.annotations)
    limit = int(notes.get("pragma_auto_unroll_max_step", limit))
    explicit = bool(notes.get("pragma_unroll_explicit", explicit))
    body = _visit(stmt.body, limit, explicit, result)
    steps = body.steps * stmt.extent
    if stmt.kind is ForKind.VECTORIZED:
        return _Summary(body.steps * -(-stmt.extent // STEP_LANES), body.looped, True)
    if stmt.kind is ForKind.UNROLLED or stmt.extent == 1:
        return _Summary(steps, body.looped, True)
    if stmt.kind is ForKind.SERIAL and not body.looped and steps <= limit:
        (result.explicit if explicit else result.hinted).add(stmt.var)
        return _Summary(steps, False, body.shaped)
    if body.shaped:
        result.shaped.add(stmt.var)
    return _Summary(body.steps, True, body.shaped)
