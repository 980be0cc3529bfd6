"""Random steps with caches, layouts and storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegbox.errors import LoweringError, ScheduleError
from pegbox.expr.index_map import IndexMap
from pegbox.expr.nodes import Buffer, Const, Expr, Select, Var
from pegbox.expr.visit import free_vars
from pegbox.loops.nodes import Block, Store
from pegbox.loops.passes import lower_function
from pegbox.loops.passes.notes import DOUBLE, STORED
from pegbox.loops.visit import realizes
from pegbox.schedule import Schedule

Choose = Callable[[int], int]
SCOPES = ("local", "global", "shared", "warp", "shared.dyn", "near")


def _pick(items: Any, choose: Choose) -> Any:
    items = list(items)
    return items[choose(len(items))]


def _block(sch: Schedule, choose: Choose) -> str:
    return _pick(sch.get_blocks(), choose).name


def _consumers(sch: Schedule, buffer: str, choose: Choose) -> list[str] | None:
    """Mostly all of them; else some blocks, often readers."""
    if choose(3):
        return None
    readers = [
        r.block.name for b in (*sch.func.params, *sch.func.allocs) if b.name == buffer for r in sch.tree.readers(b)
    ]
    names = readers if choose(8) else list(sch.tree.blocks)
    return [name for name in names if choose(2)]


def cache_read(sch: Schedule, choose: Choose) -> None:
    block = _pick([b.name for b in sch.get_blocks() if sch.tree.blocks[b.name].block.reads], choose)
    buffer = _pick(sch.tree.blocks[block].block.reads, choose).buffer.name
    sch.cache_read(block, buffer, _pick(SCOPES[: 2 + choose(5)], choose), _consumers(sch, buffer, choose))


def cache_write(sch: Schedule, choose: Choose) -> None:
    block = _block(sch, choose)
    buffer = _pick(sch.tree.blocks[block].block.writes, choose).buffer.name
    sch.cache_write(block, buffer, _pick(SCOPES[: 2 + choose(5)], choose), _consumers(sch, buffer, choose))


def reindex(sch: Schedule, choose: Choose) -> None:
    block = _block(sch, choose)
    made = sch.reindex(block, (("read", "write")[choose(2)], choose(2)))
    if choose(2):
        _transform(sch, made.name, choose)


def _own(sch: Schedule, choose: Choose) -> tuple[str, int, Buffer]:
    """A block, and an intermediate buffer that it writes."""
    found = [
        (name, number, buffer)
        for name, realize in sch.tree.blocks.items()
        for number, buffer in enumerate(dict.fromkeys(w.buffer for w in realize.block.writes))
        if buffer in sch.func.allocs
    ]
    return _pick(found, choose)  # type: ignore[no-any-return]


def index_map(rank: int, choose: Choose) -> IndexMap:
    """Splits, fusions and orders; rarely one that is not one to one."""
    if not rank:
        raise ScheduleError("one element has no layout")
    variables = [Var(f"i{n}") for n in range(rank)]
    parts: list[Expr] = list(variables)
    for _ in range(choose(4)):
        at, factor = choose(len(parts)), 2 + choose(7)
        if choose(3) or len(parts) < 2:
            parts[at : at + 1] = [parts[at] // factor, parts[at] % factor]
        else:
            other = parts.pop((at + 1) % len(parts))
            at = min(at, len(parts) - 1)
            parts[at] = parts[at] * (factor + 4 * choose(4)) + other
    order = [parts.pop(choose(len(parts))) for _ in range(len(parts))]
    if not choose(20):
        order.pop()
    if not choose(8):
        order.append(variables[0] * 0)
    return IndexMap(variables, order or [variables[0]])


def _transform(sch: Schedule, block: str, choose: Choose) -> None:
    found = [w.buffer for w in sch.tree.blocks[block].block.writes if w.buffer in sch.func.allocs]
    kind = "write"
    if not found:
        found, kind = [r.buffer for r in sch.tree.blocks[block].block.reads if r.buffer in sch.func.allocs], "read"
    buffer = _pick(found, choose)
    pad = (None, None, 0.0, -3, IndexMap.from_func(lambda *i: sum(i), len(buffer.shape)))[choose(5)]
    changed = index_map(len(buffer.shape), choose)
    if isinstance(pad, IndexMap):
        pad = IndexMap.from_func(lambda *i: sum(i), len(changed.final_indices))
    sch.transform_layout(block, buffer.name if choose(2) else (kind, buffer.name), changed, pad)


def transform_layout(sch: Schedule, choose: Choose) -> None:
    block, _, _ = _own(sch, choose)
    _transform(sch, block, choose)


def _reductions_apart(block: Block, choose: Choose) -> IndexMap:
    """A map that keeps spatial variables apart from reduce ones, with factors that mostly divide."""
    variables = [Var(it.var.name) for it in block.iters]
    parts: list[tuple[Expr, int, bool]] = [
        (v, it.extent, it.is_reduce) for v, it in zip(variables, block.iters, strict=True)
    ]
    for _ in range(1 + choose(2)):
        at = choose(len(parts))
        part, extent, kind = parts[at]
        if choose(2):
            factor = _pick([f for f in range(1, extent + 1) if extent % f == 0 or not choose(6)], choose)
            parts[at : at + 1] = [(part // factor, -(-extent // factor), kind), (part % factor, factor, kind)]
        elif at + 1 < len(parts) and (parts[at + 1][2] == kind or not choose(4)):
            low, inner, _ = parts.pop(at + 1)
            parts[at] = (part * inner + low, extent * inner, kind)
    order = [parts.pop(choose(len(parts)))[0] for _ in range(len(parts))]
    return IndexMap(variables, order)


def transform_block_layout(sch: Schedule, choose: Choose) -> None:
    block = _block(sch, choose)
    sch.transform_block_layout(block, _reductions_apart(sch.tree.blocks[block].block, choose))


def pad_einsum(sch: Schedule, choose: Choose) -> None:
    blocks = [n for n, r in sch.tree.blocks.items() if r.block.init is not None] if choose(8) else list(sch.tree.blocks)
    block = _pick(blocks, choose)
    sch.pad_einsum(block, [(1, 2, 4, 8, 3)[choose(5)] for _ in sch.tree.blocks[block].block.iters])


def reindex_cache(sch: Schedule, choose: Choose) -> None:
    """A copy in the order of some of the block's variables, mostly of those that the place depends on."""
    block = _block(sch, choose)
    realize = sch.tree.blocks[block]
    reads = bool(choose(2))
    region = _pick(realize.block.reads if reads else realize.block.writes, choose)
    used = set().union(*(free_vars(lo) for lo, _ in region.box))
    variables = [Var(it.var.name) for it in realize.block.iters]
    pairs = zip(variables, realize.block.iters, strict=True)
    chosen = [v for v, it in pairs if (it.var in used) == bool(choose(20))] or variables[:1]
    if not chosen:
        raise ScheduleError("one element has no layout")
    order: list[Expr] = [chosen.pop(choose(len(chosen))) for _ in range(len(chosen))]
    if not choose(3):
        order[:1] = [order[0] // 2, order[0] % 2]
    step = sch.reindex_cache_read if reads else sch.reindex_cache_write
    step(block, region.buffer.name, _pick(SCOPES[:5], choose), IndexMap(variables, order))


def copy_at(sch: Schedule, choose: Choose) -> None:
    """`read_at` or `write_at`, mostly in a loop around the block."""
    block = _block(sch, choose)
    loop = _pick(sch.get_loops(block if choose(8) else _block(sch, choose)), choose)
    regions = sch.tree.blocks[block].block
    if choose(2):
        sch.read_at(loop, block, _pick(regions.reads, choose).buffer.name, _pick(SCOPES[:5], choose))
    else:
        sch.write_at(loop, block, _pick(regions.writes, choose).buffer.name, _pick(SCOPES[:5], choose))


def decompose_padding(sch: Schedule, choose: Choose) -> None:
    """Mostly of a block that chooses between a value and a constant, in loops that nothing else is in."""
    found = [
        name
        for name, realize in sch.tree.blocks.items()
        if isinstance(realize.block.body, Store)
        and isinstance(realize.block.body.value, Select)
        and isinstance(realize.block.body.value.b, Const)
    ]
    if not found and choose(2):
        pad_einsum(sch, choose)
        found = [name for name in sch.tree.blocks if "_pad" in name]
    block = _pick(found, choose) if found and choose(8) else _block(sch, choose)
    loops = sch.get_loops(block)
    alone = [loop for loop in loops if len(sch.get_child_blocks(loop)) == 1]
    sch.decompose_padding(block, _pick(alone or loops, choose))


def set_scope(sch: Schedule, choose: Choose) -> None:
    block, number, _ = _own(sch, choose) if choose(8) else (_block(sch, choose), 0, None)
    sch.set_scope(block, number, _pick(SCOPES, choose))


def storage_align(sch: Schedule, choose: Choose) -> None:
    block, number, buffer = _own(sch, choose)
    factor = (1, 2, 4, 8, 32, 5)[choose(6)]
    axis = len(buffer.shape) - 2 if choose(3) else choose(len(buffer.shape))
    sch.storage_align(block, number, axis, factor, choose(factor))


def double_buffer(sch: Schedule, choose: Choose) -> None:
    """Mostly of a copy that is made in a loop of its own for it."""
    blocks = [b.name for b in sch.get_blocks() if sch.get_consumers(b)]
    if blocks and choose(3):
        block = _pick(blocks, choose)
    else:
        reader = _block(sch, choose)
        block = sch.cache_read(reader, choose(2), "local").name
        sch.compute_at(block, _pick(sch.get_loops(reader), choose))
    sch.annotate(block, DOUBLE, 0)


def _windows(sch: Schedule) -> list[tuple[str, int]]:
    """Blocks that read a buffer at sums of variables, or in several places, with the number of the buffer."""
    found = []
    for name, realize in sch.tree.blocks.items():
        buffers = list(dict.fromkeys(r.buffer for r in realize.block.reads))
        for region in realize.block.reads:
            places = sum(r.buffer is region.buffer for r in realize.block.reads)
            if places > 1 or any(n > 1 or len(free_vars(lo)) > 1 for lo, n in region.box):
                found.append((name, buffers.index(region.buffer)))
    return found


def rolling_buffer(sch: Schedule, choose: Choose) -> None:
    """Mostly of what a block reads windows of, or of a copy of it, attached to a loop of that block or a tile of it."""
    windows = _windows(sch)
    if not windows or not choose(4):
        sch.rolling_buffer(_block(sch, choose), 0)
        return
    reader, number = _pick(windows, choose)
    buffer = list(dict.fromkeys(r.buffer for r in sch.tree.blocks[reader].block.reads))[number]
    writers = sch.tree.writers(buffer)
    block = writers[0].block.name if writers and choose(4) else sch.cache_read(reader, number, "local").name
    spatial = len([it for it in sch.tree.blocks[reader].block.iters if not it.is_reduce])
    outer = _pick(sch.get_loops(reader)[: max(spatial, 1)], choose)
    if choose(3):
        outer, _ = sch.split(outer, factor=1 + choose(4))
    sch.compute_at(block, outer)
    if not choose(4):
        sch.split(_pick(sch.get_loops(block), choose), factor=1 + choose(3))
    sch.rolling_buffer(block, 0)


LAYOUT_STEPS: list[Callable[[Schedule, Choose], object]] = [
    cache_read, cache_read, cache_write, cache_write, reindex, reindex, transform_layout, transform_layout,
    transform_layout, transform_block_layout, pad_einsum, pad_einsum, set_scope, storage_align, double_buffer,
    reindex_cache, reindex_cache, copy_at, copy_at, decompose_padding, decompose_padding, decompose_padding,
    decompose_padding, rolling_buffer, rolling_buffer, rolling_buffer,
]  # fmt: skip


def check_notes(sch: Schedule) -> None:
    """Check notes by lowering: only then is it known whether a double buffer or a stride is possible.

    Raises:
        ScheduleError: it cannot.
    """
    notes = [key for r in realizes(sch.func.body) for key, _ in r.block.annotations]
    if not {DOUBLE, STORED, "buffer_dim_align"}.isdisjoint(notes):
        try:
            lower_function(sch.func)
        except LoweringError as error:
            if not any(word in str(error) for word in ("double_buffer", "storage_align", "is stored in")):
                raise
            raise ScheduleError(str(error)) from error


def drop_bad_notes(sch: Schedule) -> None:
    """Take off notes that the last step has made impossible."""
    try:
        check_notes(sch)
    except ScheduleError:
        for realize in list(realizes(sch.func.body)):
            for key, _ in realize.block.annotations:
                if key in (DOUBLE, STORED, "buffer_dim_align"):
                    sch.unannotate(realize.block.name, key)
