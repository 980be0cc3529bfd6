"""Legality of `bind`: which loops may be bound to an axis, among the loops that are bound already."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from pegbox.expr.visit import free_vars
from pegbox.loops.kind import THREADS, VIRTUAL
from pegbox.loops.nodes import BlockRealize, For, Function, IterKind
from pegbox.loops.refusal import Refusal
from pegbox.loops.visit import blocks_below, bound_vars, loops_below


def axis_refusal(func: Function, above: Sequence[For], loop: For) -> Refusal | None:
    """Give the reason why a loop below the loops `above` cannot be bound as it is; None if it can.

    An axis has one extent in a kernel: below an outermost loop over blocks or threads. It occurs twice on a path only
    for work that its threads share.
    """
    if loop.kind in VIRTUAL:  # each stage has its own
        return None
    kernel = next(filter(_is_real, (*above, loop)))
    for one, other in combinations(filter(_is_real, loops_below(kernel)), 2):
        if one.kind is other.kind and one.extent != other.extent and loop in (kernel, one, other):
            return Refusal(
                f"{one.kind.value} would have {one.extent} iterations as {one.var.name} and {other.extent} as "
                f"{other.var.name} in one kernel",
                "bind loops of the same extent to one axis (split them by the same factor), or use another axis",
                (one.var, other.var),
            )
    nested = [(other, loop) for other in above] + [(loop, other) for other in loops_below(loop.body)]
    for outer, inner in nested:
        why = _not_common(func, outer, inner) if outer.kind is inner.kind else ""
        if why:
            return Refusal(
                f"{inner.var.name} cannot be {inner.kind.in_words} inside {outer.var.name}, which is bound to it too: "
                f"{why}",
                "bind it to another axis; or let the threads share the work: compute the stage into scope 'shared', at "
                "a loop that is below the bound one already when the stage is placed there",
                (outer.var, inner.var),
            )
    return None


def _is_real(loop: For) -> bool:
    return loop.kind.is_bound and loop.kind not in VIRTUAL


def _not_common(func: Function, outer: For, inner: For) -> str:
    """Give the reason why the threads do not share the work of the inner loop and its results; "" if they do."""
    if inner.kind not in THREADS:
        return "blocks share no work"
    inside = list(blocks_below(inner.body))
    outside = [r for r in blocks_below(func.body) if not any(r is each for each in inside)]
    used = {*func.params, *(region.buffer for r in outside for region in (*r.block.reads, *r.block.writes))}
    for realize in inside:
        name = realize.block.name
        if any(outer.var in free_vars(e) for e in (*realize.values, realize.predicate)):
            return f"the values of {name} there are not the same for all threads"
        for buffer in (region.buffer for region in realize.block.writes):
            if buffer in used and not outer.kind.shares(buffer.scope):
                return f"{name} writes {buffer.name}, whose scope {buffer.scope!r} threads do not share"
    return ""


def reduction_refusal(loop: For, realize: BlockRealize) -> Refusal | None:
    """Give the reason why the threads of a loop cannot reduce into the same elements; None if they can."""
    axis, name = loop.kind.value, realize.block.name
    both = loop.var in bound_vars(realize, IterKind.SPATIAL)
    if loop.kind in THREADS and not both:
        return None
    why = "it binds spatial and reduce variables at once" if both else f"{axis} takes no part in reductions"
    return Refusal(
        f"{loop.var.name} cannot be bound to {axis}: its iterations add up into the same elements in block {name}, and "
        f"{why}",
        "bind a spatial loop, or bind a loop that only reduces to threadIdx.x, .y or .z",
        (loop.var, name),
    )


def recomputes(loop: For, realize: BlockRealize) -> bool:
    """Does each iteration of the loop compute the same again, from the beginning?"""
    if any(loop.var in free_vars(value) for value in realize.values):
        return False
    if not realize.block.is_reduction:
        return True
    inside = {x.var for x in loops_below(loop.body)}
    return realize.block.init is not None and bound_vars(realize, IterKind.REDUCE) <= inside
