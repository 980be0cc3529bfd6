"""Taking a reduction apart into partial results and their combination: rfactor.

The idea is Halide's (Suriana, Adams and Kamil, "Parallel Associative Reductions in Halide", CGO 2017).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pegbox.expr.build import TRUE, all_of, logical_and, select
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.expr.printer import unused_name
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.access.region import point, reads_and_writes
from pegbox.loops.nodes import Block, BlockIter, BlockRealize, For, ForKind, Function, If, IterKind, Stmt, Store, seq
from pegbox.loops.reductions.combiner import store_all
from pegbox.schedule.analysis import reduce_values, variables
from pegbox.schedule.analysis.loop_kinds import check_kinds
from pegbox.schedule.rewrites.rfactor import RfactorPlan, rfactor_plan
from pegbox.schedule.state.base import ScheduleBase
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.tree import Tree, with_allocs

_Item = TypeVar("_Item")


class RfactorPrimitives(ScheduleBase):
    """Partial results."""

    @primitive
    def rfactor(self, loop: LoopRef, factor_axis: int = 0) -> BlockRef:
        """Let each iteration of a reduce loop reduce into an element of its own, and combine those afterwards.

        Args:
            loop: a loop that binds reduce variables only. It becomes a spatial loop of the partial results.
            factor_axis: the place of the new dimension among those of the output; negative counts from the end.

        Gives the block of the partial results, `NAME_rf`; the buffer that holds them is `OUTPUT_rf`.

        Before `rfactor(k_1)`::

            for i in range(8):
                for k_0 in range(3):
                    for k_1 in range(4):
                        block C:
                            where k_0 * 4 + k_1 < 10
                            init: C[vi] = 0.0
                            C[vi] = C[vi] + A[vi, vk]

        After::

            for i in range(8):
                for k_0 in range(3):
                    for k_1 in range(4):
                        block C_rf:
                            init: C_rf[vk_1, vi] = 0.0
                            if vk_0 * 4 + vk_1 < 10:
                                C_rf[vk_1, vi] = C_rf[vk_1, vi] + A[vi, vk_0 * 4 + vk_1]
            for i in range(8):
                for k_1 in range(4):
                    block C:
                        init: C[vi] = 0.0
                        C[vi] = C[vi] + C_rf[vk_1, vi]

        Raises:
            ScheduleError: not exactly one block is below the loop, or it is not a reduction, or was decomposed; its
                combiner is not known; the loop is spatial; some loop binds spatial and reduce variables at once;
                a reduce loop holds other blocks as well; `factor_axis` is not a place in the output.
        """
        before = self.tree
        plan = rfactor_plan(before, self._loop(loop), factor_axis)
        func, name = _rfactor(before, plan)
        after = Tree(func)
        marked = [v for v, x in after.loops.items() if x.kind not in (ForKind.SERIAL, ForKind.UNROLLED)]
        check_kinds(after, marked, before)
        self._set(after)
        return BlockRef(name)


def _rfactor(tree: Tree, plan: RfactorPlan) -> tuple[Function, str]:
    """The program with the two blocks, and the name of the first."""
    taken = {b.name for b in (*tree.func.params, *tree.func.allocs)}
    name = unused_name(f"{plan.realize.block.name}_rf", tree.names)
    held = tuple(
        Buffer(unused_name(f"{b.name}_rf", taken), _with(b.shape, plan.axis, plan.loop.extent), b.dtype, b.scope)
        for b in plan.combination.buffers
    )
    partial: Stmt = _partial(plan, held, name)
    for loop in reversed(plan.chain):
        partial = loop.with_body(partial)
    return with_allocs(tree.replace(plan.chain[0], seq(partial, _final(plan, held))), add=held), name


def _with(items: Sequence[_Item], place: int, new: _Item) -> tuple[_Item, ...]:
    return (*items[:place], new, *items[place:])


def _partial(plan: RfactorPlan, held: Sequence[Buffer], name: str) -> BlockRealize:
    """The block that reduces within one iteration of the loop; a loop of the group is a variable of it."""
    old = plan.realize.block
    loops = {
        x.var: BlockIter(Var(f"v{x.var.name}"), x.extent, IterKind.REDUCE) for x in plan.chain if x.var in plan.group
    }
    factor = replace(loops[plan.loop.var], kind=IterKind.SPATIAL)
    bound: list[tuple[BlockIter, Expr]] = [(factor, plan.loop.var)]
    bound += [(it, var) for var, it in loops.items() if var is not plan.loop.var]
    own: dict[Var, Expr] = {var: it.var for var, it in loops.items()}
    mapping: dict[Var, Expr] = {}
    for it, value in zip(old.iters, plan.realize.values, strict=True):
        if free_vars(value) & plan.group:
            mapping[it.var] = substitute(value, own)
        else:
            copy = replace(it, var=it.var.copy())
            mapping[it.var] = copy.var
            bound.append((copy, value))
    bound.sort(key=lambda pair: pair[0].is_reduce)
    inside = [substitute(part, own) for part in plan.inside]
    body, init = _partial_body(plan, held, factor.var, mapping, all_of(inside), reduces=bound[-1][0].is_reduce)
    written = set(held)
    reads, writes = reads_and_writes(body)
    notes = tuple(n for n in old.annotations if n[0] in ("combiner", "reducer")) if init is not None else ()
    block = Block(
        name, tuple(it for it, _ in bound), reads, tuple(w for w in writes if w.buffer in written), body, init, notes
    )
    return BlockRealize(tuple(value for _, value in bound), block, all_of([*plan.common, *plan.partial]))


def _partial_body(
    plan: RfactorPlan, held: Sequence[Buffer], factor: Var, mapping: Mapping[Var, Expr], inside: Expr, *, reduces: bool
) -> tuple[Stmt, Stmt | None]:
    """(body, init). Where no reduce variable is left, each element is the one value that there is, or the identity."""
    how = plan.combination
    places = [_with([substitute(i, mapping) for i in index], plan.axis, factor) for index in how.indices]
    sources = [substitute(source, mapping) for source in how.sources]
    condition = logical_and(inside, substitute(how.condition, mapping))
    if not reduces:
        chosen = [select(condition, s, e) for s, e in zip(sources, how.identity, strict=True)]
        return seq(*map(Store, held, places, chosen)), None
    before = [Load(b, place) for b, place in zip(held, places, strict=True)]
    update = store_all(held, places, how.combine(before, sources))
    init = seq(*map(Store, held, places, how.identity))
    return (update if condition is TRUE else If(condition, update)), init


def _final(plan: RfactorPlan, held: Sequence[Buffer]) -> Stmt:
    """The nest that combines the partial results: the spatial loops again, and the one over the new dimension."""
    old, how, loop = plan.realize.block, plan.combination, plan.loop
    reduce = variables(reduce_values(plan.realize)) - {loop.var}
    kept = [x for x in plan.chain if x.var not in reduce]
    fresh = {x.var: x.var.copy() for x in kept}
    bound = [
        (it, substitute(value, fresh))
        for it, value in zip(old.iters, plan.realize.values, strict=True)
        if not it.is_reduce
    ]
    over = BlockIter(Var(f"v{loop.var.name}"), loop.extent, IterKind.REDUCE)
    bound.append((over, fresh[loop.var]))
    before = [Load(b, index) for b, index in zip(how.buffers, how.indices, strict=True)]
    partial = [Load(b, _with(index, plan.axis, over.var)) for b, index in zip(held, how.indices, strict=True)]
    body = store_all(how.buffers, how.indices, how.combine(before, partial))
    reads = tuple(point(load.buffer, load.indices) for load in partial)
    block = replace(old, iters=tuple(it for it, _ in bound), reads=reads, body=body)
    predicate = all_of([substitute(part, fresh) for part in plan.common])
    nest: Stmt = BlockRealize(tuple(value for _, value in bound), block, predicate)
    for x in reversed(kept):
        plain = x is loop
        kind, notes = (ForKind.SERIAL, ()) if plain else (x.kind, x.annotations)
        nest = For(fresh[x.var], x.extent, nest, kind, notes)
    return nest
