"""Primitives for the shape of nests and blocks: add_unit_loop, loop_partition, merge, reorder_block_iter_var."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from pegbox.errors import ScheduleError
from pegbox.expr.bounds import bounds
from pegbox.expr.build import ZERO, add, index
from pegbox.expr.dtypes import integer
from pegbox.expr.equal import same
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.printer import unused_name
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import substitute
from pegbox.loops.copy import fresh_copy
from pegbox.loops.nodes import BlockRealize, For, If, Stmt, seq
from pegbox.loops.visit import loop_ranges, map_children, realizes
from pegbox.schedule.analysis import reduce_values, spatial_values, variables
from pegbox.schedule.analysis.checks import check_serial
from pegbox.schedule.analysis.loop_kinds import check_kinds
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree, blocks_below


@primitive(any_block=True)
def add_unit_loop(sch: ScheduleState, block_or_loop: LoopRef | BlockRef | str) -> LoopRef:
    """Put a loop of one iteration around a block or a loop.

    Before `add_unit_loop("C")`::

        for i in range(4):
            block C: ...

    After::

        for i in range(4):
            for u in range(1):
                block C: ...
    """
    is_loop = isinstance(block_or_loop, LoopRef)
    old: Stmt = sch.find_loop(block_or_loop) if is_loop else sch.find_block(block_or_loop)  # type: ignore[arg-type]
    unit = Var("u")
    sch.update(sch.tree.replace(old, For(unit, 1, old)))
    return LoopRef(unit)


@primitive(moves=False)
def loop_partition(
    sch: ScheduleState, loop: LoopRef, factors: Sequence[int | None], preserve_unit_iters: bool = True
) -> list[LoopRef]:
    """Cut a loop into consecutive loops over parts of its range, each with its own blocks; return these loops.

    Args:
        factors: the number of iterations of each part; one of them may be None, and takes the rest. Otherwise,
            remaining iterations make one more part.
        preserve_unit_iters: keep the loops of parts that have one iteration only.

    Before `loop_partition(i, [2, None])`::

        for i in range(10):
            block C: vi = i

    After::

        for i in range(2):
            block C_i_0: vi = i
        for i in range(8):
            block C_i_1: vi = i + 2

    If a reduce loop is cut, only the first part initializes the reduction; the others continue it.

    Raises:
        ScheduleError: the parts have more iterations than the loop; the loop is not serial, or is annotated; or a
            reduction would start in several parts.
    """
    old = sch.find_loop(loop)
    sizes = _sizes(old, factors)
    _check_plain(sch.tree, old)
    taken = set(sch.tree.names)
    parts: list[tuple[Var, Stmt]] = []
    keep: list[bool] = []
    for number, (size, end) in enumerate(zip(sizes, accumulate(sizes), strict=True)):
        names = {r.block.name: _unused(f"{r.block.name}_{old.var.name}_{number}", taken) for r in realizes(old)}
        keep.append(size > 1 or preserve_unit_iters)
        parts.append(_part(sch.tree, old, end - size, size, names, keep=keep[-1]))
    after = Tree(sch.tree.replace(old, seq(*(stmt for _, stmt in parts))))
    # The parts now share the buffers that each iteration of an inner parallel loop had for itself.
    copied = [v for v, x in after.loops.items() if x.kind.is_concurrent and v not in sch.tree.loops]
    check_kinds(after, copied)
    sch.update(after)
    return [LoopRef(var) for (var, _), kept in zip(parts, keep, strict=True) if kept]


@primitive(any_block=True)
def reorder_block_iter_var(sch: ScheduleState, block: BlockRef | str, new_order: Sequence[int]) -> None:
    """Reorder the variables of a block; the loops around it stay.

    `compute_at` and `blockize` make their loops in the order of the variables.

    Before `reorder_block_iter_var("C", [1, 0])`::

        for i in range(4):
            for j in range(8):
                block C: vi = i, vj = j

    After::

        for i in range(4):
            for j in range(8):
                block C: vj = j, vi = i

    Raises:
        ScheduleError: `new_order` does not hold the number of each variable once.
    """
    old = sch.find_block(block)
    count = len(old.block.iters)
    order = [integer(n) for n in new_order]
    if sorted(n if n is not None else -1 for n in order) != list(range(count)):
        names = ", ".join(f"{n}: {it.var.name}" for n, it in enumerate(old.block.iters))
        raise ScheduleError(
            f"{list(new_order)} does not hold each variable once",
            f"give the positions of all variables in their new order; they are {names}",
            old.block.name,
        )
    numbers = [n for n in order if n is not None]
    iters = tuple(old.block.iters[n] for n in numbers)
    values = tuple(old.values[n] for n in numbers)
    changed = BlockRealize(values, replace(old.block, iters=iters), old.predicate)
    sch.update(sch.tree.replace(old, changed))


def _sizes(loop: For, factors: Sequence[int | None]) -> list[int]:
    given = [None if f is None else integer(f) for f in factors]
    if not given or any(n is not None and n < 1 for n in given) or given.count(None) != list(factors).count(None):
        raise ScheduleError(f"{list(factors)} are not sizes", "give integers from 1 up, one may be None")
    known = sum(n for n in given if n is not None)
    rest = loop.extent - known
    if given.count(None) > 1 or rest < (None in given):
        raise ScheduleError(
            f"{known} iterations and {given.count(None)} further part(s) "
            f"do not fit into the {loop.extent} iterations of {loop.var.name}",
            "give sizes that leave at least one iteration for the part None, of which there may be one",
            loop.var,
        )
    sizes = [rest if n is None else n for n in given]
    return sizes if sum(sizes) == loop.extent else [*sizes, rest]


def _check_plain(tree: Tree, loop: For) -> None:
    check_serial(loop, "cut the loop first, then say how its parts run")
    for realize in blocks_below(loop):
        reduce, spatial = variables(reduce_values(realize)), variables(spatial_values(realize))
        if realize.block.init is None or loop.var not in reduce or loop.var in spatial:
            continue
        start: dict[Var, Expr] = dict.fromkeys(reduce, ZERO)
        values = reduce_values(realize)
        zero = all(same(simplify(substitute(v, start), tree.ranges), ZERO) for v in values)
        if not zero or loop.var not in determined(values, spatial, tree.ranges):
            raise ScheduleError(
                f"the reduction {realize.block.name} may start in several of the parts",
                "use decompose_reduction first",
                loop.var,
                realize.block.name,
            )


def _part(tree: Tree, loop: For, first: int, size: int, names: Mapping[str, str], *, keep: bool) -> tuple[Var, Stmt]:
    """Return a part of a loop, `size` iterations from `first` on, with fresh loops and new block names."""
    var = Var(loop.var.name)
    copied = fresh_copy(loop.body, names.__getitem__)
    ranges = {**tree.ranges, **loop_ranges(copied), var: (0, size - 1)}
    here = {loop.var: add(var, index(first)) if keep else index(first)}

    def value(expr: Expr) -> Expr:
        return simplify(substitute(expr, here), ranges)

    def goes_on(realize: BlockRealize) -> bool:
        """Check if an earlier part has started the reduction."""
        values = reduce_values(realize)
        if loop.var in variables(values) - variables(spatial_values(realize)):
            return True
        lowest = (bounds(value(v), ranges) for v in values)
        return any(between is not None and between[0] > 0 for between in lowest)

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, BlockRealize):
            starts = first == 0 or not goes_on(stmt)
            block = stmt.block if starts else replace(stmt.block, init=None)
            return BlockRealize(tuple(map(value, stmt.values)), block, value(stmt.predicate))
        inner = map_children(stmt, change)
        return replace(inner, condition=value(inner.condition)) if isinstance(inner, If) else inner

    body = change(copied)
    return var, For(var, size, body) if keep else body


def _unused(name: str, taken: set[str]) -> str:
    label = unused_name(name, taken)
    taken.add(label)
    return label
