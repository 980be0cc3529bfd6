"""Legality of loop kinds: which loops may be parallel, vectorized or bound, and how these may nest."""

from __future__ import annotations

from collections.abc import Iterable

from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Var
from pegbox.loops.access.interval import caps_of
from pegbox.loops.nodes import BlockRealize, For, ForKind
from pegbox.loops.obstacle import Obstacle
from pegbox.loops.threads.binding import axis_obstacle, recomputes, reduction_obstacle
from pegbox.schedule.analysis import (
    LANE_COMBINERS,
    combiner,
    has_machine_code,
    is_private,
    mentions,
    reduce_values,
    spatial_values,
    written_buffers,
)
from pegbox.schedule.analysis.recurrence import check_carrying
from pegbox.schedule.analysis.shared_writes import common_writes
from pegbox.schedule.errors import refuse
from pegbox.schedule.tree import Tree, blocks_below, loops_below


def check_kinds(tree: Tree, loops: Iterable[Var], shown: Tree) -> None:
    """Are these parallel or vectorized loops sound? `shown` is the program that an error shows.

    Raises:
        ScheduleError: they are nested in ways that machines cannot run, or their iterations get in each other's way.
    """
    for var in loops:
        loop = tree.loops[var]
        _check_nesting(tree, loop, shown)
        if loop.extent > 1:
            outside = {above.var for above in tree.ancestors(loop)}
            for realize in blocks_below(loop.body):
                if loop.kind is ForKind.VECTORIZED:
                    _check_scalar(loop, realize, shown)
                _check_iterations(tree, loop, realize, outside, shown)
            check_carrying(tree, loop, shown)
            if loop.kind is ForKind.PARALLEL:
                _check_writes(tree, loop, shown)


def _check_nesting(tree: Tree, loop: For, shown: Tree) -> None:
    above = [x for x in tree.ancestors(loop) if not _may_be_around(x.kind, loop.kind)]
    below = [x for x in loops_below(loop.body) if not _may_be_around(loop.kind, x.kind)]
    for other in (*above, *below):
        inner, outer = (loop, other) if other in above else (other, loop)
        raise refuse(
            shown,
            f"{inner.var.name} would be {inner.kind} inside {outer.var.name}, which is {outer.kind}",
            "have one parallel loop, or thread axes, with vectorized loops inside, not around them or each other",
            loop.var,
            other.var,
        )
    if loop.kind.is_bound:
        _check(axis_obstacle(tree.func, tree.ancestors(loop), loop), shown)


def _may_be_around(outer: ForKind, inner: ForKind) -> bool:
    if outer.in_order or inner.in_order:
        return True
    return outer is not ForKind.VECTORIZED and (not inner.is_concurrent or (outer.is_bound and inner.is_bound))


def _check(obstacle: Obstacle | None, shown: Tree) -> None:
    if obstacle is not None:
        raise refuse(shown, obstacle.reason, obstacle.remedy, *obstacle.place)


def _check_scalar(loop: For, realize: BlockRealize, shown: Tree) -> None:
    name = realize.block.name
    if has_machine_code(realize.block):
        raise refuse(
            shown,
            f"{loop.var.name} cannot be vectorized: block {name} calls machine code, or has vectors of its own",
            "unroll the loop, or leave it serial",
            loop.var,
            name,
        )


def _check_iterations(tree: Tree, loop: For, realize: BlockRealize, outside: set[Var], shown: Tree) -> None:
    if any(mentions(v, loop.var) for v in reduce_values(realize)):
        if loop.kind.is_bound:
            _check(reduction_obstacle(loop, realize), shown)
        else:
            _check_reduction(loop, realize, shown)
    elif (
        not _selects(tree, loop, realize, outside)
        and not (loop.kind is not ForKind.VECTORIZED and is_private(tree, realize, loop))
        and not (loop.kind.is_bound and recomputes(loop, realize))
    ):
        names = ", ".join(b.name for b in written_buffers(realize.block))
        raise refuse(
            shown,
            f"{loop.var.name} cannot be {loop.kind.in_words}: several of its iterations may write the same elements of "
            f"{names} in block {realize.block.name}",
            f"use a loop that selects what {realize.block.name} writes, or compute {realize.block.name} elsewhere",
            loop.var,
            realize.block.name,
        )


def _check_writes(tree: Tree, loop: For, shown: Tree) -> None:
    found = common_writes(tree, loop)
    if found is not None:
        first, second, buffer = (found[0].block.name, found[1].block.name, found[2].name)
        raise refuse(
            shown,
            f"{loop.var.name} cannot be {loop.kind.in_words}: {first} and {second} may write the same elements of "
            f"{buffer} in different iterations",
            f"let nobody outside of {loop.var.name} use {buffer}, or leave the loop serial",
            loop.var,
            first,
            second,
        )


def _selects(tree: Tree, loop: For, realize: BlockRealize, outside: set[Var]) -> bool:
    """Does each iteration of the loop write elements of its own?"""
    values = spatial_values(realize)
    if loop.var in determined(values, outside, tree.ranges):
        return True
    # Tails may overlap, if nothing but them is written there.
    caps = caps_of(realize.predicate, set(tree.loops), tree.ranges)
    return bool(caps) and loop.var in determined(values, outside, tree.ranges, caps)


def _check_reduction(loop: For, realize: BlockRealize, shown: Tree) -> None:
    name = realize.block.name
    if loop.kind is ForKind.PARALLEL:
        raise refuse(
            shown,
            f"{loop.var.name} cannot be parallel: its iterations add up into the same elements in block {name}",
            "make a spatial loop parallel",
            loop.var,
            name,
        )
    both = any(mentions(v, loop.var) for v in spatial_values(realize))
    how = combiner(realize.block)
    if both or how not in LANE_COMBINERS or len(realize.block.writes) != 1:
        why = (
            "it binds spatial and reduce variables at once" if both else f"block {name} is not a sum, prod, max or min"
        )
        raise refuse(
            shown,
            f"{loop.var.name} cannot be vectorized: it is a reduce loop, and {why} with one output",
            "vectorize a spatial loop",
            loop.var,
            name,
        )
