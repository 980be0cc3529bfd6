"""Primitives decompose_reduction and rfactor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pegbox.expr.build import TRUE, ZERO, conjuncts, logical_and
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.printer import unused_name
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.access.region import written_below
from pegbox.loops.nodes import Block, BlockIter, BlockRealize, For, Region, Stmt, seq
from pegbox.loops.visit import substitute_vars
from pegbox.schedule.analysis import reduce_values, spatial_values, variables
from pegbox.schedule.analysis.checks import check_inside
from pegbox.schedule.errors import refuse
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree


@primitive(moves=False)
def decompose_reduction(sch: ScheduleState, block: BlockRef | str, loop: LoopRef) -> BlockRef:
    """Start all elements before the loop instead of each at its first visit. Gives the block `NAME_init`.

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
        ScheduleError: the block has no init, the loop is not around it, a reduce loop is outside of the loop, or
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
    nest: Stmt = _init_block(realize, fresh, {x.var for x in inside} - set(fresh), name)
    for old in reversed(inside):
        if old.var in fresh:
            # Annotations are hints for the update.
            nest = For(fresh[old.var], old.extent, nest, old.kind)
    update = replace(realize, block=replace(realize.block, init=None))
    changed = Tree(tree.replace(realize, update))
    target = changed.loops[loop.var]
    return Tree(changed.replace(target, seq(nest, target)))


def _init_block(realize: BlockRealize, loops: Mapping[Var, Expr], gone: set[Var], name: str) -> BlockRealize:
    """The block that starts the elements, below copies of the spatial loops; the `gone` loops do not run there."""
    block = realize.block
    iters: list[BlockIter] = []
    values: list[Expr] = []
    mapping: dict[Var, Expr] = {}
    for it, value in zip(block.iters, realize.values, strict=True):
        if not it.is_reduce:
            copy = BlockIter(it.var.copy(), it.extent, it.kind)
            mapping[it.var] = copy.var
            iters.append(copy)
            values.append(substitute(value, loops))
    # An element starts at its first visit, where the reduce loops are at zero.
    first: dict[Var, Expr] = {**loops, **dict.fromkeys(gone, ZERO)}
    predicate: Expr = TRUE
    for part in conjuncts(realize.predicate):
        at_first = substitute(part, first)
        predicate = logical_and(predicate, at_first if not free_vars(part) & gone else simplify(at_first, {}))
    assert block.init is not None
    # A block of blocks may write more than it reduces: copies of its own.
    started = written_below(block.init)
    writes = tuple(
        Region(w.buffer, tuple((substitute(lo, mapping), n) for lo, n in w.box))
        for w in block.writes
        if w.buffer in started
    )
    init = substitute_vars(block.init, mapping)
    return BlockRealize(tuple(values), Block(name, tuple(iters), (), writes, init), predicate)


def _check(tree: Tree, realize: BlockRealize, loop: For) -> list[For]:
    """The loops from `loop` down to the block, if the reduction can start before `loop`."""
    name = realize.block.name
    above = tree.ancestors(realize)
    if realize.block.init is None:
        raise refuse(tree, f"{name} has no init (any more)", "give a reduction that is still whole", name)
    check_inside(tree, realize, loop, "give one of get_loops(block)")
    place = above.index(loop)
    outside, inside = above[:place], above[place:]
    reduce = variables(reduce_values(realize))
    early = [x.var for x in outside if x.var in reduce and x.extent > 1]
    if early:
        names = ", ".join(v.name for v in early)
        raise refuse(
            tree,
            f"the reduce loop(s) {names} are outside of {loop.var.name}, so that the elements would start "
            "again in each of their iterations",
            f"give {early[0].name} or a loop further out",
            loop.var,
            *early,
        )
    spatial = variables(spatial_values(realize))
    known = determined(realize.values, {x.var for x in outside}, tree.ranges)
    for x in inside:
        if x.extent > 1 and (x.var not in known or (x.var in reduce and x.var in spatial)):
            raise refuse(
                tree,
                f"{x.var.name} binds spatial and reduce variables at once, or visits elements again",
                "do not fuse spatial with reduce loops; decompose inside of the loop at which the block is computed",
                x.var,
                name,
            )
    return inside
