"""Digit loops: a fused loop taken for the nest of loops that its digits `f // 6`, `f % 6` stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from itertools import pairwise

from pegbox.expr.affine import Linear
from pegbox.expr.bounds import Ranges
from pegbox.expr.nodes import Binary, Expr, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import substitute, walk
from pegbox.loops.digits import digit_of
from pegbox.loops.nodes import BlockRealize


def apart(realize: BlockRealize, running: Set[Var], ranges: Ranges) -> tuple[BlockRealize, Set[Var], Ranges] | None:
    """The same iterations, with a running loop for each digit of the running loops; None where none has digits.

    The digits of a loop take all combinations of their values, so that bounds that a predicate puts on one of them
    can be told from those of the others.
    """
    nests = {var: _digits(var, ranges[var][1] + 1, (*realize.values, realize.predicate)) for var in running}
    nests = {var: digits for var, digits in nests.items() if digits}
    if not nests:
        return None
    wider = {**ranges, **{digit: (0, n - 1) for digits in nests.values() for digit, n in digits}}
    values = {var: _value(digits) for var, digits in nests.items()}

    def change(expr: Expr) -> Expr:
        return simplify(substitute(expr, values), wider)

    changed = BlockRealize(tuple(map(change, realize.values)), realize.block, change(realize.predicate))
    fresh = {digit for digits in nests.values() for digit, _ in digits}
    return changed, (running - nests.keys()) | fresh, wider


def _value(digits: Iterable[tuple[Var, int]]) -> Expr:
    """What the digits, the highest first, make up."""
    terms: dict[Expr, int] = {}
    step = 1
    for digit, count in reversed(list(digits)):
        terms[digit] = step
        step *= count
    return Linear(terms, 0).to_expr()


def _digits(var: Var, extent: int, exprs: Iterable[Expr]) -> list[tuple[Var, int]]:
    """A variable for each digit, the highest first, with the number of its values; empty where they do not divide."""
    steps = sorted({1, extent, *(s for expr in exprs for s in _steps(var, expr) if s < extent)})
    if len(steps) < 3 or any(high % low for low, high in pairwise(steps)):
        return []
    return [(Var(f"{var.name}_{low}"), high // low) for low, high in reversed(list(pairwise(steps)))]


def _steps(var: Var, expr: Expr) -> Iterator[int]:
    """Where the digits of a variable begin and end in an expression."""
    for node in walk(expr):
        found = digit_of(node) if isinstance(node, Binary) else None
        if found is not None and found.var is var:
            yield found.step
            if found.base is not None:
                yield found.step * found.base
