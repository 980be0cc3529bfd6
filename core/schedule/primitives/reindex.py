"""Primitives reindex, reindex_cache_read and reindex_cache_write."""

from __future__ import annotations

from pegbox.errors import ExprError, ScheduleError
from pegbox.expr.bounds import bounds
from pegbox.expr.equal import same
from pegbox.expr.index_map import IndexMap
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import free_vars, loads, substitute
from pegbox.loops.nodes import BlockIter, BlockRealize
from pegbox.loops.passes.notes import has_alignment
from pegbox.loops.visit import iter_ranges
from pegbox.schedule.analysis.checks import check_only_writer
from pegbox.schedule.primitives.layout import Layouter, Which, choose, map_of
from pegbox.schedule.rewrites.cache_copy import after_writers, before_readers, copy_name, fresh_iters, store_block
from pegbox.schedule.rewrites.layout import Indices, layout_problem, with_indices
from pegbox.schedule.state.buffers import check_scope, choose_copied, choose_written, fresh_buffer_name
from pegbox.schedule.state.handles import BlockRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree


@primitive
def reindex(sch: ScheduleState, block: BlockRef | str, buffer: Which) -> BlockRef:
    """Let a block read or write a copy of a buffer that has a dimension for each block variable in the indices.

    Returns the copying block.

    Before `reindex("C", ("read", 0))`::

        block C:
            C[vi, vj] = A[vj, vi + 1] * 2.0

    After::

        block A_reindex:
            A_reindex[v0, v1] = A[v1, v0 + 1]
        ...
        block C:
            C[vi, vj] = A_reindex[vi, vj] * 2.0

    Args:
        buffer: ("read", number), ("write", number), or a name.

    Raises:
        ScheduleError: the buffer does not exist; the block uses it at several places, at places that are read from
            memory, or at places that may lie outside it; or, for a written buffer, other blocks write it too, or
            elements are written twice.
    """
    realize = sch.find_block(block)
    kind, chosen = choose(realize, buffer)
    name = fresh_buffer_name(sch.tree, f"{chosen.name}_reindex")
    return _reindexed(sch, realize, chosen, Buffer(name, (), chosen.dtype, chosen.scope), writes=kind == "write")


@primitive
def reindex_cache_read(
    sch: ScheduleState, block: BlockRef | str, read_buffer_index: int | str, storage_scope: str, index_map: Layouter
) -> BlockRef:
    """Let a block read a copy of a buffer, at indices that a map of its variables gives; return the copying block.

    Args:
        read_buffer_index: the buffer: its position among those that the block reads, or its name.
        storage_scope: the scope of the copy: "global", "local", "shared", "shared.dyn" or "warp".
        index_map: a function from all variables of the block to the indices in the copy, or an `IndexMap`.

    Before `reindex_cache_read("C", "A", "local", lambda i, j, k: (k, i))`::

        block C:
            C[vi, vj] += A[vi, vk] * B[vk, vj]

    After::

        block A_local:
            A_local[v1, v0] = A[v0, v1]
        ...
        block C:
            C[vi, vj] += A_local[vk, vi] * B[vk, vj]

    Raises:
        ScheduleError: the buffer or scope does not exist; the block uses the buffer at several places, at places that
            are read from memory, or at places that may lie outside it; or the map is not one to one on the elements
            that are read.
    """
    realize = sch.find_block(block)
    source = choose_copied(realize, read_buffer_index)
    return _reindexed(sch, realize, source, *_in_scope(sch, realize, source, storage_scope, index_map), writes=False)


@primitive
def reindex_cache_write(
    sch: ScheduleState, block: BlockRef | str, write_buffer_index: int | str, storage_scope: str, index_map: Layouter
) -> BlockRef:
    """Let a block write to a new buffer, at indices given by a map of its variables, and copy that to the old one.

    Returns the copying block.

    Args:
        write_buffer_index: the buffer: its position among those that the block writes, or its name.
        storage_scope: the scope of the new buffer: "global", "local", "shared", "shared.dyn" or "warp".
        index_map: a function from all variables of the block to the indices in the new buffer, or an `IndexMap`.

    Before `reindex_cache_write("C", 0, "local", lambda i, j, k: (j, i))`::

        block C:
            C[vi, vj] += A[vi, vk] * B[vk, vj]

    After::

        block C:
            C_local[vj, vi] += A[vi, vk] * B[vk, vj]
        ...
        block C_local:
            C[v0, v1] = C_local[v1, v0]

    Raises:
        ScheduleError: the buffer or scope does not exist; other blocks write the buffer too, or elements are written
            twice; or the map is not one to one on the elements that are written.
    """
    realize = sch.find_block(block)
    written = choose_written(realize, write_buffer_index)
    return _reindexed(sch, realize, written, *_in_scope(sch, realize, written, storage_scope, index_map), writes=True)


def _in_scope(
    sch: ScheduleState, realize: BlockRealize, buffer: Buffer, scope: str, index_map: Layouter
) -> tuple[Buffer, IndexMap]:
    """Return the name, dtype and scope of a copy, and the map from the block's variables to a place in it."""
    check_scope(scope)
    found = map_of(sch, realize, index_map, len(realize.block.iters), "variables of the block")
    sch.amended["index_map"] = found
    return Buffer(copy_name(sch.tree, buffer, scope), (), buffer.dtype, scope), found


def _reindexed(
    sch: ScheduleState,
    realize: BlockRealize,
    buffer: Buffer,
    copy: Buffer,
    index_map: IndexMap | None = None,
    *,
    writes: bool,
) -> BlockRef:
    """Let a block use a buffer through a copy, and add the block that fills the copy or writes it back.

    Args:
        copy: the copy, still without its shape.
        index_map: the place in the copy for all variables of the block; by default it has a dimension for each
            variable that the indices depend on.
    """
    tree, name = sch.tree, realize.block.name
    if writes:
        check_only_writer(tree, realize, [buffer], "reindex first, decompose_reduction after")
        if has_alignment(realize, buffer):
            problem = f"storage_align refers to the present dimensions of {buffer.name}"
            raise ScheduleError(problem, "call reindex first, then storage_align", name)
    indices = _indices(realize, buffer)
    _check_inside(realize, indices, buffer)
    used = [it for it in realize.block.iters if any(it.var in free_vars(i) for i in indices)]
    if not used:
        # A constant place: a buffer has at least one dimension. It is a spatial one if possible, for a sum's init.
        used = sorted(realize.block.iters, key=lambda it: it.is_reduce)[:1]
    copy, where = _laid_out(realize, buffer, copy, index_map, used)
    if writes:
        _check_written_once(realize, buffer, indices, used)
    fresh = fresh_iters([it.extent for it in used])
    moved: dict[Var, Expr] = {old.var: new.var for old, new in zip(used, fresh, strict=True)}
    there, here = (tuple(substitute(i, moved) for i in place) for place in (indices, where))
    changed = Tree(tree.replace(realize, with_indices(realize, buffer, copy, lambda _: where)))
    if writes:
        back = store_block(copy.name, fresh, buffer, there, Load(copy, here))
        readers = [r.block.name for r in tree.readers(buffer) if r is not realize]
        sch.update(after_writers(changed, back, copy, buffer, [name], readers))
    else:
        fill = store_block(copy.name, fresh, copy, here, Load(buffer, there))
        sch.update(before_readers(changed, fill, buffer, copy, [name]))
    return BlockRef(copy.name)


def _check_written_once(realize: BlockRealize, buffer: Buffer, indices: Indices, used: list[BlockIter]) -> None:
    spatial = [it for it in realize.block.iters if not it.is_reduce and it.extent > 1]
    missing = [it.var.name for it in spatial if it not in used]
    problem = f"{buffer.name} is not written at another place for each {missing[0]}" if missing else ""
    try:
        IndexMap([it.var for it in used], indices).layout([it.extent for it in used])
    except ExprError as error:
        problem = str(error)
    if realize.block.is_reduction and any(it.is_reduce for it in used):
        problem = f"{realize.block.name} has only reduce variables"
    if problem:
        raise ScheduleError(problem, "reindex blocks that write each element once", realize.block.name)


def _laid_out(
    realize: BlockRealize, buffer: Buffer, copy: Buffer, index_map: IndexMap | None, used: list[BlockIter]
) -> tuple[Buffer, Indices]:
    """Return the copy with its shape, and the indices in it as functions of the variables."""
    iters = realize.block.iters
    shape, where = tuple(it.extent for it in used), tuple[Expr, ...](it.var for it in used)
    try:
        if index_map is not None:
            where = tuple(index_map.map_indices([it.var for it in iters], iter_ranges(iters)))
            other = set().union(*map(free_vars, where)) - {it.var for it in used}
            if other:
                raise ExprError(f"{index_map} depends on {other.pop().name}, on which {buffer.name} does not")
            shape = IndexMap([it.var for it in used], where).layout(shape).shape
    except ExprError as error:
        remedy = "give a map of the block's variables such as lambda i, j: (j, i)"
        raise ScheduleError(str(error), remedy, realize.block.name) from error
    return Buffer(copy.name, shape, copy.dtype, copy.scope), where


def _indices(realize: BlockRealize, buffer: Buffer) -> Indices:
    """Return the only place at which a block uses a buffer."""
    name = realize.block.name
    regions = [r for r in (*realize.block.reads, *realize.block.writes) if r.buffer is buffer]
    places: list[Indices] = []
    for region in regions:
        place = tuple(lo for lo, _ in region.box)
        if not any(all(map(same, place, known)) for known in places):
            places.append(place)
    variables = {it.var for it in realize.block.iters}
    problem = layout_problem(realize, buffer)
    if problem is None and len(places) > 1:
        problem = f"{name} uses {buffer.name} at {len(places)} places"
    if problem is None and any(True for i in places[0] for _ in loads(i)):
        problem = f"{name} uses {buffer.name} at places that are read from memory"
    if problem is None and any(free_vars(i) - variables for i in places[0]):
        problem = f"{name} uses {buffer.name} in loops of its own"
    if problem is not None:
        remedy = "reindex works for blocks that use the buffer at one place, a function of their variables"
        raise ScheduleError(problem, remedy, name)
    return places[0]


def _check_inside(realize: BlockRealize, indices: Indices, buffer: Buffer) -> None:
    """Check that the block stays inside the buffer without a condition, which the copy would not have."""
    ranges = iter_ranges(realize.block.iters)
    for index, extent in zip(indices, buffer.shape, strict=True):
        between = bounds(simplify(index, ranges), ranges)
        if between is None or between[0] < 0 or between[1] >= extent:
            raise ScheduleError(
                f"the index {index} may lie outside {buffer.name}{list(buffer.shape)}, where a condition "
                f"in {realize.block.name} keeps it from being used",
                "compute the padding in a separate block",
                realize.block.name,
            )
