"""Digit loops: a fused loop taken for the nest of loops that its digits `f // 6`, `f % 6` stand for."""

from __future__ import annotations

from collections.abc import Set

from pegbox.expr.bounds import Ranges
from pegbox.expr.digits import join, split
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import substitute
from pegbox.loops.nodes import BlockRealize


def apart(realize: BlockRealize, running: Set[Var], ranges: Ranges) -> tuple[BlockRealize, Set[Var], Ranges] | None:
    """The same iterations, with a running loop for each digit of the running loops; None where none has digits.

    The digits of a loop take all combinations of their values, so that bounds that a predicate puts on one of them
    can be told from those of the others.
    """
    nests = {var: split(var, ranges[var][1] + 1, (*realize.values, realize.predicate)) for var in running}
    nests = {var: digits for var, digits in nests.items() if digits}
    if not nests:
        return None
    wider = {**ranges, **{digit: (0, n - 1) for digits in nests.values() for digit, n in digits}}
    values = {var: join(digits) for var, digits in nests.items()}

    def change(expr: Expr) -> Expr:
        return simplify(substitute(expr, values), wider)

    changed = BlockRealize(tuple(map(change, realize.values)), realize.block, change(realize.predicate))
    fresh = {digit for digits in nests.values() for digit, _ in digits}
    return changed, (running - nests.keys()) | fresh, wider
