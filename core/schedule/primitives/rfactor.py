"""Primitive rfactor, which splits a reduction along a loop.

The idea is Halide's (Suriana, Adams and Kamil, "Parallel Associative Reductions in Halide", CGO 2017).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import NoReturn, TypeVar

from pegbox.errors import ScheduleError
from pegbox.expr.build import TRUE, all_of, conjuncts, logical_and, select
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.expr.printer import unused_name
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.access.region import point, reads_and_writes
from pegbox.loops.nodes import Block, BlockIter, BlockRealize, For, ForKind, Function, If, IterKind, Stmt, Store, seq
from pegbox.loops.reductions.combiner import Combination, combination_of, store_all
from pegbox.schedule.analysis import is_ordered, reduce_values, spatial_values, variables
from pegbox.schedule.analysis.checks import check_only_writer
from pegbox.schedule.analysis.loop_kinds import check_kinds
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree, blocks_below, nested, with_allocs
from pegbox.shown import value_text

_Item = TypeVar("_Item")


@primitive
def rfactor(sch: ScheduleState, loop: LoopRef, factor_axis: int = 0) -> BlockRef:
    """Let each iteration of a reduce loop reduce into its own element, and combine these afterwards.

    Args:
        loop: a loop that binds reduce variables only. It becomes a spatial loop of the partial results.
        factor_axis: the position of the new dimension among those of the output; a negative one counts from the end.

    Returns the block of the partial results, `NAME_rf`; the buffer that holds them is `OUTPUT_rf`.

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
        ScheduleError: there is not exactly one block below the loop, or it is not a reduction, or was decomposed; its
            combiner is not known; the loop is spatial; a loop binds spatial and reduce variables at once; a reduce loop
            contains other blocks, too; or `factor_axis` is not a position in the output.
    """
    before = sch.tree
    plan = _Checks(before, sch.find_loop(loop), factor_axis).done()
    func, name = _rfactored(before, plan)
    after = Tree(func)
    check_kinds(after, None)
    sch.update(after)
    return BlockRef(name)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A plan to split a reduction along `loop`.

    `chain` are the loops that contain only the block, outermost first. `group` are the loops that are bound together
    with `loop`: these loops replace the reduce variables that they bind. The conditions on the block depend on the
    group (`inside`), on other reduce loops (`partial`), or on no reduce loop (`common`).
    """

    realize: BlockRealize
    combination: Combination
    loop: For
    axis: int
    chain: Sequence[For]
    group: Set[Var]
    inside: Sequence[Expr]
    partial: Sequence[Expr]
    common: Sequence[Expr]


class _Checks:
    def __init__(self, tree: Tree, loop: For, factor_axis: object) -> None:
        self.tree = tree
        self.loop = loop
        self.factor_axis = factor_axis

    def done(self) -> _Plan:
        realize = self._only_block()
        combination = self._combination(realize)
        axis = self._axis(combination)
        self._check_binding(realize)
        chain = self._chain(realize)
        group = self._group(realize)
        reduce = variables(reduce_values(realize))
        inside: list[Expr] = []
        partial: list[Expr] = []
        common: list[Expr] = []
        for part in conjuncts(realize.predicate):
            loops = free_vars(part)
            if loops & group and not loops <= group:
                self._refuse(
                    f"the condition {part} joins {self.loop.var.name} with loops of other variables",
                    "rfactor first, then move or fuse",
                )
            (inside if loops & group else partial if loops & reduce else common).append(part)
        return _Plan(realize, combination, self.loop, axis, chain, group, inside, partial, common)

    def _refuse(self, problem: str, remedy: str, *marked: Var | str) -> NoReturn:
        raise ScheduleError(problem, remedy, self.loop.var, *marked)

    def _only_block(self) -> BlockRealize:
        below = list(blocks_below(self.loop.body))
        if len(below) != 1:
            names = [r.block.name for r in below]
            self._refuse(
                f"{len(below)} blocks are below the loop: {', '.join(names)}",
                "rfactor first, compute_at after, or give a loop around the reduction alone",
                *names,
            )
        return below[0]

    def _combination(self, realize: BlockRealize) -> Combination:
        block = realize.block
        if not block.is_reduction:
            self._refuse(f"block {block.name} is not a reduction", "give a loop of a reduction", block.name)
        if block.init is None:
            self._refuse(
                f"{block.name} has no init (any more), so partial results would have no initial value",
                "rfactor first, decompose_reduction after",
                block.name,
            )
        found = combination_of(block)
        if is_ordered(block):
            self._refuse(
                f"the reduction of {block.name} is ordered, and its partial results would not be combined in order",
                "write the partial results as a stage of the computation",
                block.name,
            )
        if found is None:
            self._refuse(
                f"it is not known how {block.name} combines values, or from which identity on",
                "update by a sum, prod, max, min or argmax from their identity on, or make it with te.comm_reducer",
                block.name,
            )
        remedy = "give a reduction whose results no other block writes"
        check_only_writer(self.tree, realize, found.buffers, remedy, self.loop.var)
        return found

    def _axis(self, combination: Combination) -> int:
        buffer = combination.buffers[0]
        rank, given = len(buffer.shape), integer(self.factor_axis)
        if given is None or not -rank - 1 <= given <= rank:
            self._refuse(
                f"factor_axis={value_text(self.factor_axis)} is not a place among the {rank} dimension(s) of "
                f"{buffer.name}",
                f"give one from {-rank - 1} to {rank}",
            )
        if any(len(b.shape) != rank for b in combination.buffers):
            self._refuse("the outputs differ in the number of dimensions", "leave it whole")
        return given if given >= 0 else given + rank + 1

    def _check_binding(self, realize: BlockRealize) -> None:
        """Check that each loop around the block binds spatial or reduce variables, and this one reduce variables."""
        name = realize.block.name
        spatial, reduce = variables(spatial_values(realize)), variables(reduce_values(realize))
        if self.loop.var in spatial and self.loop.var not in reduce:
            self._refuse(f"it is a spatial loop of {name}", "give a reduce loop", name)
        for both in (x for x in self.tree.ancestors(realize) if x.var in spatial and x.var in reduce):
            self._refuse(
                f"{both.var.name} binds spatial and reduce variables of {name} at once",
                "do not fuse spatial with reduce loops",
                both.var,
            )
        if self.loop.var not in reduce:
            self._refuse(f"it binds no variable of {name}", "give a reduce loop of more than one iteration", name)
        own = {it.var for it in realize.block.iters if it.is_reduce}
        if any(free_vars(lo) & own for w in realize.block.writes for lo, _ in w.box):
            self._refuse(f"{name} writes where its reduce variables say", "give a reduction into fixed elements", name)

    def _chain(self, realize: BlockRealize) -> list[For]:
        chain: list[For] = []
        up = self.tree.parents.get(id(realize))
        while isinstance(up, For):
            chain.insert(0, up)
            up = self.tree.parents.get(id(up))
        bound, reduce = variables(realize.values), variables(reduce_values(realize))
        held = {x.var for x in chain}
        for loop in self.tree.ancestors(realize):
            if loop.var in reduce and loop.var not in held:
                self._refuse(
                    f"the reduce loop {loop.var.name} of {realize.block.name} holds other blocks as well",
                    "rfactor first, compute_at after",
                    loop.var,
                )
            if loop.var in held and loop.var not in bound and loop.extent > 1:
                self._refuse(
                    f"{loop.var.name} binds no variable of {realize.block.name}: it repeats the reduction",
                    "rfactor first, then add such loops",
                    loop.var,
                )
        return chain

    def _group(self, realize: BlockRealize) -> set[Var]:
        """Return the loop, and all loops that are connected with it through shared reduce variables."""
        bindings = [free_vars(value) for value in reduce_values(realize)]
        group = {self.loop.var}
        while True:
            wider = group.union(*(loops for loops in bindings if loops & group))
            if wider == group:
                return group
            group = wider


def _rfactored(tree: Tree, plan: _Plan) -> tuple[Function, str]:
    """Return the program with the two blocks, and the name of the first one."""
    taken = {b.name for b in (*tree.func.params, *tree.func.allocs)}
    name = unused_name(f"{plan.realize.block.name}_rf", tree.names)
    held = tuple(
        Buffer(unused_name(f"{b.name}_rf", taken), _with(b.shape, plan.axis, plan.loop.extent), b.dtype, b.scope)
        for b in plan.combination.buffers
    )
    partial = nested(_partial(plan, held, name), plan.chain)
    return with_allocs(tree.replace(plan.chain[0], seq(partial, _final(plan, held))), add=held), name


def _with(items: Sequence[_Item], place: int, new: _Item) -> tuple[_Item, ...]:
    return (*items[:place], new, *items[place:])


def _partial(plan: _Plan, held: Sequence[Buffer], name: str) -> BlockRealize:
    """Return the block that reduces within one iteration of the loop; a loop of the group is a variable of it."""
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
    plan: _Plan, held: Sequence[Buffer], factor: Var, mapping: Mapping[Var, Expr], inside: Expr, *, reduces: bool
) -> tuple[Stmt, Stmt | None]:
    """Return the body and init. Without a reduce variable, each element is a single value, or the identity."""
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


def _final(plan: _Plan, held: Sequence[Buffer]) -> Stmt:
    """Return the nest that combines the partial results: the spatial loops and the loop over the new dimension."""
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
    loops = [replace(x, kind=ForKind.SERIAL, annotations=()) if x is loop else x for x in kept]
    return nested(BlockRealize(tuple(value for _, value in bound), block, predicate), loops, fresh)
