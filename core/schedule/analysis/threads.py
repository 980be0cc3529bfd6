"""Legality of `bind`: which loops may be bound to which thread axes, and what the threads share."""

from __future__ import annotations

from collections.abc import Iterable, Set
from itertools import combinations

from pegbox.compute.thread_axis import THREAD_TAGS, VIRTUAL_TAGS
from pegbox.expr.nodes import Var
from pegbox.loops.nodes import BlockRealize, For, ForKind, thread_tag
from pegbox.loops.threads.axes import is_shared
from pegbox.schedule.analysis import mentions, reduce_values, spatial_values, variables
from pegbox.schedule.errors import refuse
from pegbox.schedule.tree import Tree, blocks_below, loops_below


def shared_loops(loops: Iterable[For], scopes: Set[str]) -> set[Var]:
    """Those of the loops along which threads share what is made into buffers of these scopes.

    What is computed below them is computed for all of their iterations: the rule of TVM's storage ranks.
    """
    return {loop.var for loop in loops if any(is_shared(scope, loop) for scope in scopes)}


def check_axes(tree: Tree, loop: For, shown: Tree) -> None:
    """May the loop be bound as it is, among the other thread loops?

    Raises:
        ScheduleError: an axis has different extents in one kernel, or stands twice on a path for no common work.
    """
    _check_extents(tree, loop, shown)
    if thread_tag(loop) in VIRTUAL_TAGS:
        return
    for other in tree.ancestors(loop):
        if thread_tag(other) == thread_tag(loop):
            _check_twice(tree, other, loop, shown)
    for other in loops_below(loop.body):
        if thread_tag(other) == thread_tag(loop):
            _check_twice(tree, loop, other, shown)


def _check_extents(tree: Tree, loop: For, shown: Tree) -> None:
    """One kernel is what stands below an outermost loop over blocks or threads."""
    real = [x for x in (*tree.ancestors(loop), loop) if _is_real(x)]
    if not real:
        return
    axes: dict[str, list[For]] = {}
    for each in loops_below(real[0]):
        if _is_real(each):
            axes.setdefault(thread_tag(each), []).append(each)
    for tag, loops in axes.items():
        for one, other in combinations(loops, 2):
            if one.extent != other.extent and (one is loop or other is loop or loop is real[0]):
                raise refuse(
                    shown,
                    f"{tag} would have {one.extent} iterations as {one.var.name} and {other.extent} as "
                    f"{other.var.name} in one kernel",
                    "bind loops of the same extent to one axis (split them by the same factor), or use another axis",
                    one.var,
                    other.var,
                )


def _is_real(loop: For) -> bool:
    """Bound to blocks or threads, and not to virtual threads, of which each stage has its own."""
    return loop.kind is ForKind.THREAD and thread_tag(loop) not in VIRTUAL_TAGS


def _check_twice(tree: Tree, outer: For, inner: For, shown: Tree) -> None:
    """One more loop of an axis inside of it: fine where the threads share that work and what comes of it."""
    tag = thread_tag(inner)
    why = "blocks share no work" if tag not in THREAD_TAGS else _not_common(tree, outer, inner)
    if why:
        raise refuse(
            shown,
            f"{inner.var.name} cannot be bound to {tag} inside of {outer.var.name}, which is bound to it too: {why}",
            "bind it to another axis; or let the threads share the work: compute the stage into scope 'shared', at a "
            "loop that is below the bound one already when the stage is placed there",
            outer.var,
            inner.var,
        )


def _not_common(tree: Tree, outer: For, inner: For) -> str:
    for realize in blocks_below(inner.body):
        name = realize.block.name
        if any(mentions(e, outer.var) for e in (*realize.values, realize.predicate)):
            return f"what {name} computes there is not the same for all threads"
        for region in realize.block.writes:
            buffer = region.buffer
            users = (*tree.readers(buffer), *tree.writers(buffer))
            seen = buffer in tree.func.params or any(not tree.is_under(u, inner) for u in users)
            if seen and not is_shared(buffer.scope, outer):
                return f"{name} writes {buffer.name}, whose scope {buffer.scope!r} threads do not share"
    return ""


def check_reduction(loop: For, realize: BlockRealize, shown: Tree) -> None:
    """Raises ScheduleError: the threads cannot reduce into the same elements."""
    tag, name = thread_tag(loop), realize.block.name
    both = any(mentions(v, loop.var) for v in spatial_values(realize))
    if tag in THREAD_TAGS and not both:
        return
    why = "it binds spatial and reduce variables at once" if both else f"{tag} takes no part in reductions"
    raise refuse(
        shown,
        f"{loop.var.name} cannot be bound to {tag}: its iterations add up into the same elements in block {name}, and "
        f"{why}",
        "bind a spatial loop, or bind a loop that only reduces to threadIdx.x, .y or .z",
        loop.var,
        name,
    )


def recomputes(tree: Tree, loop: For, realize: BlockRealize) -> bool:
    """Does each iteration of the loop compute the same again, from the beginning?"""
    if any(mentions(v, loop.var) for v in realize.values):
        return False
    if not realize.block.is_reduction:
        return True
    inside = {x.var for x in loops_below(loop.body)}
    return realize.block.init is not None and variables(reduce_values(realize)) <= inside
