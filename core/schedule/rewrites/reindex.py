"""Rewrites of reindex and transform_block_layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pegbox.errors import ExprError, ScheduleError
from pegbox.expr.bounds import bounds
from pegbox.expr.equal import same
from pegbox.expr.index_layout import Layout
from pegbox.expr.index_map import IndexMap
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import free_vars, loads, substitute
from pegbox.loops.nodes import Block, BlockIter, BlockRealize, For, IterKind, Region, Stmt
from pegbox.loops.passes.notes import has_alignment
from pegbox.loops.visit import iter_ranges, map_exprs
from pegbox.schedule.errors import refuse
from pegbox.schedule.rewrites.copy import after_writers, assign_block, before_readers
from pegbox.schedule.rewrites.layout import Indices, fresh_iters, is_plain_nest, obstacle, with_indices
from pegbox.schedule.tree import Tree


@dataclass(frozen=True, slots=True)
class Copy:
    """The buffer to be made: with a dimension for each variable that is used, or where a map of all variables says.

    Without a scope it is in that of the buffer that it stands for.
    """

    name: str
    scope: str | None = None
    index_map: IndexMap | None = None

    def laid_out(self, buffer: Buffer, block: Block, used: Sequence[BlockIter]) -> tuple[Buffer, Indices]:
        """The buffer, and the place in it for the variables.

        Raises:
            ExprError: the map takes several of the values to one place, or speaks of variables that are not used.
        """
        shape, where = tuple(it.extent for it in used), tuple[Expr, ...](it.var for it in used)
        if self.index_map is not None:
            where = tuple(self.index_map.map_indices([it.var for it in block.iters], iter_ranges(block.iters)))
            other = set().union(*map(free_vars, where)) - {it.var for it in used}
            if other:
                raise ExprError(f"{self.index_map} depends on {other.pop().name}, on which {buffer.name} does not")
            shape = IndexMap([it.var for it in used], where).layout(shape).shape
        return Buffer(self.name, shape, buffer.dtype, self.scope or buffer.scope), where


def reindex_read(tree: Tree, realize: BlockRealize, source: Buffer, copy: Copy) -> Tree:
    """The program in which a block reads `source` through a copy with a dimension for each variable."""
    indices = _indices(tree, realize, source)
    _check_inside(tree, realize, indices, source)
    used, target, where = _own_dimensions(tree, realize, indices, source, copy)
    fresh = fresh_iters([it.extent for it in used])
    moved: dict[Var, Expr] = {old.var: new.var for old, new in zip(used, fresh, strict=True)}
    value = Load(source, tuple(substitute(i, moved) for i in indices))
    block = assign_block(copy.name, fresh, target, tuple(substitute(i, moved) for i in where), value)
    changed = Tree(tree.replace(realize, with_indices(realize, source, target, lambda _: where)))
    return before_readers(changed, block, source, target, [realize.block.name])


def reindex_write(tree: Tree, realize: BlockRealize, original: Buffer, copy: Copy) -> Tree:
    """The program in which a block writes a buffer with a dimension for each variable, which is copied afterwards."""
    own = realize.block.name
    others = [w.block.name for w in tree.writers(original) if w is not realize]
    if others:
        raise refuse(tree, f"{others[0]} writes {original.name} too", "reindex first, decompose_reduction after", own)
    if has_alignment(realize, original):
        problem = f"storage_align has spoken of the dimensions of {original.name} as they are"
        raise refuse(tree, problem, "reindex first, storage_align after", own)
    indices = _indices(tree, realize, original)
    _check_inside(tree, realize, indices, original)
    used, target, where = _own_dimensions(tree, realize, indices, original, copy)
    spatial = [it for it in realize.block.iters if not it.is_reduce and it.extent > 1]
    missing = [it.var.name for it in spatial if not any(it is u for u in used)]
    problem = f"{original.name} is not written at another place for each {missing[0]}" if missing else ""
    try:
        IndexMap([it.var for it in used], indices).layout([it.extent for it in used])
    except ExprError as error:
        problem = str(error)
    if realize.block.is_reduction and any(it.is_reduce for it in used):
        problem = f"all that {own} has are reduce variables"
    if problem:
        raise refuse(tree, problem, "reindex blocks that write each element once", own)
    fresh = fresh_iters([it.extent for it in used])
    moved: dict[Var, Expr] = {old.var: new.var for old, new in zip(used, fresh, strict=True)}
    places = tuple(substitute(i, moved) for i in indices)
    block = assign_block(copy.name, fresh, original, places, Load(target, tuple(substitute(i, moved) for i in where)))
    readers = [r.block.name for r in tree.readers(original) if r is not realize]
    changed = Tree(tree.replace(realize, with_indices(realize, original, target, lambda _: where)))
    return after_writers(changed, block, target, original, [own], readers)


def _indices(tree: Tree, realize: BlockRealize, buffer: Buffer) -> Indices:
    """The one place at which a block uses a buffer."""
    name = realize.block.name
    regions = [r for r in (*realize.block.reads, *realize.block.writes) if r.buffer is buffer]
    places: list[Indices] = []
    for region in regions:
        place = tuple(lo for lo, _ in region.box)
        if not any(all(map(same, place, known)) for known in places):
            places.append(place)
    variables = {it.var for it in realize.block.iters}
    problem = obstacle(realize, buffer)
    if problem is None and len(places) > 1:
        problem = f"{name} uses {buffer.name} at {len(places)} places"
    if problem is None and any(True for i in places[0] for _ in loads(i)):
        problem = f"{name} uses {buffer.name} at places that are read from memory"
    if problem is None and any(free_vars(i) - variables for i in places[0]):
        problem = f"{name} uses {buffer.name} in loops of its own"
    if problem is not None:
        remedy = "reindex works for blocks that use the buffer at one place, a function of their variables"
        raise refuse(tree, problem, remedy, name)
    return places[0]


def _check_inside(tree: Tree, realize: BlockRealize, indices: Indices, buffer: Buffer) -> None:
    """Raises ScheduleError: only a condition keeps the block inside of the buffer; the copy would not know of it."""
    ranges = iter_ranges(realize.block.iters)
    for index, extent in zip(indices, buffer.shape, strict=True):
        between = bounds(simplify(index, ranges), ranges)
        if between is None or between[0] < 0 or between[1] >= extent:
            raise refuse(
                tree,
                f"the index {index} may lie outside of {buffer.name}{list(buffer.shape)}, where a condition "
                f"in {realize.block.name} keeps it from being used",
                "compute the padding in a block of its own",
                realize.block.name,
            )


def _own_dimensions(
    tree: Tree, realize: BlockRealize, indices: Indices, buffer: Buffer, copy: Copy
) -> tuple[list[BlockIter], Buffer, Indices]:
    """The variables that the indices depend on, the buffer for them, and the place in it."""
    free = set().union(*map(free_vars, indices)) if indices else set()
    used = [it for it in realize.block.iters if it.var in free]
    if not used:
        # A constant place: one dimension is the least that a buffer has. A sum's init knows the spatial ones alone.
        used = sorted(realize.block.iters, key=lambda it: it.is_reduce)[:1]
    try:
        return used, *copy.laid_out(buffer, realize.block, used)
    except ExprError as error:
        remedy = "give a map of the block's variables such as lambda i, j: (j, i)"
        raise refuse(tree, str(error), remedy, realize.block.name) from error


def with_block_layout(tree: Tree, realize: BlockRealize, layout: Layout) -> Tree:
    """The program in which a block has other variables, in plain loops of their own."""
    block = realize.block
    if not is_plain_nest(tree, realize):
        raise refuse(
            tree,
            f"{block.name} does not stand in plain serial loops of its own, one for each variable",
            "transform_block_layout first, split, reorder and compute_at after",
            block.name,
        )
    try:
        inverse = layout.map.inverse(layout.old_shape)
    except ExprError as error:
        remedy = "give a map that takes each place of the new domain, with factors that divide"
        raise refuse(tree, str(error), remedy, block.name) from error
    kinds = [_kind(tree, realize, layout, n) for n in range(len(layout.shape))]
    iters = tuple(replace(it, kind=kind) for it, kind in zip(fresh_iters(layout.shape), kinds, strict=True))
    ranges = iter_ranges(iters)
    back = inverse.map_indices([it.var for it in iters], ranges)
    old: dict[Var, Expr] = {it.var: value for it, value in zip(block.iters, back, strict=True)}

    def change(expr: Expr) -> Expr:
        return simplify(substitute(expr, old), ranges)

    changed = replace(
        block,
        iters=iters,
        reads=tuple(Region(r.buffer, tuple((change(lo), n) for lo, n in r.box)) for r in block.reads),
        writes=tuple(Region(r.buffer, tuple((change(lo), n) for lo, n in r.box)) for r in block.writes),
        body=map_exprs(block.body, change),
        init=None if block.init is None else map_exprs(block.init, change),
    )
    loops = [Var(f"ax{n}") for n in range(len(iters))]
    nest: Stmt = BlockRealize(tuple(loops), changed)
    for var, it in reversed(list(zip(loops, iters, strict=True))):
        nest = For(var, it.extent, nest)
    return Tree(tree.replace(tree.top_of(realize), nest))


def _kind(tree: Tree, realize: BlockRealize, layout: Layout, number: int) -> IterKind:
    used = free_vars(layout.map.final_indices[number])
    pairs = zip(layout.map.initial_indices, realize.block.iters, strict=True)
    kinds = {it.kind for var, it in pairs if var in used}
    if len(kinds) > 1:
        raise _mixed(tree, realize, layout, number)
    return kinds.pop() if kinds else IterKind.SPATIAL


def _mixed(tree: Tree, realize: BlockRealize, layout: Layout, number: int) -> ScheduleError:
    return refuse(
        tree,
        f"{layout.map.final_indices[number]} mixes spatial with reduce variables",
        "map spatial variables to spatial ones, and reduce variables to reduce ones",
        realize.block.name,
    )
