"""Uniform chains: choices, one after the other, that all iterations of a loop repeat.

    for i in range(64):
        y[i] = -inf
        for k in range(16):
            if m[k] > 0:
                y[i] = max(y[i], 1)

LLVM unrolls the short loop. The outer loop then has 16 branches, and after each a value that is the same for all `i`,
but that stays in the loop because branches precede it. LLVM's loop vectorizer decides for each such value whether all
lanes share it, along all paths through its operands (`vputils::isSingleScalar`, LLVM 18 to 22), here 3^16. So LLVM is
asked not to vectorize the loop. That loses only lanes which would all compute the same.

Conditions in conditions are walked too, whatever the lanes compute: the value after each is used after the inner
condition and after the outer one, and `VPBlendRecipe::usesFirstLaneOnly` follows both, 2^28 paths for 28 iterations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import NamedTuple

from pegbox.codegen.emitter.narrow_floats import NARROW
from pegbox.expr.nodes import Binary, Buffer, Cast, Const, Expr, Load, Var
from pegbox.expr.visit import children as operands
from pegbox.expr.visit import loads
from pegbox.loops.nodes import For, ForKind, If, Stmt, Store
from pegbox.loops.visit import children

MOST_OPERATIONS = 12
"""Operations of uniform chains in a loop that LLVM may vectorize; each makes up to three times as many paths."""


MOST_NESTED = 16
"""Conditions around conditions on one value in such a loop; each doubles the paths to the first."""


class _Update(NamedTuple):
    """A store inside a loop, the conditions that it is under there, and the iterations of the loops between: all loops,
    and those around all conditions but the innermost."""

    store: Store
    conditions: tuple[Expr, ...] = ()
    iterations: int = 1
    nested: int = 0


def loops_with_uniform_chains(body: Stmt) -> set[Var]:
    """Find the loops that LLVM must not vectorize."""
    found: set[Var] = set()
    _visit(body, found)
    return found


def _visit(stmt: Stmt, found: set[Var]) -> list[_Update]:
    """Collect the stores of a statement; add its loops with long uniform chains to `found`."""
    if isinstance(stmt, Store):
        return [_Update(stmt)]
    updates = [update for child in children(stmt) for update in _visit(child, found)]
    if isinstance(stmt, If):
        return [
            update._replace(
                conditions=(*update.conditions, stmt.condition), nested=update.nested + bool(update.conditions)
            )
            for update in updates
        ]
    if isinstance(stmt, For) and stmt.extent > 1:
        if stmt.kind in (ForKind.SERIAL, ForKind.PARALLEL) and _is_walked(stmt.var, updates):
            found.add(stmt.var)
        extent = stmt.extent
        return [each._replace(iterations=each.iterations * extent, nested=each.nested * extent) for each in updates]
    return updates


def _is_walked(var: Var, updates: list[_Update]) -> bool:
    """Decide whether LLVM's vectorizer would walk too many paths in the loop over `var`."""
    if any(map(_chooses, updates)) and _uniform_operations(var, updates) > MOST_OPERATIONS:
        return True
    return _nested(updates) > MOST_NESTED


def _nested(updates: list[_Update]) -> int:
    """Count conditions around conditions on a value that is updated: for the buffer with the most of them."""
    total: Counter[Buffer] = Counter()
    nested = [update for update in updates if update.nested]
    read = {load.buffer for update in nested for load in loads(update.store.value)}
    for update in nested:
        if update.store.buffer in read:
            total[update.store.buffer] += update.nested
    return max(total.values(), default=0)


def _chooses(update: _Update) -> bool:
    """Find branches and selects in the code of an update; LLVM may make branches of selects."""
    return bool(update.conditions) or not all(map(_is_plain, _values(update.store.value)))


def _is_plain(node: Expr) -> bool:
    match node:
        case Binary(op):
            return op in ("add", "sub", "mul", "div") and node.dtype not in NARROW
        case Cast(_, a):
            return node.dtype not in NARROW and a.dtype not in NARROW
        case _:
            return isinstance(node, Const | Var | Load)


def _uniform_operations(var: Var, updates: list[_Update]) -> int:
    """Count the operations with the same result in all iterations of the loop over `var`, once per inner iteration."""
    varying = _varying(var, updates)
    return sum(
        update.iterations * sum(_count(expr) for expr in (update.store.value, *update.conditions))
        for update in updates
        if update.store.buffer not in varying
    )


def _varying(var: Var, updates: list[_Update]) -> set[Buffer]:
    """Find the buffers whose values differ between the iterations of the loop over `var`."""
    written = {update.store.buffer for update in updates}
    varying: set[Buffer] = set()
    while more := {
        update.store.buffer
        for update in updates
        if update.store.buffer not in varying
        and _varies((update.store.value, *update.conditions), var, varying, written)
    }:
        varying |= more
    return varying


def _varies(exprs: Iterable[Expr], var: Var, varying: Set[Buffer], written: Set[Buffer]) -> bool:
    """Decide if an expression differs between the iterations. Written buffers are read at the element written."""
    for expr in exprs:
        if isinstance(expr, Load) and expr.buffer in written:
            if expr.buffer in varying:
                return True
        elif expr is var or _varies(operands(expr), var, varying, written):
            return True
    return False


def _values(expr: Expr) -> Iterable[Expr]:
    """Walk the nodes of an expression, without those of its indices."""
    yield expr
    if not isinstance(expr, Load):
        for operand in operands(expr):
            yield from _values(operand)


def _count(expr: Expr) -> int:
    """Count operations; one that is rounded to 16 bits counts thrice, as rounding reads its operand several times."""
    nodes = [node for node in _values(expr) if not isinstance(node, Const | Var | Load)]
    return sum(3 if node.dtype in NARROW else 1 for node in nodes)
