"""Legality of loop kinds: which loops may be parallel, vectorized or bound, and how these may nest."""

from __future__ import annotations

from collections.abc import Iterable, Set
from itertools import combinations, product

from pegbox.errors import ScheduleError
from pegbox.expr.affine import Linear
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.loops.access.interval import SymbolicInterval, caps_of
from pegbox.loops.nodes import BlockRealize, For, ForKind, IterKind
from pegbox.loops.visit import bound_vars
from pegbox.schedule.analysis import (
    LANE_COMBINERS,
    boxes,
    combiner,
    has_machine_code,
    is_inside,
    is_ordered,
    is_private,
    mentions,
    reduce_values,
    spatial_values,
    written_buffers,
)
from pegbox.schedule.analysis.recurrence import check_carrying
from pegbox.schedule.tree import Tree, blocks_below, loops_below


def check_kinds(tree: Tree, loops: Iterable[Var] | None) -> None:
    """Check loops that are parallel, vectorized or bound; None for all of them.

    Raises:
        ScheduleError: loops are nested in ways that machines cannot run, or their iterations conflict.
    """
    checked = (x for x in tree.loops.values() if not x.kind.in_order) if loops is None else map(tree.loops.get, loops)
    for loop in checked:
        assert loop is not None
        _check_nesting(tree, loop)
        if loop.extent > 1:
            outside = {above.var for above in tree.ancestors(loop)}
            for realize in blocks_below(loop.body):
                name = realize.block.name
                if loop.kind is ForKind.VECTORIZED and has_machine_code(realize.block):
                    why = f"block {name} calls machine code, or has vectors of its own"
                    remedy = "unroll the loop, or leave it serial"
                    raise ScheduleError(f"{loop.var.name} cannot be vectorized: {why}", remedy, loop.var, name)
                _check_iterations(tree, loop, realize, outside)
            check_carrying(tree, loop)
            if loop.kind is ForKind.PARALLEL:
                _check_writes(tree, loop)


def _check_nesting(tree: Tree, loop: For) -> None:
    above = [x for x in tree.ancestors(loop) if not _may_be_around(x.kind, loop.kind)]
    below = [x for x in loops_below(loop.body) if not _may_be_around(loop.kind, x.kind)]
    for other in (*above, *below):
        inner, outer = (loop, other) if other in above else (other, loop)
        raise ScheduleError(
            f"{inner.var.name} would be {inner.kind} inside {outer.var.name}, which is {outer.kind}",
            "use one parallel loop, or thread axes, with vectorized loops inside, not around them or each other",
            loop.var,
            other.var,
        )
    if loop.kind.has_one_extent:
        _check_axis(tree, loop)


def _may_be_around(outer: ForKind, inner: ForKind) -> bool:
    if outer.in_order or inner.in_order:
        return True
    return outer is not ForKind.VECTORIZED and (not inner.is_concurrent or (outer.is_bound and inner.is_bound))


def _check_iterations(tree: Tree, loop: For, realize: BlockRealize, outside: set[Var]) -> None:
    if any(mentions(v, loop.var) for v in reduce_values(realize)):
        _check_reduction(loop, realize)
    elif (
        not _selects(tree, loop, realize, outside)
        and not (loop.kind is not ForKind.VECTORIZED and is_private(tree, realize, loop))
        and not (loop.kind.is_bound and _recomputes(loop, realize))
    ):
        names = ", ".join(b.name for b in written_buffers(realize.block))
        raise ScheduleError(
            f"{loop.var.name} cannot be {loop.kind.in_words}: several of its iterations may write the same elements of "
            f"{names} in block {realize.block.name}",
            f"use a loop that selects what {realize.block.name} writes, or compute {realize.block.name} elsewhere",
            loop.var,
            realize.block.name,
        )


def _check_writes(tree: Tree, loop: For) -> None:
    found = _common_writes(tree, loop)
    if found is not None:
        first, second, buffer = (found[0].block.name, found[1].block.name, found[2].name)
        raise ScheduleError(
            f"{loop.var.name} cannot be {loop.kind.in_words}: {first} and {second} may write the same elements of "
            f"{buffer} in different iterations",
            f"use {buffer} only inside {loop.var.name}, or leave the loop serial",
            loop.var,
            first,
            second,
        )


def _common_writes(tree: Tree, loop: For) -> tuple[BlockRealize, BlockRealize, Buffer] | None:
    """Find two blocks that may write the same element in different iterations of a loop; None if there are none.

    Buffers that are private to an iteration do not count, nor do conflicts of a block with itself.
    """
    for first, second in combinations(blocks_below(loop.body), 2):
        for buffer in written_buffers(first.block):
            if (
                any(buffer is other for other in written_buffers(second.block))
                and not is_private(tree, first, loop)
                and not _apart(tree, loop, first, second, buffer)
            ):
                return first, second, buffer
    return None


def _apart(tree: Tree, loop: For, first: BlockRealize, second: BlockRealize, buffer: Buffer) -> bool:
    """Check if two blocks always write different elements of a buffer in different iterations of a loop."""
    outside = {x.var for x in tree.ancestors(loop)}

    def pairs(fixed: set[Var]) -> list[list[tuple[SymbolicInterval | None, SymbolicInterval | None]]]:
        ones, others = (boxes(tree, r, r.block.writes, buffer, fixed) for r in (first, second))
        return [list(zip(one, other, strict=True)) for one, other in product(ones, others)]

    return all(
        any(_disjoint(one, other) for one, other in anywhere) or _tells(tree, loop, here, outside)
        for here, anywhere in zip(pairs({*outside, loop.var}), pairs(outside), strict=True)
    )


def _disjoint(one: SymbolicInterval | None, other: SymbolicInterval | None) -> bool:
    if one is None or other is None:
        return False
    gap = other.lo.minus(one.lo)
    return gap.is_const and (gap.const > one.width or -gap.const > other.width)


def _tells(
    tree: Tree, loop: For, dims: list[tuple[SymbolicInterval | None, SymbolicInterval | None]], outside: Set[Var]
) -> bool:
    """Check if the elements that both blocks write in an iteration of the loop determine that iteration."""
    ranges = dict(tree.ranges)
    places: list[Expr] = []
    for one, other in dims:
        around = one.hull(other) if one is not None and other is not None else None
        if around is not None:
            digit = Var("element")
            ranges[digit] = (0, around.width)
            places.append(Linear({**around.lo.terms, digit: 1}, around.lo.const).to_expr())
    return loop.var in determined(places, outside, ranges)


def _selects(tree: Tree, loop: For, realize: BlockRealize, outside: set[Var]) -> bool:
    """Check if each iteration of the loop writes its own elements."""
    values = spatial_values(realize)
    if loop.var in determined(values, outside, tree.ranges):
        return True
    # Only the predicate may keep iterations from overlapping, as in a tail.
    caps = caps_of(realize.predicate, set(tree.loops), tree.ranges)
    return bool(caps) and loop.var in determined(values, outside, tree.ranges, caps)


def _check_reduction(loop: For, realize: BlockRealize) -> None:
    name = realize.block.name
    if is_ordered(realize.block):
        raise ScheduleError(
            f"{loop.var.name} cannot be {loop.kind.in_words}: the reduction of block {name} is ordered",
            f"leave the reduce loops of {name} serial; take a spatial one",
            loop.var,
            name,
        )
    if loop.kind is ForKind.PARALLEL:
        raise ScheduleError(
            f"{loop.var.name} cannot be parallel: its iterations add up into the same elements in block {name}",
            "make a spatial loop parallel",
            loop.var,
            name,
        )
    both = any(mentions(v, loop.var) for v in spatial_values(realize))
    if loop.kind.is_bound:
        if loop.kind.cooperates and not both:
            return
        axis = loop.kind.value
        why = "it binds spatial and reduce variables at once" if both else f"{axis} takes no part in reductions"
        raise ScheduleError(
            f"{loop.var.name} cannot be bound to {axis}: its iterations add up into the same elements in block {name}, "
            f"and {why}",
            "bind a spatial loop, or bind a loop that only reduces to threadIdx.x, .y or .z",
            loop.var,
            name,
        )
    how = combiner(realize.block)
    if both or how not in LANE_COMBINERS or len(realize.block.writes) != 1:
        why = (
            "it binds spatial and reduce variables at once" if both else f"block {name} is not a sum, prod, max or min"
        )
        raise ScheduleError(
            f"{loop.var.name} cannot be vectorized: it is a reduce loop, and {why} with one output",
            "vectorize a spatial loop",
            loop.var,
            name,
        )


def _check_axis(tree: Tree, loop: For) -> None:
    """Check a loop that is bound to blocks or threads, together with the others.

    An axis has one extent in a kernel, which is the nest below an outermost loop over blocks or threads. It occurs
    twice on a path only for work that its threads share.
    """
    above = tree.ancestors(loop)
    kernel = next(x for x in (*above, loop) if x.kind.has_one_extent)
    for one, other in combinations([x for x in loops_below(kernel) if x.kind.has_one_extent], 2):
        if one.kind is other.kind and one.extent != other.extent and loop in (kernel, one, other):
            raise ScheduleError(
                f"{one.kind.value} would have {one.extent} iterations as {one.var.name} and {other.extent} as "
                f"{other.var.name} in one kernel",
                "bind loops of the same extent to one axis (split them by the same factor), or use another axis",
                one.var,
                other.var,
            )
    for outer, inner in [(x, loop) for x in above] + [(loop, x) for x in loops_below(loop.body)]:
        why = _not_common(tree, outer, inner) if outer.kind is inner.kind else ""
        if why:
            raise ScheduleError(
                f"{inner.var.name} cannot be {inner.kind.in_words} inside {outer.var.name}, which is bound to it too: "
                f"{why}",
                "bind it to another axis; or let the threads share the work: compute the stage into scope 'shared', at "
                "a loop that is below the bound one already when the stage is placed there",
                outer.var,
                inner.var,
            )


def _not_common(tree: Tree, outer: For, inner: For) -> str:
    """Return the reason that the threads do not share the work of the inner loop and its results; "" if they do."""
    if not inner.kind.cooperates:
        return "blocks share no work"
    for realize in blocks_below(inner.body):
        name = realize.block.name
        if any(mentions(e, outer.var) for e in (*realize.values, realize.predicate)):
            return f"the values of {name} there are not the same for all threads"
        for buffer in written_buffers(realize.block):
            if not is_inside(tree, buffer, inner) and not outer.kind.shares(buffer.scope):
                return f"{name} writes {buffer.name}, whose scope {buffer.scope!r} threads do not share"
    return ""


def _recomputes(loop: For, realize: BlockRealize) -> bool:
    """Check if each iteration of the loop repeats the same computation from the beginning."""
    if any(mentions(value, loop.var) for value in realize.values):
        return False
    if not realize.block.is_reduction:
        return True
    inside = {x.var for x in loops_below(loop.body)}
    return realize.block.init is not None and bound_vars(realize, IterKind.REDUCE) <= inside
