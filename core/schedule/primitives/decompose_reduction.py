"""Primitive decompose_reduction."""

from __future__ import annotations

from dataclasses import replace

from pegbox.errors import ScheduleError
from pegbox.expr.build import ZERO, all_of, conjuncts
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.printer import unused_name
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.access.block_region import derived_regions
from pegbox.loops.nodes import Block, BlockRealize, For, seq
from pegbox.loops.visit import substitute_vars
from pegbox.schedule.analysis import reduce_values, spatial_values, variables
from pegbox.schedule.analysis.checks import check_inside
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree, nested


@primitive(moves=False)
def decompose_reduction(sch: ScheduleState, block: BlockRef | str, loop: LoopRef) -> BlockRef:
    """Initialize all elements before the loop instead of each at its first visit; return the block `NAME_init`.

    Before `decompose_reduction("C", k)`::

        for i in range(4):
            for k in range(16):
                for j in range(8):
                    block C:
                        init: C[vi, vj] = 0.0
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    After::

        for i in range(4):
            for j in range(8):
                block C_init:
                    C[vi, vj] = 0.0
            for k in range(16):
                for j in range(8):
                    block C:
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    Raises:
        ScheduleError: the block has no init, the loop is not around it, a reduce loop is outside the loop, or
            a loop inside binds spatial and reduce variables at once.
    """
    realize, target = sch.find_block(block), sch.find_loop(loop)
    name = unused_name(f"{realize.block.name}_init", sch.tree.names)
    sch.update(_decompose(sch.tree, realize, target, name))
    return BlockRef(name)


def _decompose(tree: Tree, realize: BlockRealize, loop: For, name: str) -> Tree:
    inside = _check(tree, realize, loop)
    used = variables(spatial_values(realize))
    fresh = {x.var: x.var.copy() for x in inside if x.var in used}
    gone = {x.var for x in inside} - fresh.keys()
    # An element is initialized at its first visit, when the reduce loops are at zero.
    first: dict[Var, Expr] = {**fresh, **dict.fromkeys(gone, ZERO)}
    parts = [(substitute(part, first), free_vars(part) & gone) for part in conjuncts(realize.predicate)]
    predicate = all_of([simplify(part, {}) if changed else part for part, changed in parts])
    values = tuple(substitute(value, fresh) for value in spatial_values(realize))
    # Annotations are hints for the update.
    loops = [replace(x, annotations=()) for x in inside if x.var in fresh]
    start = nested(BlockRealize(values, init_block(realize.block, name), predicate), loops, fresh)
    rest = Tree(tree.replace(realize, replace(realize, block=replace(realize.block, init=None))))
    target = rest.loops[loop.var]
    return Tree(rest.replace(target, seq(start, target)))


def init_block(block: Block, name: str) -> Block:
    """Return the block that initializes the elements of a reduction."""
    assert block.init is not None
    spatial = [it for it in block.iters if not it.is_reduce]
    iters = tuple(replace(it, var=it.var.copy()) for it in spatial)
    init = substitute_vars(block.init, {old.var: new.var for old, new in zip(spatial, iters, strict=True)})
    return Block(name, iters, *derived_regions(iters, init, None), init)


def _check(tree: Tree, realize: BlockRealize, loop: For) -> list[For]:
    """Return the loops from `loop` down to the block, after checking that the reduction can start before `loop`."""
    name = realize.block.name
    above = tree.ancestors(realize)
    if realize.block.init is None:
        raise ScheduleError(f"{name} has no init (any more)", "give a reduction that is still whole", name)
    check_inside(tree, realize, loop, "give one of get_loops(block)")
    place = above.index(loop)
    outside, inside = above[:place], above[place:]
    reduce = variables(reduce_values(realize))
    early = [x.var for x in outside if x.var in reduce and x.extent > 1]
    if early:
        names = ", ".join(v.name for v in early)
        raise ScheduleError(
            f"the reduce loop(s) {names} are outside {loop.var.name}, so that each of their iterations "
            "would initialize the elements again",
            f"give {early[0].name} or a loop further out",
            loop.var,
            *early,
        )
    spatial = variables(spatial_values(realize))
    known = determined(realize.values, {x.var for x in outside}, tree.ranges)
    for x in inside:
        if x.extent > 1 and (x.var not in known or (x.var in reduce and x.var in spatial)):
            raise ScheduleError(
                f"{x.var.name} binds spatial and reduce variables at once, or visits elements again",
                "do not fuse spatial with reduce loops; decompose inside the loop at which the block is computed",
                x.var,
                name,
            )
    return inside
