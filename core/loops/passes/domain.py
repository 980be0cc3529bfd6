"""Analysis of conditions: where an iteration lands in the domain of the computation if the condition fails."""

from __future__ import annotations

from pegbox.expr.affine import linear
from pegbox.expr.bounds import Ranges, fits, linear_bounds
from pegbox.expr.digits import digits_of
from pegbox.expr.nodes import Binary, Compare, Const, Expr, Var
from pegbox.loops.nodes import Block, BlockIter, Region


def leaves_domain(condition: Expr, value: Expr, extent: int, ranges: Ranges) -> bool:
    """Is `value` outside [0, extent) wherever `condition` fails? False also when that cannot be shown.

    `i_0 * 4 + i_1 < 10` keeps `i_0 * 4 + i_1` inside 10: beyond it lie elements that nobody asked for. But under a
    second split, `i_1_0 * 2 + i_1_1 < 3` keeps an iteration from doing again what the next `i_0` does.
    """
    if isinstance(value, Binary) and value.op == "floordiv" and isinstance(value.b, Const) and int(value.b.value) > 0:
        return leaves_domain(condition, value.a, extent * int(value.b.value), ranges)
    if not isinstance(condition, Compare) or condition.op not in ("lt", "le", "gt", "ge"):
        return False
    left, right, form = linear(condition.a), linear(condition.b), linear(value)
    tested = left.add(right, -1)
    if not tested.terms or not all(fits(side, ranges) for side in (left, right, form)):
        return False
    # Where the condition fails, sign * tested >= least.
    sign = 1 if condition.op in ("lt", "le") else -1
    least = 0 if condition.op in ("lt", "gt") else 1
    term, step = next(iter(tested.terms.items()))
    factor, remainder = divmod(form.coefficient(term), step)
    if factor == 0 or remainder:
        return False
    rest = linear_bounds(form.add(tested, -factor), ranges)
    if rest is None:
        return False
    reach = sign * factor * least
    return reach + rest[0] >= extent if sign * factor > 0 else reach + rest[1] < 0


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
