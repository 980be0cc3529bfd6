"""The schedule of attention: loops over heads, blocks of rows and blocks of keys, around the stages in turn.

The scores of a block are computed in register tiles with vectors along keys, from panels of K that are packed once for
each head; the part of the output is computed in register tiles with vectors along its columns, from V as it is or
packed. In the stages between them, vectors run along keys; in the recurrence over the blocks, along rows.

If the second-level cache cannot hold keys and values, the steps of the scores prefetch the next panel of keys and the
values of the block into it. If the scores of a block exceed a quarter of this cache, one row of tiles after the other
goes through all stages: many rows read the same block of keys and values, while the next block is prefetched. If the
cache can hold two heads, but not all arrays, the keys and values of the next head are prefetched.
"""

from __future__ import annotations

from collections.abc import Sequence

import pegbox as pb
from pegbox import te
from pegbox.codegen import LINE
from pegbox.templates import threads
from pegbox.templates.attention_shape import Attention
from pegbox.templates.attention_space import Blocks
from pegbox.templates.attention_stages import Stages
from pegbox.templates.register_tile import write_out
from pegbox.templates.weight_blocks import is_small

_ALIAS = 4096
"""The distance in bytes of elements that map to the same sets of the first-level cache."""

_TOGETHER = (4, 5, 3, 2, 1)
"""The numbers of vectors of a row whose exponentials may be computed together, best first: registers hold four."""


def schedule(cfg: pb.TemplateConfig, p: Attention, blocks: Blocks, of: Stages) -> te.TESchedule:
    """Schedule all stages of an attention."""
    s = te.create_schedule(of.out.op)
    head, block, rows, columns = _schedule_out(cfg, p, blocks, s, of)
    if blocks.count(p) > 1:
        tiled, (t, row, tile) = s[of.made], _schedule_made(p, blocks, s, of)
        s[of.made].compute_at(s[of.out], block)
        _lanes(s[of.out], columns, p.lanes, p.d_v)
    else:
        tiled, t, (row, tile) = s[of.out], block, _schedule_tiles(p, blocks, s[of.out], rows, columns)
        s[of.made].compute_inline()
    if of.scaled is not None:
        s[of.scaled].compute_at(s[of.out], block)
        _lanes(s[of.scaled], s[of.scaled].op.axis[-1], p.lanes, p.d)
    by_tiles = blocks.goes_by_tiles(p)
    within = row if blocks.streams(p) or by_tiles else t
    for tensor in (of.scores, of.tops, of.top, *([] if of.base is of.top else [of.base])):
        s[tensor].compute_at(tiled, row if by_tiles else t)
    for tensor in (of.weight, *([] if of.kept is None else [of.kept]), of.totals, of.total, of.take):
        s[tensor].compute_at(tiled, within)
    for stage in s.stages:
        if stage.op.name.endswith("_first"):
            stage.compute_inline()
    panel, scores, steps = _schedule_scores(cfg, p, blocks, s, of)
    _schedule_tops(p, blocks, s[of.tops], s[of.scores], scores)
    if _fetches(p, blocks):
        assert of.panels is not None
        if by_tiles:
            tiled.prefetch(of.panels, t, 1, among=steps)
        else:
            s[of.scores].prefetch(of.panels, panel, among=steps)
        if of.across is not None or not p.layout.is_joined:  # else that array has the queries, too
            tiled.prefetch(of.values, t, int(by_tiles), among=steps)
    if _fetches_next_head(p, blocks):
        for array in of.arrays[1:]:
            s[of.out].prefetch(array, head, 1, among=steps)
    for tensor in (of.top, of.total):
        s[tensor].vectorize(s[tensor].op.reduce_axis[0])
    if of.base is not of.top:
        s[of.base].merge(s[of.base].op.axis[-1], s[of.top], s[of.top].op.axis[-1])
    by_keys = _schedule_weights(p, blocks, s, of)
    together = blocks.mr if within is row else p.lanes
    if blocks.rows >= together > 1:
        _lanes(s[of.take], s[of.take].op.axis[-1], together, together)
    s[of.parts].compute_at(tiled, row if blocks.streams(p) else tile)
    _schedule_parts(cfg, p, blocks, s, of, by_keys)
    if of.rest is not None:
        tiled.pragma(tile, "loop_partition_hint")
        s[of.rest].compute_at(tiled, row)
        _schedule_rest(cfg, p, blocks, s, of.rest)
    return s


def _fetches(p: Attention, blocks: Blocks) -> bool:
    """Decide if keys and values that exceed the second-level cache are prefetched, in blocks of many panels.

    With a causal mask, hidden blocks would be fetched, too. If panels do not consist of whole lines, finding their
    lines takes so many instructions that AVX2's short steps become slower.
    """
    widths = [blocks.width, *([blocks.columns] if blocks.packs_values else [])]
    is_lined = all(width * p.itemsize % LINE == 0 for width in widths)
    is_far = blocks.is_packed and not p.is_kept and not p.causal
    is_shared = blocks.count(p) > 1 or not blocks.goes_by_tiles(p)  # else each row of tiles reads all of them
    return is_far and is_lined and is_shared and is_small(blocks.width, blocks.keys)


def _fetches_next_head(p: Attention, blocks: Blocks) -> bool:
    """Decide if the keys and values of the next head are prefetched: L2 holds both heads, but not all arrays."""
    is_apart = blocks.is_packed and not p.layout.is_joined and not p.causal
    has_next = p.has_whole_heads and p.batch * p.kv_heads > 1
    return is_apart and has_next and 2 * p.head_nbytes <= p.target.caches.l2 < p.nbytes


def _schedule_out(
    cfg: pb.TemplateConfig, p: Attention, blocks: Blocks, s: te.TESchedule, of: Stages
) -> tuple[te.IterVar, te.IterVar, te.IterVar, te.IterVar]:
    """Schedule the output; return the loops over heads of keys, blocks of rows, rows, and columns."""
    stage = s[of.out]
    named = dict(zip(p.layout.of_output.axes, stage.op.axis, strict=True))
    b, h, i, c = (named[name] for name in "BHND")
    group, member = stage.split(h, factor=p.group)
    stage.reorder(b, group, member, i, c)
    head = stage.fuse(b, group)
    row = stage.fuse(member, i) if p.is_folded else i
    outer, inner = stage.split(row, factor=blocks.rows)
    order = [head, outer, inner, c] if p.is_folded else [head, member, outer, inner, c]
    stage.reorder(*order)
    each = (stage, head) if p.has_whole_heads else None
    if of.panels is not None:
        _schedule_keys(cfg, p, s[of.panels], each)
    if of.across is not None:
        packing = s[of.across]
        packing.vectorize(packing.op.axis[-1])
        _schedule_packing(cfg, packing, packing.op.axis[:3], each)
    threads.share(cfg, stage, head if p.has_whole_heads else outer)
    return head, outer, inner, c


def _schedule_keys(
    cfg: pb.TemplateConfig, p: Attention, packing: te.Stage, each: tuple[te.Stage, te.IterVar] | None
) -> None:
    """Pack keys in squares of elements that are transposed in registers.

    Squares of the same keys are consecutive, so that rows are read from end to end.
    """
    *axes, panel, r, z = packing.op.axis
    packing.pragma(panel, "loop_partition_hint")
    (ro, ri), (zo, lanes) = packing.split(r, factor=min(p.lanes, p.d)), packing.split(z, factor=p.lanes)
    packing.pragma(zo, "loop_partition_hint")
    packing.reorder(zo, ro, ri, lanes)
    write_out(packing, lanes, (ri,))
    _schedule_packing(cfg, packing, [*axes, panel], each)


def _schedule_packing(
    cfg: pb.TemplateConfig,
    packing: te.Stage,
    panels: Sequence[te.IterVar],
    each: tuple[te.Stage, te.IterVar] | None,
) -> None:
    """Pack keys or values for each head if one thread computes it, else all of them beforehand."""
    if each is not None:
        packing.compute_at(*each)
    else:
        threads.share(cfg, packing, packing.fuse(*panels))


def _schedule_made(
    p: Attention, blocks: Blocks, s: te.TESchedule, of: Stages
) -> tuple[te.IterVar, te.IterVar, te.IterVar]:
    """Schedule the sums over blocks; return the loops over blocks of keys, rows of register tiles, and tiles."""
    stage = s[of.made]
    b, x, i, c = stage.op.axis
    (t,) = stage.op.reduce_axis
    stage.reorder(b, x, t, i, c)
    return t, *_schedule_tiles(p, blocks, stage, i, c)


def _schedule_tiles(
    p: Attention, blocks: Blocks, stage: te.Stage, i: te.IterVar, c: te.IterVar
) -> tuple[te.IterVar, te.IterVar]:
    """Cut the innermost loops over rows and columns into register tiles; return loops over rows of tiles, and tiles."""
    io, ii = stage.split(i, factor=blocks.mr)
    co, ci = stage.split(c, factor=blocks.columns)
    cv, lanes = stage.split(ci, factor=p.lanes)
    stage.reorder(io, co, ii, cv, lanes)
    write_out(stage, lanes, (cv,))
    stage.pragma(io, "loop_partition_hint")  # the last block of rows has fewer tiles
    return io, co


def _schedule_scores(
    cfg: pb.TemplateConfig, p: Attention, blocks: Blocks, s: te.TESchedule, of: Stages
) -> tuple[te.IterVar, te.IterVar, te.IterVar]:
    """Schedule register tiles of scores; return the loops over panels of keys, tiles, and steps of a tile's sums."""
    stage, tile = s[of.scores], s[of.raw]
    *lead, i, j = stage.op.axis
    if blocks.keys * p.itemsize % _ALIAS == 0:
        whole = of.kept if blocks.streams(p) else of.weight
        for each in (stage, *([] if whole is None else [s[whole]])):
            each.storage_align(each.op.axis[-2], blocks.keys, p.lanes)
    io, ii = stage.split(i, factor=blocks.mr)
    jo, ji = stage.split(j, factor=blocks.width)
    stage.pragma(jo, "loop_partition_hint")  # only the last keys need masks and narrower tiles
    *_, i, j = tile.op.axis
    (r,) = tile.op.reduce_axis
    if blocks.is_packed:
        jv, lanes = stage.split(ji, factor=p.lanes)
        stage.reorder(*lead, jo, io, ii, jv, lanes)
        write_out(stage, lanes, (jv, ii))
        jv, lanes = tile.split(j, factor=p.lanes)
        ro, ri = tile.split(r, factor=cfg["unroll"].val)
        tile.reorder(ro, ri, i, jv, lanes)
        write_out(tile, lanes, (ri, i, jv))
    else:
        stage.reorder(*lead, jo, io, ii, ji)
        ro, lanes = tile.split(r, factor=p.lanes)
        ro, ri = tile.split(ro, factor=cfg["unroll"].val)
        tile.reorder(ro, ri, i, j, lanes)
        write_out(tile, lanes, (ri, i, j))
    tile.compute_at(stage, io)
    return jo, io, ro


def _schedule_tops(p: Attention, blocks: Blocks, stage: te.Stage, scores: te.Stage, tile: te.IterVar) -> None:
    """Find the maxima of each register tile as soon as it is done; tiles narrower than a vector have to wait."""
    t, b, x, i, lanes = stage.op.axis
    (j,) = stage.op.reduce_axis
    io, ii = stage.split(i, factor=blocks.mr)
    if not blocks.is_packed:
        stage.reorder(t, b, x, io, j, ii, lanes)
        write_out(stage, lanes, (ii,))
        return
    jo, ji = stage.split(j, factor=blocks.width // p.lanes)
    stage.reorder(stage.fuse(t, b), x, jo, io, ji, ii, lanes)
    write_out(stage, lanes, (ji, ii))
    stage.merge(io, scores, tile)


def _schedule_weights(p: Attention, blocks: Blocks, s: te.TESchedule, of: Stages) -> te.IterVar:
    """Schedule the weights and their sums, several independent vectors at a time; return their loop.

    The vectors are of a tile's rows between the steps of products, else of one row, which needs fewer registers.
    """
    weight, totals = s[of.weight], s[of.totals]
    t, b, x, i, lanes = totals.op.axis
    (j,) = totals.op.reduce_axis
    if not blocks.streams(p):
        together = next(n for n in _TOGETHER if blocks.keys % (n * p.lanes) == 0)
        by_keys, wide = weight.split(weight.op.axis[-1], factor=together * p.lanes)
        weight.vectorize(wide)
        jo, ji = totals.split(j, factor=together)
        totals.reorder(totals.fuse(t, b), x, i, jo, ji, lanes)
        write_out(totals, lanes, (ji,))
        totals.merge(jo, weight, by_keys)
        return by_keys
    by_keys = _schedule_vectors(p, blocks, weight)
    io, ii = totals.split(i, factor=blocks.mr)
    totals.reorder(totals.fuse(t, b), x, io, j, ii, lanes)
    write_out(totals, lanes, (ii,))
    totals.merge(j, weight, by_keys)
    if of.kept is not None:
        s[of.kept].merge(_schedule_vectors(p, blocks, s[of.kept]), weight, by_keys)
    return by_keys


def _schedule_vectors(p: Attention, blocks: Blocks, stage: te.Stage) -> te.IterVar:
    """Compute one vector for each of several rows at a time; return the loop over vectors."""
    b, x, i, j = stage.op.axis
    io, ii = stage.split(i, factor=blocks.mr)
    jo, lanes = stage.split(j, factor=p.lanes)
    stage.reorder(b, x, io, jo, ii, lanes)
    write_out(stage, lanes, (ii,))
    return jo


def _schedule_parts(
    cfg: pb.TemplateConfig, p: Attention, blocks: Blocks, s: te.TESchedule, of: Stages, by_keys: te.IterVar
) -> None:
    """Schedule the products with the values.

    If the blocks stream, the weights of the next keys are computed between the steps of the first register tile of a
    row: the units that add are idle then, and nothing waits for a result.
    """
    stage = s[of.parts]
    t, b, x, i, c = stage.op.axis
    (j,) = stage.op.reduce_axis
    cv, lanes = stage.split(c, factor=p.lanes)
    if not blocks.streams(p):
        _schedule_sums(cfg, stage, j, [i, cv], lanes)
        return
    jw, j = stage.split(j, factor=p.lanes)
    jo, ji = stage.split(j, factor=min(cfg["unroll"].val, p.lanes))
    io, ii = stage.split(i, factor=blocks.mr)
    stage.reorder(stage.fuse(t, b), x, io, jw, jo, ji, ii, cv, lanes)
    write_out(stage, lanes, (ji, ii, cv))
    stage.merge(jw, s[of.weight], by_keys)
    if blocks.keys > p.lanes:
        s[of.weight].double_buffer()


def _schedule_sums(
    cfg: pb.TemplateConfig, stage: te.Stage, j: te.IterVar, tile: list[te.IterVar], lanes: te.IterVar
) -> None:
    jo, ji = stage.split(j, factor=cfg["unroll"].val)
    stage.reorder(jo, ji, *tile, lanes)
    write_out(stage, lanes, (ji, *tile))


def _schedule_rest(cfg: pb.TemplateConfig, p: Attention, blocks: Blocks, s: te.TESchedule, rest: te.Tensor) -> None:
    """Schedule the products with the values in all but the first tile of a row of tiles, with kept weights."""
    tile = s[s.cache_write(rest, "local")]
    *_, i, c = s[rest].op.axis
    _, co = _schedule_tiles(p, blocks, s[rest], i, c)
    tile.compute_at(s[rest], co)
    *_, i, c = tile.op.axis
    (j,) = tile.op.reduce_axis
    cv, lanes = tile.split(c, factor=p.lanes)
    _schedule_sums(cfg, tile, j, [i, cv], lanes)


def _lanes(stage: te.Stage, axis: te.IterVar, lanes: int, extent: int) -> None:
    """Vectorize a loop by the largest number of vectors, up to four, that divides its extent."""
    width = next((n for n in (4, 2, 1) if extent % (n * lanes) == 0), 1) * lanes
    stage.vectorize(stage.split(axis, factor=width)[1])
