"""Analysis of conditions, and of the elements beyond a computation's domain that are reached if they fail."""

from __future__ import annotations

from pegbox.expr.affine import linear
from pegbox.expr.bounds import Ranges, fits, linear_bounds
from pegbox.expr.digits import digits_of
from pegbox.expr.equal import same
from pegbox.expr.nodes import Binary, Buffer, Compare, Const, Expr, Var
from pegbox.expr.visit import substitute
from pegbox.loops.access.region import written
from pegbox.loops.nodes import Block, BlockIter, Function, Region
from pegbox.loops.visit import realizes, walk_nest


def leaves_domain(condition: Expr, value: Expr, extent: int, ranges: Ranges) -> bool:
    """Prove that `value` is outside [0, extent) whenever `condition` fails; False without a proof.

    `i_0 * 4 + i_1 < 10` keeps `i_0 * 4 + i_1` below 10, and the elements beyond are not needed. But under a second
    split, `i_1_0 * 2 + i_1_1 < 3` keeps an iteration from repeating the work of the next `i_0`.
    """
    if isinstance(value, Binary) and value.op == "floordiv" and isinstance(value.b, Const) and int(value.b.value) > 0:
        return leaves_domain(condition, value.a, extent * int(value.b.value), ranges)
    if not isinstance(condition, Compare) or condition.op not in ("lt", "le", "gt", "ge"):
        return False
    left, right, form = linear(condition.a), linear(condition.b), linear(value)
    tested = left.add(right, -1)
    if not tested.terms or not all(fits(side, ranges) for side in (left, right, form)):
        return False
    # If the condition fails, sign * tested >= least.
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
    """Check that, for a variable outside its domain, the block writes other elements than for all values inside."""

    def apart(region: Region) -> bool:
        forms = [(linear(lo), count) for lo, count in region.box]
        if any(set(f.terms) == {it.var} and abs(f.coefficient(it.var)) >= count for f, count in forms):
            return True
        return it.var in digits_of([lo for lo, _ in region.box]) and all(count == 1 for _, count in region.box)

    return all(map(apart, block.writes))


_Form = tuple[tuple[int, ...], tuple[Expr, ...]]


def written_in_parts(func: Function) -> set[Buffer]:
    """Find the intermediates that are written in more than one way.

    A test that keeps a block inside its domain may be dropped if the elements beyond are not read: if a buffer is
    written in one way only, they never are. If blocks write parts of one buffer (the halves of a concatenation),
    another block's part lies beyond the part of one.
    """
    intermediates, forms, found = set(func.allocs), dict[Buffer, _Form](), set[Buffer]()
    whole: set[Buffer] = set()
    places: list[Var] = []
    for realize in realizes(func.body):
        for region in (region for s in walk_nest(realize.block.body) for region in written(s)):
            buffer = region.buffer
            if buffer not in intermediates:
                continue
            if _is_whole(realize.block, region):
                whole.add(buffer)
                continue
            form = _form(realize.block, region, places)
            first = forms.setdefault(buffer, form)
            if first[0] != form[0] or not all(map(same, first[1], form[1])):
                found.add(buffer)
    # Blocks that write a whole buffer and blocks that write parts of it differ, too.
    return found | (whole & forms.keys())


def _is_whole(block: Block, region: Region) -> bool:
    """Check if each spatial variable runs over a whole dimension: beyond its domain is then beyond the buffer."""
    places = {lo: extent for (lo, count), extent in zip(region.box, region.buffer.shape, strict=True) if count == 1}
    return all(it.is_reduce or places.get(it.var) == it.extent for it in block.iters)


def _form(block: Block, region: Region, places: list[Var]) -> _Form:
    """Describe a write by the extents of the spatial variables, and the indices as functions of numbered variables."""
    spatial = [it for it in block.iters if not it.is_reduce]
    places.extend(Var(f"v{n}") for n in range(len(places), len(spatial)))
    names: dict[Var, Expr] = {it.var: place for it, place in zip(spatial, places, strict=False)}
    return tuple(it.extent for it in spatial), tuple(substitute(lo, names) for lo, _ in region.box)
