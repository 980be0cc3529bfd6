"""The built-in reducers that are recognised from a block's update."""

from __future__ import annotations

from typing import Literal

from pegbox.compute.reducer import MAX, MIN, PROD, SUM, Reducer, Values
from pegbox.expr.build import compare, logical_and, logical_or, maximum, minimum, select
from pegbox.expr.nodes import CompareOp

PLAIN = (SUM, PROD, MAX, MIN)
_SIGNS: tuple[tuple[str, Literal["gt", "lt"]], ...] = (("argmax", "gt"), ("argmin", "lt"))
_OR_EQUAL: dict[CompareOp, CompareOp] = {"gt": "ge", "lt": "le"}


def _extreme(name: str, better: Literal["gt", "lt"], *, strict: bool, by_index: bool, choose: bool) -> Reducer:
    """argmax or argmin: (index, value) pairs, of which the one with the better value stays.

    Args:
        better: "gt" or "lt".
        strict: the old pair stays only where its value is strictly better.
        by_index: of equal values, that with the smaller index stays.
        choose: the value is chosen by the same test as the index, instead of by `max` or `min`.
    """

    def combine(a: Values, b: Values) -> Values:
        ahead = compare(better if strict or by_index else _OR_EQUAL[better], a[1], b[1])
        if by_index:
            tie = logical_and(compare("eq", a[1], b[1]), compare("lt", a[0], b[0]))
            ahead = logical_or(ahead, tie)
        best = maximum(a[1], b[1]) if better == "gt" else minimum(a[1], b[1])
        return select(ahead, a[0], b[0]), select(ahead, a[1], b[1]) if choose else best

    return Reducer(name, combine, lambda types: ())


RECOGNIZED: tuple[tuple[Reducer, int], ...] = (
    *((reducer, 1) for reducer in PLAIN),
    *(
        (_extreme(name, better, strict=strict, by_index=by_index, choose=choose), 2)
        for name, better in _SIGNS
        for strict, by_index in ((False, False), (True, False), (True, True))
        for choose in (False, True)
    ),
)

# Taking the start in several times makes no difference to these, so that they may start anywhere.
IDEMPOTENT = frozenset({"max", "min", "argmax", "argmin"})
