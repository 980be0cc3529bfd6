"""`auto_unroll_max_step`: the choice of the serial loops to unroll.

The pragma on a loop covers the loop and everything inside. From the inside out, a serial loop whose body has no loop
left is unrolled if the unrolled code stays within the limit of steps. A step is a store; a vectorized store counts once
for every sixteen lanes, since each becomes an instruction. `pragma_unroll_explicit` false leaves the unrolling to LLVM.

The body of a loop around loops that the schedule vectorized or unrolled is as intended: LLVM is asked not to unroll
such a loop further, which would double the compile time of a candidate for nothing. Unrolled loops around a loop make
copies of it; LLVM is asked not to unroll copies that would be too long together.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pegbox.expr.nodes import Var
from pegbox.loops.nodes import Evaluate, For, ForKind, Stmt, Store
from pegbox.loops.visit import children

STEP_LANES = 16
"""The float32 lanes of the widest vectors."""
MOST_COPIED = 512
"""The most stores that LLVM may make from the copies of a loop by unrolling each."""


@dataclass
class Unrolling:
    """The decisions about unrolling. The emitter unrolls the serial loops in `explicit` (and those of the kind
    UNROLLED).

    LLVM is asked to unroll the `hinted` loops, and not to unroll the `shaped` ones.
    """

    explicit: set[Var] = field(default_factory=set)
    hinted: set[Var] = field(default_factory=set)
    shaped: set[Var] = field(default_factory=set)


def plan(body: Stmt) -> Unrolling:
    result = Unrolling()
    _visit(body, 0, True, result, 1)
    return result


@dataclass(frozen=True)
class _CodeSize:
    """The size of a statement: steps of its code, stores that run, and flags for loops that stay and shaped loops."""

    steps: int
    stores: int
    looped: bool = False
    shaped: bool = False


def _visit(stmt: Stmt, limit: int, explicit: bool, result: Unrolling, copies: int) -> _CodeSize:
    """Plan the loops of a statement of which outer unrolled loops make `copies` copies."""
    if isinstance(stmt, Store | Evaluate):
        return _CodeSize(1, 1)
    if not isinstance(stmt, For):
        parts = [_visit(child, limit, explicit, result, copies) for child in children(stmt)]
        steps, stores = sum(part.steps for part in parts), sum(part.stores for part in parts)
        return _CodeSize(steps, stores, any(part.looped for part in parts), any(part.shaped for part in parts))
    notes = dict(stmt.annotations)
    limit = int(notes.get("pragma_auto_unroll_max_step", limit))
    explicit = bool(notes.get("pragma_unroll_explicit", explicit))
    unrolled = stmt.kind is ForKind.UNROLLED
    inside = copies * stmt.extent if unrolled else copies
    body = _visit(stmt.body, limit, explicit, result, inside)
    steps, stores = body.steps * stmt.extent, body.stores * stmt.extent
    if stmt.kind is ForKind.VECTORIZED:
        return _CodeSize(body.steps * -(-stmt.extent // STEP_LANES), stores, body.looped, True)
    if unrolled or stmt.extent == 1:
        return _CodeSize(steps, stores, body.looped, True)
    if stmt.kind is ForKind.SERIAL and not body.looped and steps <= limit:
        (result.explicit if explicit else result.hinted).add(stmt.var)
        return _CodeSize(steps, stores, False, body.shaped)
    if body.shaped or (copies > 1 and copies * stores > MOST_COPIED):
        result.shaped.add(stmt.var)
    return _CodeSize(body.steps, stores, True, body.shaped)
