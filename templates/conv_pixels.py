"""The `pixels` variant of conv2d: its stages and schedule, with vectors along the pixels of NCHW images.

Rows of an image are treated as one line. In the copy of the input with its border, they are so long ("pitch") that the
element for a filter position always has the same distance from the pixel of the result: pixel q = y · pitch + x reads
element q + kh · d · pitch + kw · d. So vectors continue across the ends of rows, and only the few elements between one
row's end and the next one's start are computed for nothing, even if rows are much shorter than a vector. With strides,
the copy separates every `stride`-th row and column ("phases"), and the same is true of each phase.

The register tile is `tile_o` output channels by `vectors` vectors of pixels; weights are broadcast. Each block of rows
has its own line, which extends into the copy's room for whole tiles; the result is copied from it. If rows have no gaps
(filters of 1×1), the tile is stored directly in the result. A product with the columns of another convolution may have
its channels last: then the tile is transposed while it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pegbox as pb
from pegbox import te
from pegbox.templates import conv_tiles as tiles
from pegbox.templates import threads
from pegbox.templates.conv_choices import AS_IT_LIES, OHW, ROWS_OUTSIDE
from pegbox.templates.conv_shape import PACKED, Conv
from pegbox.templates.conv_stages import ConvStages, Place, padded, place_copy, reduction_axes, reduction_loops
from pegbox.templates.register_tile import write_out


@dataclass(frozen=True)
class _Lines:
    """Blocks of rows, each a line of `length` pixels that begins `apart` pixels after the previous one."""

    blocks: int
    apart: int
    length: int
    channels: int

    @classmethod
    def of(cls, cfg: pb.TemplateConfig, conv: Conv) -> _Lines:
        tile, block = cfg["vectors"].val * conv.lanes, cfg["block_h"].val
        channels = cfg["tile_o"].val * tiles.panels_of(cfg, conv)
        if tiles.is_gapless(conv):
            pixels = conv.out[0] * conv.out[1]
            if cfg["pack_data"].val != AS_IT_LIES:
                pixels = -(-pixels // tile) * tile
            return cls(1, 0, pixels, channels)
        rows = block or conv.out[0]
        length = -(-tiles.line_of(conv, block) // tile) * tile
        return cls(-(-conv.out[0] // rows), rows * tiles.pitch_of(conv), length, channels)

    def rows(self, conv: Conv) -> int:
        """Count the rows of a phase that the lines read."""
        pitch, (sy, sx) = tiles.pitch_of(conv), conv.stride
        furthest = (self.blocks - 1) * self.apart + self.length - 1 + conv.reach[0] // sy * pitch + conv.reach[1] // sx
        return furthest // pitch + 1


# Computation -------------------------------------------------------------------------------------------------------


def compute(cfg: pb.TemplateConfig, conv: Conv, data: te.Tensor, weight: te.Tensor) -> ConvStages:
    """Compute the result from lines of sums, and these from copies of the operands, by the configuration."""
    lines, image = _Lines.of(cfg, conv), channels_first(conv, data)
    copied = phases(conv, image, lines.rows(conv)) if cfg["pack_data"].val != AS_IT_LIES else None
    packed = None
    if conv.weights != PACKED and cfg["pack_weights"].val:
        packed = _packed_weights(cfg, conv, weight, lines)
    element = _sums(cfg, conv, lines, image if copied is None else copied, weight if packed is None else packed)
    if tiles.is_gapless(conv):
        shape = (conv.n, lines.channels, lines.length)
        sums = te.compute(shape, lambda n, o, q: element(n, 0, o, q), name="tile")
    else:
        sums = te.compute((conv.n, lines.blocks, lines.channels, lines.length), element, name="lines")
    rows, pitch = cfg["block_h"].val or conv.out[0], tiles.pitch_of(conv)

    def pixel(*index: te.Expr) -> te.Expr:
        n, o, y, x = conv.named(index)
        return sums(n, o, y * pitch + x) if sums.ndim == 3 else sums(n, y // rows, o, y % rows * pitch + x)

    turned = None if image is data else image
    return ConvStages(te.compute(conv.out_shape, pixel, name="C"), sums, copied, packed, turned)


def channels_first(conv: Conv, data: te.Tensor) -> te.Tensor:
    """Return the input with its channels before its pixels; columns already have this order."""
    if conv.layout == "NCHW" or conv.are_columns:
        return data
    return te.compute((conv.n, conv.c, *conv.size), lambda n, c, y, x: data(*conv.at(n, c, y, x)), name="data_turned")


def phases(conv: Conv, image: te.Tensor, rows: int, *, name: str = "data_phases") -> te.Tensor:
    """Return some rows of an image with its border: [n][c][phase of rows][phase of columns][row][column]."""
    first, (sy, sx), pitch = replace(conv, layout="NCHW"), conv.stride, tiles.pitch_of(conv)
    counts = [max(k * d % s for k in range(size)) + 1 for size, d, s in
              zip(conv.kernel, conv.dilation, conv.stride, strict=True)]  # fmt: skip
    last = [(size - 1) * s + count - 1 for size, s, count in zip((rows, pitch), conv.stride, counts, strict=True)]
    return te.compute(
        (conv.n, conv.c, *counts, rows, pitch),
        lambda n, c, py, px, y, x: padded(first, image, last, n, c, y * sy + py, x * sx + px),
        name=name,
    )


def _packed_weights(cfg: pb.TemplateConfig, conv: Conv, weight: te.Tensor, lines: _Lines) -> te.Tensor:
    """Pack weights as [tile of output channels][channel][kh][kw][output channel of the tile]."""
    height, zero = cfg["tile_o"].val, te.const(0, conv.dtype)

    def element(p: te.Expr, c: te.Expr, kh: te.Expr, kw: te.Expr, z: te.Expr) -> te.Expr:
        value = weight(*conv.weight_at(p * height + z, c, kh, kw))
        return value if lines.channels == conv.o else te.if_then_else(p * height + z < conv.o, value, zero)

    return te.compute((lines.channels // height, conv.c, *conv.kernel, height), element, name="weight_packed")


def _sums(
    cfg: pb.TemplateConfig, conv: Conv, lines: _Lines, source: te.Tensor, weight: te.Tensor
) -> Callable[..., te.Expr]:
    """Return a function that returns the sum for (n, block of rows, output channel, pixel of its line)."""
    block, height, lanes, pitch = cfg["tile_c"].size[-1], cfg["tile_o"].val, conv.lanes, tiles.pitch_of(conv)
    (sy, sx), (dy, dx) = conv.stride, conv.dilation
    co, kh, kw, ci = reduction_axes(conv, block)

    def factor(o: te.Expr, c: te.Expr) -> te.Expr:
        if conv.weights == PACKED:
            return weight(o // lanes, kh, kw, c, o % lanes)
        if weight.ndim == 5:
            return weight(o // height, c, kh, kw, o % height)
        return weight(*conv.weight_at(o, c, kh, kw))

    def element(n: te.Expr, yb: te.Expr | int, o: te.Expr, q: te.Expr) -> te.Expr:
        c = co * block + ci
        at = yb * lines.apart + q + kh * dy // sy * pitch + kw * dx // sx
        phase = () if source.ndim == 4 else (kh * dy % sy, kw * dx % sx)
        return te.sum(source(n, c, *phase, at // pitch, at % pitch) * factor(o, c), axis=(co, kh, kw, ci))

    return element


# Schedule ----------------------------------------------------------------------------------------------------------


def schedule(cfg: pb.TemplateConfig, conv: Conv, stages: ConvStages) -> te.TESchedule:
    """Schedule the stages by the configuration."""
    s = te.create_schedule(stages.out.op)
    store = _store_tiles if tiles.is_gapless(conv) else _store_lines
    block = s[stages.out], store(cfg, s, conv, stages)
    reader = block
    if stages.copied is not None:
        n, c, *_, x = s[stages.copied].op.axis
        place_copy(cfg, s[stages.copied], cfg["data_at"].val, block, [n, c])
        s[stages.copied].vectorize(x)
        reader = s[stages.copied], n
    if stages.turned is not None:
        turn(cfg, s[stages.turned], conv, reader)
    if stages.packed is not None:
        panel, *_, z = s[stages.packed].op.axis
        place_copy(cfg, s[stages.packed], cfg["weights_at"].val, block, [panel])
        s[stages.packed].unroll(z)
    return s


def turn(cfg: pb.TemplateConfig, stage: te.Stage, conv: Conv, reader: Place) -> None:
    """Transpose an image in registers, from vectors of channels, for a block of its reader or beforehand."""
    n, c, y, x = stage.op.axis
    co, ci = stage.split(c, factor=conv.lanes)
    xo, xi = stage.split(x, factor=conv.lanes)
    stage.reorder(n, co, y, xo, ci, xi)
    write_out(stage, xi, [ci])
    place_copy(cfg, stage, cfg["data_at"].val, reader, [n, co])


def _store_tiles(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, stages: ConvStages) -> te.IterVar:
    """Store tiles of pixels directly in the result, and return its outermost loop."""
    out = stages.out
    n, o, y, x = conv.named(s[out].op.axis)
    oo, om, oi = _split_channels(cfg, s[out], conv, o)
    qt, qi = s[out].split(s[out].fuse(y, x), factor=cfg["vectors"].val * conv.lanes)
    qo, qm = s[out].split(qt, factor=cfg["block_h"].val or tiles.heights_of(cfg, conv))
    outer = [qo, oo] if cfg["order"].val == ROWS_OUTSIDE else [oo, qo]
    s[out].reorder(n, *outer, om, qm, oi, qi)
    first = s[out].fuse(n, outer[0])
    threads.share(cfg, s[out], first)
    _schedule_tile(cfg, s, conv, s[out], stages.sums, (om, qm, oi, qi))
    return first


def _store_lines(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, stages: ConvStages) -> te.IterVar:
    """Copy a block's finished lines to their places, and return the outermost loop of the result."""
    out, lines = stages.out, stages.sums
    tile = s.cache_write(lines, "local")
    n, o, y, x = conv.named(s[out].op.axis)
    oo, om, oi = _split_channels(cfg, s[out], conv, o)
    yo, yi = s[out].split(y, factor=cfg["block_h"].val or conv.out[0])
    outer = [yo, oo] if cfg["order"].val == ROWS_OUTSIDE else [oo, yo]
    inside = [om, oi, yi, x] if conv.layout == "NCHW" else [om, yi, x, oi]
    s[out].reorder(n, *outer, *inside)
    s[out].vectorize(inside[-1])
    first = s[out].fuse(n, outer[0])
    threads.share(cfg, s[out], first)
    s[lines].compute_at(s[out], outer[1])
    n, yb, o, q = s[lines].op.axis
    om, oi = s[lines].split(o, factor=cfg["tile_o"].val)
    qm, qi = s[lines].split(q, factor=cfg["vectors"].val * conv.lanes)
    s[lines].reorder(n, yb, om, qm, oi, qi)
    _schedule_tile(cfg, s, conv, s[lines], tile, (om, qm, oi, qi))
    return first


def _split_channels(
    cfg: pb.TemplateConfig, stage: te.Stage, conv: Conv, o: te.IterVar
) -> tuple[te.IterVar, te.IterVar, te.IterVar]:
    """Return loops over blocks, tiles of a block, and channels of a tile."""
    ot, oi = stage.split(o, factor=cfg["tile_o"].val)
    oo, om = stage.split(ot, factor=cfg["block_o"].val or tiles.panels_of(cfg, conv))
    return oo, om, oi


def _schedule_tile(
    cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, store: te.Stage, tile: te.Tensor, loops: Sequence[te.IterVar]
) -> None:
    """Sum the register tile at the inner one of the loops over tiles of the stage that stores it."""
    lanes = conv.lanes
    om, qm, oi, qi = loops
    qv, ql = store.split(qi, factor=lanes)
    tiled = [om, qm] if cfg["order_tiles"].val == OHW else [qm, om]
    if conv.layout == "NCHW" or not tiles.is_gapless(conv):
        store.reorder(*tiled, oi, qv, ql)
        write_out(store, ql, (oi, qv))
    else:
        store.reorder(*tiled, qv, ql, oi)
        write_out(store, oi, (qv, ql))
    s[tile].compute_at(store, tiled[1])
    *outer, o, q = s[tile].op.axis
    qv, ql = s[tile].split(q, factor=lanes)
    reduction, unrolled = reduction_loops(cfg, s[tile])
    s[tile].reorder(*outer, *reduction, o, qv, ql)
    write_out(s[tile], ql, (*unrolled, o, qv))
