"""Rewrites of transform_layout and related primitives: new layouts of buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pegbox.expr.bounds import bounds
from pegbox.expr.build import as_expr, cast, conjuncts, logical_not, select
from pegbox.expr.index_layout import Layout
from pegbox.expr.index_map import IndexMap
from pegbox.expr.low_level import Stride
from pegbox.expr.nodes import Buffer, Compare, CompareOp, Expr, Load, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import rewrite, substitute, walk
from pegbox.loops.access.region import point
from pegbox.loops.nodes import Block, BlockRealize, ForKind, Region, Stmt, Store
from pegbox.loops.visit import expressions, iter_ranges, loop_ranges, map_blocks, map_children, map_exprs, realizes
from pegbox.loops.visit import walk as walk_stmts
from pegbox.schedule.rewrites.cache_copy import fresh_iters, store_block
from pegbox.schedule.rewrites.placement import nest
from pegbox.schedule.tree import Tree

Indices = tuple[Expr, ...]
_NEGATED: dict[CompareOp, CompareOp] = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}


def with_indices(realize: BlockRealize, old: Buffer, new: Buffer, change: Callable[[Indices], Indices]) -> BlockRealize:
    """Return the block on another buffer; `change` turns indices of the old one into indices of the new one."""

    def leaf(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer is old:
            return e.at(new, change(tuple(rewrite(i, leaf) for i in e.indices)))
        return None

    def go(stmt: Stmt) -> Stmt:
        inner = map_children(stmt, go)
        if isinstance(inner, Store) and inner.buffer is old:
            return Store(new, change(inner.indices), inner.value)
        return _with_regions(inner, region) if isinstance(inner, BlockRealize) else inner

    def region(r: Region) -> Region:
        return point(new, change(tuple(lo for lo, _ in r.box))) if r.buffer is old else r

    changed = go(map_exprs(realize, lambda e: rewrite(e, leaf)))
    assert isinstance(changed, BlockRealize)
    return changed


def _with_regions(realize: BlockRealize, change: Callable[[Region], Region]) -> BlockRealize:
    b = realize.block
    regions = replace(b, reads=tuple(map(change, b.reads)), writes=tuple(map(change, b.writes)))
    return BlockRealize(realize.values, regions, realize.predicate)


def layout_problem(realize: BlockRealize, buffer: Buffer) -> str | None:
    """Return the reason that the indices of a buffer in a block cannot be changed one by one; None if they can."""
    for stmt in walk_stmts(realize):
        if isinstance(stmt, BlockRealize):
            regions = (*stmt.block.reads, *stmt.block.writes)
            if any(r.buffer is buffer and any(n > 1 for _, n in r.box) for r in regions):
                return f"block {stmt.block.name} uses a whole box of {buffer.name}"
            if any(r.buffer is buffer and _leaves(stmt.block, r) for r in regions):
                return f"block {stmt.block.name} uses {buffer.name} up to its ends by conditions inside it"
        for expr in expressions(stmt):
            for e in walk(expr):
                special = (isinstance(e, Load) and type(e) is not Load) or isinstance(e, Stride)
                if special and e.buffer is buffer:  # type: ignore[attr-defined]
                    return f"block {realize.block.name} hands {buffer.name} to code that knows its layout"
        if isinstance(stmt, Store) and stmt.buffer is buffer and stmt.value.dtype != buffer.dtype:
            return f"block {realize.block.name} writes neighbours of {buffer.name} at once"
    return None


def _leaves(block: Block, region: Region) -> bool:
    """Decide if the region of a block of blocks may leave the buffer; other conditions hold for the blocks inside."""
    if not any(isinstance(s, BlockRealize) for s in walk_stmts(block.body)):
        return False
    ranges = iter_ranges(block.iters)
    reached = (bounds(simplify(lo, ranges), ranges) for lo, _ in region.box)
    return any(b is None or b[0] < 0 or b[1] >= n for b, n in zip(reached, region.buffer.shape, strict=True))


def with_layout(realize: BlockRealize, old: Buffer, new: Buffer, index_map: IndexMap) -> BlockRealize:
    """Return the block on the buffer in its new layout."""
    ranges = loop_ranges(realize) | {v: r for b in realizes(realize) for v, r in iter_ranges(b.block.iters).items()}
    return with_indices(realize, old, new, lambda indices: tuple(index_map.map_indices(indices, ranges)))


def pad_expr(pad_value: float | IndexMap, where: Sequence[Expr], dtype: str) -> Expr:
    """Return the value of the padding at a place."""
    value = pad_value.map_indices(where)[0] if isinstance(pad_value, IndexMap) else as_expr(pad_value)
    return cast(dtype, value)


def fills_whole(tree: Tree, realize: BlockRealize, buffer: Buffer) -> bool:
    """Check if the block writes the buffer element by element, in its own plain loops over all of it."""
    block, body = realize.block, realize.block.body
    if not isinstance(body, Store) or block.is_reduction or len(body.indices) != len(block.iters):
        return False
    variables = tuple(it.var for it in block.iters)
    in_order = len(set(body.indices)) == len(body.indices) and set(body.indices) == set(variables)
    extents = {it.var: it.extent for it in block.iters}
    return (
        in_order
        and all(
            extents[i] == n  # type: ignore[index]
            for i, n in zip(body.indices, buffer.shape, strict=True)
        )
        and is_plain_nest(tree, realize)
    )


def is_plain_nest(tree: Tree, realize: BlockRealize) -> bool:
    """Check if the block is at the top, in its own serial loops, one for each variable, without annotations."""
    loops = tree.ancestors(realize)
    top = tree.top_of(realize)
    same = {x.var: x.extent for x in loops} == dict(
        zip(realize.values, (it.extent for it in realize.block.iters), strict=True)
    )
    node: Stmt = top
    for loop in loops:
        if node is not loop or loop.kind is not ForKind.SERIAL or loop.annotations:
            return False
        node = loop.body
    return same and node is realize and not conjuncts(realize.predicate)


def pad_producer(realize: BlockRealize, new: Buffer, layout: Layout, pad_value: float | IndexMap) -> Stmt:
    """Return a nest that writes the elements and the padding of the new layout."""
    block, store = realize.block, realize.block.body
    assert isinstance(store, Store)
    iters = fresh_iters(layout.shape)
    where = tuple(it.var for it in iters)
    ranges = iter_ranges(iters)
    back = layout.inverse().map_indices(where, ranges)
    old: dict[Var, Expr] = dict(zip(store.indices, back, strict=True))  # type: ignore[arg-type]
    value = simplify(substitute(store.value, old), ranges)
    chosen = select(layout.is_element(where), value, pad_expr(pad_value, where, new.dtype))
    return nest(replace(store_block(block.name, iters, new, where, chosen), annotations=block.annotations))


def padding_block(name: str, new: Buffer, layout: Layout, pad_value: float | IndexMap) -> Stmt:
    """Return a nest that writes the padding only."""
    iters = fresh_iters(layout.shape)
    where = tuple(it.var for it in iters)
    block = store_block(name, iters, new, where, pad_expr(pad_value, where, new.dtype))
    return map_blocks(nest(block), lambda r: replace(r, predicate=_not(layout.is_element(r.values))))


def _not(condition: Expr) -> Expr:
    if isinstance(condition, Compare) and condition.op in _NEGATED:
        return Compare(_NEGATED[condition.op], condition.a, condition.b)
    return logical_not(condition)
