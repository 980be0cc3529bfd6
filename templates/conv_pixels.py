"""Convolutions in NCHW whose lanes run along pixels, so that neither the input nor the result changes its layout.

Rows of an image are taken as one line. In the copy of the input with its border they are so long ("pitch") that what a
filter position needs always lies equally far from the pixel of the result: pixel q = y · pitch + x reads element
q + kh · d · pitch + kw · d. So vectors run on over the ends of rows, and of what they compute only the few elements
between one row's end and the next one's start are for nothing, also where rows are much shorter than a vector. With
strides the copy holds every `stride`-th row and column apart ("phases"), and the same is true of each phase.

The register tile is `tile_o` output channels by `vectors` vectors of pixels; weights are broadcast. Blocks of rows have
lines of their own, which stick out into the copy's room for whole tiles; the result is copied out of them. Where rows
have no gaps (filters of 1×1) the tile is stored where it belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pegbox import te
from pegbox.compute.tensor import Tensor
from pegbox.templates import conv_tiles as tiles
from pegbox.templates.conv_channels import padded
from pegbox.templates.conv_shape import PACKED, Conv
from pegbox.templates.register_tile import lanes_of


def convolution(cfg: Any, conv: Conv, data: Tensor, weight: Tensor) -> tuple[Any, Tensor]:
    """Compute and schedule the convolution as the configuration says: the schedule and the result."""
    lines = _Lines.of(cfg, conv)
    copied = _phases(conv, data, lines) if cfg["pack_data"].val != "no" else None
    packed = (
        None if conv.weights == PACKED or not cfg["pack_weights"].val else _packed_weights(cfg, conv, weight, lines)
    )
    sums = _sums(cfg, conv, lines, data if copied is None else copied, weight if packed is None else packed)
    s, out, first = (_result if tiles.is_gapless(conv) else _result_of_rows)(cfg, conv, lines, sums)
    if copied is not None:
        _schedule_data(cfg, s, copied, (s[out], first))
    if packed is not None:
        _schedule_weights(cfg, s, packed, (s[out], first))
    return s, out


@dataclass(frozen=True)
class _Lines:
    """Blocks of rows, each a line of `length` pixels that lies `apart` pixels after the one before."""

    blocks: int
    apart: int
    length: int
    channels: int
    lanes: int

    @classmethod
    def of(cls, cfg: Any, conv: Conv) -> _Lines:
        lanes = lanes_of(cfg.target, conv.dtype)
        tile, block = cfg["vectors"].val * lanes, cfg["block_h"].val
        channels = cfg["tile_o"].val * tiles.panels_of(cfg, conv, cfg.target)
        if tiles.is_gapless(conv):
            pixels = conv.out[0] * conv.out[1]
            if cfg["pack_data"].val != "no":
                pixels = -(-pixels // tile) * tile
            return cls(1, 0, pixels, channels, lanes)
        rows = block or conv.out[0]
        length = -(-tiles.line_of(conv, block) // tile) * tile
        return cls(-(-conv.out[0] // rows), rows * tiles.pitch_of(conv), length, channels, lanes)


def _phases(conv: Conv, data: Tensor, lines: _Lines) -> Tensor:
    """The input with its border, [n][c][phase of rows][phase of columns][row][column], to where the last line ends."""
    (sy, sx), pitch = conv.stride, tiles.pitch_of(conv)
    phases = [max(k * d % s for k in range(size)) + 1 for size, d, s in
              zip(conv.kernel, conv.dilation, conv.stride, strict=True)]  # fmt: skip
    furthest = (lines.blocks - 1) * lines.apart + lines.length - 1 + conv.reach[0] // sy * pitch + conv.reach[1] // sx
    shape = (conv.n, conv.c, *phases, furthest // pitch + 1, pitch)
    last = [(size - 1) * s + phase - 1 for size, s, phase in zip(shape[-2:], conv.stride, phases, strict=True)]
    copied: Tensor = te.compute(
        shape,
        lambda n, c, py, px, y, x: padded(conv, data, last, n, c, y * sy + py, x * sx + px),
        name="data_phases",
    )
    return copied


def _packed_weights(cfg: Any, conv: Conv, weight: Tensor, lines: _Lines) -> Tensor:
    """[tile of output channels][channel][kh][kw][output channel of the tile]."""
    height, zero = cfg["tile_o"].val, te.const(0, conv.dtype)

    def element(p: Any, c: Any, kh: Any, kw: Any, z: Any) -> Any:
        value = weight(*conv.weight_at(p * height + z, c, kh, kw))
        return value if lines.channels == conv.o else te.if_then_else(p * height + z < conv.o, value, zero)

    packed: Tensor = te.compute((lines.channels // height, conv.c, *conv.kernel, height), element, name="weight_packed")
    return packed


def _sums(cfg: Any, conv: Conv, lines: _Lines, source: Tensor, weight: Tensor) -> Any:
    """A function that gives the sum for (n, block of rows, output channel, pixel of its line)."""
    block, height, lanes, pitch = cfg["tile_c"].size[-1], cfg["tile_o"].val, lines.lanes, tiles.pitch_of(conv)
    (sy, sx), (dy, dx) = conv.stride, conv.dilation
    co, ci = te.reduce_axis((0, conv.c // block), name="co"), te.reduce_axis((0, block), name="ci")
    kh, kw = (te.reduce_axis((0, k), name=name) for k, name in zip(conv.kernel, ("kh", "kw"), strict=True))

    def factor(o: Any, c: Any) -> Any:
        if conv.weights == PACKED:
            return weight(o // lanes, kh, kw, c, o % lanes)
        if weight.ndim == 5:
            return weight(o // height, c, kh, kw, o % height)
        return weight(*conv.weight_at(o, c, kh, kw))

    def element(n: Any, yb: Any, o: Any, q: Any) -> Any:
        c = co * block + ci
        at = yb * lines.apart + q + kh * dy // sy * pitch + kw * dx // sx
        phase = () if source.ndim == 4 else (kh * dy % sy, kw * dx % sx)
        return te.sum(source(n, c, *phase, at // pitch, at % pitch) * factor(o, c), axis=(co, kh, kw, ci))

    return element


def _result(cfg: Any, conv: Conv, lines: _Lines, sums: Any) -> tuple[Any, Tensor, Any]:
    """Tiles of pixels are stored where they belong. Gives the schedule, the result and its outermost loop."""
    shape = (conv.n, lines.channels, lines.length)
    tile: Tensor = te.compute(shape, lambda n, o, q: sums(n, 0, o, q), name="tile")
    out: Tensor = te.compute(conv.out_shape, lambda n, o, y, x: tile(n, o, y * conv.out[1] + x), name="C")
    s = te.create_schedule(out.op)
    n, o, y, x = s[out].op.axis
    oo, om, oi = _split_channels(cfg, s[out], conv, o)
    qt, qi = s[out].split(s[out].fuse(y, x), factor=cfg["vectors"].val * lines.lanes)
    qo, qm = s[out].split(qt, factor=cfg["block_h"].val or tiles.heights_of(cfg, conv, cfg.target))
    outer = [oo, qo] if cfg["order"].val == "oh" else [qo, oo]
    s[out].reorder(n, *outer, om, qm, oi, qi)
    first = s[out].fuse(n, outer[0])
    s[out].parallel(first)
    _schedule_tile(cfg, s, out, tile, (om, qm, oi, qi), lines.lanes)
    return s, out, first


def _result_of_rows(cfg: Any, conv: Conv, lines: _Lines, sums: Any) -> tuple[Any, Tensor, Any]:
    """A block's lines are copied to where they belong when they are done. Gives the same as `_result`."""
    rows, pitch = cfg["block_h"].val or conv.out[0], tiles.pitch_of(conv)
    whole: Tensor = te.compute((conv.n, lines.blocks, lines.channels, lines.length), sums, name="lines")
    out: Tensor = te.compute(conv.out_shape, lambda n, o, y, x: whole(n, y // rows, o, y % rows * pitch + x), name="C")
    s = te.create_schedule(out.op)
    tile = s.cache_write(whole, "local")
    n, o, y, x = s[out].op.axis
    oo, *inside = _split_channels(cfg, s[out], conv, o)
    yo, yi = s[out].split(y, factor=rows)
    outer = [oo, yo] if cfg["order"].val == "oh" else [yo, oo]
    s[out].reorder(n, *outer, *inside, yi, x)
    s[out].vectorize(x)
    first = s[out].fuse(n, outer[0])
    s[out].parallel(first)
    s[whole].compute_at(s[out], outer[1])
    n, yb, o, q = s[whole].op.axis
    om, oi = s[whole].split(o, factor=cfg["tile_o"].val)
    qm, qi = s[whole].split(q, factor=cfg["vectors"].val * lines.lanes)
    s[whole].reorder(n, yb, om, qm, oi, qi)
    _schedule_tile(cfg, s, whole, tile, (om, qm, oi, qi), lines.lanes)
    return s, out, first


def _split_channels(cfg: Any, stage: Any, conv: Conv, o: Any) -> tuple[Any, Any, Any]:
    """Loops over blocks, tiles of a block, and channels of a tile."""
    ot, oi = stage.split(o, factor=cfg["tile_o"].val)
    oo, om = stage.split(ot, factor=cfg["block_o"].val or tiles.panels_of(cfg, conv, cfg.target))
    return oo, om, oi


def _schedule_tile(cfg: Any, s: Any, stage: Tensor, tile: Tensor, loops: Sequence[Any], lanes: int) -> None:
    """The register tile, summed at the inner one of the loops over tiles of `stage`, which stores it."""
    om, qm, oi, qi = loops
    qv, ql = s[stage].split(qi, factor=lanes)
    tiled = [om, qm] if cfg["order_tiles"].val == "ohw" else [qm, om]
    s[stage].reorder(*tiled, oi, qv, ql)
    s[stage].vectorize(ql)
    s[stage].unroll(oi)
    s[stage].unroll(qv)
    s[tile].compute_at(s[stage], tiled[1])
    *outer, o, q = s[tile].op.axis
    co, kh, kw, ci = s[tile].op.reduce_axis
    qv, ql = s[tile].split(q, factor=lanes)
    if cfg["inner"].val == "k":
        reduction = [co, ci, kh, kw]
        unrolled = {"none": [], "kw": [kw], "kh_kw": [kh, kw]}[cfg["unroll_k"].val]
    else:
        cio, cii = s[tile].split(ci, factor=cfg["unroll_c"].val)
        reduction, unrolled = [co, kh, kw, cio, cii], [cii]
    s[tile].reorder(*outer, *reduction, o, qv, ql)
    s[tile].vectorize(ql)
    for loop in (*unrolled, o, qv):
        s[tile].unroll(loop)


def _schedule_data(cfg: Any, s: Any, copied: Tensor, at: tuple[Any, Any]) -> None:
    n, c, *_, x = s[copied].op.axis
    if cfg["data_at"].val == "block":
        s[copied].compute_at(*at)
    else:
        s[copied].parallel(s[copied].fuse(n, c))
    s[copied].vectorize(x)


def _schedule_weights(cfg: Any, s: Any, packed: Tensor, at: tuple[Any, Any]) -> None:
    panel, *_, z = s[packed].op.axis
    if cfg["weights_at"].val == "block":
        s[packed].compute_at(*at)
    else:
        s[packed].parallel(panel)
    s[packed].unroll(z)
