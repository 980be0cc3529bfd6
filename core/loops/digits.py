"""Digits of a variable, such as `v // 16` and `v % 16` in packed layouts, and the values that they determine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pegbox.expr.affine import constant, linear
from pegbox.expr.nodes import Binary, Const, Expr, Var
from pegbox.loops.access.interval import SymbolicInterval
from pegbox.loops.nodes import Block, BlockIter, Region


@dataclass(frozen=True, slots=True)
class Digit:
    """`(var // step) % base`; no base at the top."""

    var: Var
    step: int
    base: int | None


def digit_of(expr: Expr) -> Digit | None:
    """The expression as a digit of a variable, if it is one."""
    match expr:
        case Binary("floormod", Binary("floordiv", Var() as var, Const() as step), Const() as base):
            return Digit(var, step.whole, base.whole)
        case Binary("floormod", Var() as var, Const() as base):
            return Digit(var, 1, base.whole)
        case Binary("floordiv", Var() as var, Const() as step):
            return Digit(var, step.whole, None)
        case _:
            return None


def digits_of(indices: Sequence[Expr]) -> dict[Var, list[tuple[int, Digit]]]:
    """For each variable whose digits stand among the indices, all of them: (position, digit), the highest first."""
    found: dict[Var, list[tuple[int, Digit]]] = {}
    for position, expr in enumerate(indices):
        digit = digit_of(expr)
        if digit is not None:
            found.setdefault(digit.var, []).append((position, digit))
    for entries in found.values():
        entries.sort(key=lambda e: -e[1].step)
    return {var: entries for var, entries in found.items() if _complete([d for _, d in entries])}


def _complete(digits: Sequence[Digit]) -> bool:
    """Do the digits make up the whole variable?"""
    if digits[0].base is not None or digits[-1].step != 1:
        return False
    return all(low.base is not None and low.base * low.step == high.step for high, low in pairwise(digits))


def digits_interval(
    digits: Sequence[tuple[int, Digit]], needed: Mapping[int, SymbolicInterval | None]
) -> SymbolicInterval | None:
    """The values of a variable while each digit (by position) takes the values that are needed.

    Below a digit that takes several values, all lower ones count as needed: a variable's values are one interval.
    """
    lo = constant(0)
    for position, digit in digits:
        found = needed[position]
        if found is None:
            return None
        lo = lo.add(found.lo, digit.step)
        if found.width > 0 or digit.step == 1:
            return SymbolicInterval(lo, (found.width + 1) * digit.step - 1, False, found.moved_by)
    return None


def overrun_is_disjoint(block: Block, it: BlockIter) -> bool:
    """Does the block write elsewhere than for all values of the variable's domain, when the variable leaves that?"""
    return all(_apart(region, it.var) for region in block.writes)


def _apart(region: Region, var: Var) -> bool:
    for lo, count in region.box:
        if lo is var and count == 1:
            return True
        form = linear(lo)
        if set(form.terms) == {var} and abs(form.coefficient(var)) >= count:
            return True
    return var in digits_of([lo for lo, _ in region.box]) and all(count == 1 for _, count in region.box)
