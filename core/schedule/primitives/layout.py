"""Primitives for layouts: reindex, transform_layout, transform_block_layout, pad_einsum, decompose_padding."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pegbox.errors import ExprError, ScheduleError
from pegbox.expr.index_layout import Layout
from pegbox.expr.index_map import IndexMap
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.nodes import BlockRealize, For, IterKind, Stmt
from pegbox.loops.passes.notes import has_alignment
from pegbox.loops.visit import iter_ranges, map_exprs
from pegbox.schedule.errors import shown
from pegbox.schedule.rewrites.cache_copy import fresh_iters, insert_at_top
from pegbox.schedule.rewrites.layout import (
    fills_whole,
    is_plain_nest,
    layout_problem,
    pad_producer,
    padding_block,
    with_layout,
)
from pegbox.schedule.state.buffers import check_intermediate, choose_read, choose_written, fresh_buffer_name, has_gaps
from pegbox.schedule.state.handles import BlockRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.state.trace import trace_value
from pegbox.schedule.tree import Tree, blocks_below
from pegbox.shown import value_text

trace_value("index_map")(IndexMap)

Which: TypeAlias = tuple[str, int | str] | list[Any] | str
Layouter: TypeAlias = IndexMap | Callable[..., Any]


@primitive
def transform_layout(
    sch: ScheduleState,
    block: BlockRef | str,
    buffer: Which,
    index_map: Layouter,
    pad_value: float | Layouter | None = None,
    *,
    axis_separators: object = None,
    assume_injective_transform: bool = False,
) -> None:
    """Store an intermediate buffer in another layout, and change the indices of all blocks that use it.

    Before `transform_layout("B", ("write", 0), lambda i, j: (i // 16, j, i % 16))`::

        B = alloc(float32[64, 8], global)
        block B:
            B[vi, vj] = A[vi, vj] * 2.0

    After::

        B = alloc(float32[4, 8, 16], global)
        block B:
            B[vi // 16, vj, vi % 16] = A[vi, vj] * 2.0

    If the new shape has places without elements (padding), these stay unwritten, and no block reads them. With a
    `pad_value` they are written: by the block that computes the buffer, if it is in a plain nest of its own (which then
    gets loops over the new shape), or else by a block `NAME_pad`.

    Args:
        buffer: ("read", number), ("write", number), or a name.
        index_map: a function from the old indices to the new ones, or an `IndexMap`.
        pad_value: a number, or a function of the new indices.
        axis_separators, assume_injective_transform: accepted as in TVM, without effect: every map is checked.

    Raises:
        ScheduleError: the buffer does not exist, is a parameter of the function, or was aligned by storage_align; the
            map is not affine or not one to one; a block passes the buffer to foreign code or accesses whole boxes of
            it; or a `pad_value` is given for a buffer that is computed in loops around other blocks.
    """
    tree, realize = sch.tree, sch.find_block(block)
    _, chosen = choose(realize, buffer)
    check_intermediate(
        tree,
        chosen,
        realize.block.name,
        "whose layout the caller decides",
        "cache_read, cache_write or reindex makes a buffer of its own; transform that one",
    )
    layout = _layout(sch, realize, index_map, chosen.shape, f"dimensions of {chosen.name}")
    sch.amended["index_map"] = layout.map
    padding: float | IndexMap | None = None
    if pad_value is not None:
        padding = _padding(sch, realize, pad_value, len(layout.shape))
        sch.amended["pad_value"] = padding
    _check_users(sch, chosen)
    new = Buffer(chosen.name, layout.shape, chosen.dtype, chosen.scope)
    sch.update(_transformed(tree, chosen, new, layout, None if layout.onto else padding))


@primitive
def transform_block_layout(sch: ScheduleState, block: BlockRef | str, index_map: Layouter) -> None:
    """Give a block new variables, with new loops around it.

    Before `transform_block_layout("B", lambda i, j: (i * 8 + j,))`::

        for i in range(4):
            for j in range(8):
                block B: vi = i, vj = j

    After::

        for ax0 in range(32):
            block B: v0 = ax0; it is at (v0 // 8, v0 % 8)

    Raises:
        ScheduleError: the block is not in plain loops of its own, or the map is not affine, not one to one, leaves
            gaps, or mixes spatial with reduce variables.
    """
    realize = sch.find_block(block)
    layout = _layout(sch, realize, index_map, [it.extent for it in realize.block.iters], "variables")
    sch.amended["index_map"] = layout.map
    sch.update(_with_block_layout(sch.tree, realize, layout))


def set_axis_separator(
    sch: ScheduleState, block: BlockRef | str, buffer: Which, axis_separators: Sequence[int] | None = None
) -> None:
    """Warn that this has no effect: memory has one dimension here.

    Raises:
        ScheduleError: the block or buffer does not exist.
    """
    choose(sch.find_block(block), buffer)
    warnings.warn("set_axis_separator changes nothing: memory has one dimension here", UserWarning, stacklevel=2)


def choose(realize: BlockRealize, which: Which) -> tuple[str, Buffer]:
    """Find a buffer that a block uses; return ("read" or "write", the buffer)."""
    name = realize.block.name
    if isinstance(which, str):
        if any(w.buffer.name == which for w in realize.block.writes):
            return "write", choose_written(realize, which)
        return "read", choose_read(realize, which)
    kind, number = which if isinstance(which, list | tuple) and len(which) == 2 else (None, None)
    if not isinstance(kind, str) or kind not in ("read", "write") or not isinstance(number, int | str):
        raise ScheduleError(
            f"{value_text(which)} is not a buffer of {name}", 'give ("read", 0), ("write", 0) or a name'
        )
    return kind, choose_read(realize, number) if kind == "read" else choose_written(realize, number)


def map_of(sch: ScheduleState, realize: BlockRealize, index_map: Layouter, rank: int, kind: str) -> IndexMap:
    """Return the given `IndexMap`, or make one from a function.

    Raises:
        ScheduleError: the function is not a map of `rank` indices.
    """
    try:
        return index_map if isinstance(index_map, IndexMap) else IndexMap.from_func(index_map, rank)
    except ExprError as error:
        raise _no_map(realize, error, rank, kind) from error


def _no_map(realize: BlockRealize, error: ExprError, rank: int, kind: str) -> ScheduleError:
    remedy = f"give a map of the {rank} {kind} such as lambda i, j: (i // 16, j, i % 16)"
    return ScheduleError(str(error), remedy, realize.block.name)


def _layout(sch: ScheduleState, realize: BlockRealize, index_map: Layouter, shape: Sequence[int], kind: str) -> Layout:
    found = map_of(sch, realize, index_map, len(shape), kind)
    try:
        return found.layout(tuple(shape))
    except ExprError as error:
        raise _no_map(realize, error, len(shape), kind) from error


def _padding(sch: ScheduleState, realize: BlockRealize, pad_value: float | Layouter, rank: int) -> float | IndexMap:
    if not isinstance(pad_value, IndexMap) and not callable(pad_value):
        return pad_value
    try:
        found = pad_value if isinstance(pad_value, IndexMap) else IndexMap.from_func(pad_value, rank)
    except ExprError as error:
        remedy = "give a number, or a function of the new indices that gives one"
        raise ScheduleError(f"pad_value: {error}", remedy, realize.block.name) from error
    if found.ndim != rank or len(found.final_indices) != 1:
        remedy = "give a function of the new indices that gives one number"
        problem = f"pad_value {found} is not a value for {rank} indices"
        raise ScheduleError(problem, remedy, program=shown(sch.tree))
    return found


def _check_users(sch: ScheduleState, buffer: Buffer) -> None:
    for user in (*sch.tree.writers(buffer), *sch.tree.readers(buffer)):
        name = user.block.name
        why = layout_problem(user, buffer)
        if why is not None:
            raise ScheduleError(why, "call transform_layout first, then blockize or tensorize", name)
        if has_alignment(user, buffer):
            raise ScheduleError(
                f"storage_align refers to the present dimensions of {buffer.name}",
                "call transform_layout first, then storage_align",
                name,
            )


def _transformed(tree: Tree, old: Buffer, new: Buffer, layout: Layout, padding: float | IndexMap | None) -> Tree:
    users = dict.fromkeys(r.block.name for r in (*tree.writers(old), *tree.readers(old)))
    maker = None
    if padding is not None:
        maker = _maker(tree, old, layout)
    changed = Tree(replace(tree.func, allocs=tuple(new if b is old else b for b in tree.func.allocs)))
    for name in users:
        realize = changed.blocks[name]
        if padding is not None and name == maker:
            nest = pad_producer(realize, new, layout, padding)
            changed = Tree(changed.replace(changed.top_of(realize), nest))
        else:
            changed = Tree(changed.replace(realize, with_layout(realize, old, new, layout.map)))
    if padding is not None and maker is None:
        name = fresh_buffer_name(changed, f"{old.name}_pad")
        first = changed.top_of(changed.writers(new)[0])
        changed = insert_at_top(changed, first, padding_block(name, new, layout, padding), after=False)
    return changed


def _maker(tree: Tree, buffer: Buffer, layout: Layout) -> str | None:
    """Return the block that can write the padding along with the elements; None if a separate block is needed."""
    try:
        layout.inverse()
    except ExprError as error:
        problem = f"{error}, so that its padding cannot be distinguished from elements"
        raise ScheduleError(problem, "give another map, or no pad_value", program=shown(tree)) from error
    writers = tree.writers(buffer)
    if has_gaps(tree, buffer):
        raise ScheduleError(
            f"{buffer.name} has padding already, which is never written",
            "give each transform_layout that pads a pad_value, or none",
            *(w.block.name for w in writers),
        )
    if len(writers) == 1 and fills_whole(tree, writers[0], buffer):
        return writers[0].block.name
    users = [*writers, *tree.readers(buffer)]
    for writer in writers:
        others = {r.block.name for r in blocks_below(tree.top_of(writer))} - {w.block.name for w in writers}
        met = [u.block.name for u in users if u.block.name in others]
        if met:
            raise ScheduleError(
                f"{buffer.name} is computed in loops around {met[0]}, where no block can write its padding",
                "call transform_layout with a pad_value first, then compute_at; or give no pad_value",
                writer.block.name,
                met[0],
            )
    return None


def _with_block_layout(tree: Tree, realize: BlockRealize, layout: Layout) -> Tree:
    """Return the program in which a block has new variables, in plain loops of their own."""
    block = realize.block
    if not is_plain_nest(tree, realize):
        raise ScheduleError(
            f"{block.name} is not in plain serial loops of its own, one for each variable",
            "transform_block_layout first, split, reorder and compute_at after",
            block.name,
        )
    try:
        inverse = layout.map.inverse(layout.old_shape)
    except ExprError as error:
        remedy = "give a map that takes each place of the new domain, with factors that divide"
        raise ScheduleError(str(error), remedy, block.name) from error
    iters = tuple(replace(it, kind=_kind(realize, layout, n)) for n, it in enumerate(fresh_iters(layout.shape)))
    ranges = iter_ranges(iters)
    back = inverse.map_indices([it.var for it in iters], ranges)
    old: dict[Var, Expr] = {it.var: value for it, value in zip(block.iters, back, strict=True)}
    inner = BlockRealize((), replace(block, iters=()))
    changed = map_exprs(inner, lambda expr: simplify(substitute(expr, old), ranges))
    assert isinstance(changed, BlockRealize)
    loops = [Var(f"ax{n}") for n in range(len(iters))]
    nest: Stmt = BlockRealize(tuple(loops), replace(changed.block, iters=iters))
    for var, it in reversed(list(zip(loops, iters, strict=True))):
        nest = For(var, it.extent, nest)
    return Tree(tree.replace(tree.top_of(realize), nest))


def _kind(realize: BlockRealize, layout: Layout, number: int) -> IterKind:
    """Return the kind of a new variable, which is that of the old variables in its value."""
    used = free_vars(layout.map.final_indices[number])
    pairs = zip(layout.map.initial_indices, realize.block.iters, strict=True)
    kinds = {it.kind for var, it in pairs if var in used}
    if len(kinds) > 1:
        raise ScheduleError(
            f"{layout.map.final_indices[number]} mixes spatial with reduce variables",
            "map spatial variables to spatial ones, and reduce variables to reduce ones",
            realize.block.name,
        )
    return kinds.pop() if kinds else IterKind.SPATIAL
