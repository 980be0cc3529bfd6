"""Pass: drop buffers that no output depends on, and the stores to them.

    for t in range(8):                       for t in range(8):
        F[0] = F[0] * keep[t]           =>       S[0] = S[0] * keep[t] + x[t]
        S[0] = S[0] * keep[t] + x[t]         O[0] = S[0]
    O[0] = S[0]

A reduction of tuples often computes values that only its own next step reads.
"""

from __future__ import annotations

from pegbox.expr.low_level import is_machine_call
from pegbox.expr.nodes import Buffer, Call
from pegbox.expr.visit import walk as walk_expr
from pegbox.loops.access.region import read, written
from pegbox.loops.nodes import Alloc, Function, Stmt, Store
from pegbox.loops.visit import expressions, map_present, walk


def drop_unused(func: Function) -> Function:
    """Remove the buffers that no output, test or call depends on, and the stores to them."""
    used = _used(func)

    def go(stmt: Stmt) -> Stmt | None:
        if isinstance(stmt, Store) and stmt.buffer not in used:
            return None
        inner = map_present(stmt, go)
        return inner.body if isinstance(inner, Alloc) and inner.buffer not in used else inner

    body = go(func.body)
    return func if body is None else func.with_body(body)


def _used(func: Function) -> set[Buffer]:
    """Find the needed buffers: parameters, those that tests or calls access, and all buffers that these depend on."""
    used, sources = set(func.params), dict[Buffer, set[Buffer]]()
    for stmt in walk(func.body):
        reads = {region.buffer for region in read(stmt)}
        if isinstance(stmt, Store) and not calls_machine_code(stmt):
            sources.setdefault(stmt.buffer, set()).update(reads)
        else:
            used |= reads.union(region.buffer for region in written(stmt))
    waiting = list(used)
    while waiting:
        found = sources.pop(waiting.pop(), set()) - used
        used |= found
        waiting += found
    return used


def calls_machine_code(store: Store) -> bool:
    """Check if machine code, which may have other effects, computes the value of a store."""
    parts = (part for expr in expressions(store) for part in walk_expr(expr))
    return any(isinstance(part, Call) and is_machine_call(part.name) for part in parts)
