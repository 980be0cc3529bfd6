"""Convolutions in NCHW whose lanes run along pixels, so that neither the input nor the result changes its layout.

Rows of an image are taken as one line. In the copy of the input with its border they are so long ("pitch") that what a
filter position needs always lies equally far from the pixel of the result: pixel q = y · pitch + x reads element
q + kh · d · pitch + kw · d. So vectors run on over the ends of rows, and of what they compute only the few elements
between one row's end and the next one's start are for nothing, also where rows are much shorter than a vector. With
strides the copy holds every `stride`-th row and column apart ("phases"), and the same is true of each phase.

The register tile is `tile_o` output channels by `vectors` vectors of pixels; weights are broadcast.
"""

from __future__ import annotations

from typing import Any

from pegbox import te
from pegbox.compute.tensor import Tensor
from pegbox.templates.conv_channels import padded
from pegbox.templates.conv_shape import Conv
from pegbox.templates.conv_space import lanes_of


def convolution(cfg: Any, conv: Conv, data: Tensor, weight: Tensor) -> tuple[Any, Tensor]:
    """Compute and schedule the convolution as the configuration says: the schedule and the result."""
    pitch = _pitch(conv) if cfg["pack_data"].val != "no" else conv.size[1]
    copied = _phases(conv, data, pitch) if cfg["pack_data"].val != "no" else None
    packed = _packed_weights(cfg, conv, weight) if cfg["pack_weights"].val else None
    lines = _lines(cfg, conv, data if copied is None else copied, weight if packed is None else packed, pitch)
    out = te.compute(conv.out_shape, lambda n, o, y, x: lines(n, o, y * pitch + x), name="C")
    s = te.create_schedule(out.op)
    tile = s.cache_write(lines, "local")
    at_rows, at_channels = _schedule_out(cfg, s, conv, out, lines)
    _schedule_lines(cfg, s, conv, lines, tile)
    if copied is not None:
        _schedule_data(cfg, s, conv, copied, at_rows)
    if packed is not None:
        _schedule_weights(cfg, s, packed, at_channels)
    return s, out


def _pitch(conv: Conv) -> int:
    """Columns of a phase: those of the result and as many as a filter reaches beyond."""
    return conv.out[1] + conv.reach[1] // conv.stride[1]


def _phases(conv: Conv, data: Tensor, pitch: int) -> Tensor:
    """The input with its border, [n][c][phase of rows][phase of columns][row][column]."""
    (sy, sx), (oh, _) = conv.stride, conv.out
    phases = [max(k * d % s for k in range(size)) + 1 for size, d, s in
              zip(conv.kernel, conv.dilation, conv.stride, strict=True)]  # fmt: skip
    copied: Tensor = te.compute(
        (conv.n, conv.c, *phases, oh + conv.reach[0] // sy, pitch),
        lambda n, c, py, px, y, x: padded(conv, data, n, c, y * sy + py, x * sx + px),
        name="data_phases",
    )
    return copied


def _packed_weights(cfg: Any, conv: Conv, weight: Tensor) -> Tensor:
    """[tile of output channels][channel][kh][kw][output channel of the tile]."""
    height, zero = cfg["tile_o"].val, te.const(0, conv.dtype)

    def element(p: Any, c: Any, kh: Any, kw: Any, z: Any) -> Any:
        value = weight(*conv.weight_at(p * height + z, c, kh, kw))
        return value if conv.o % height == 0 else te.if_then_else(p * height + z < conv.o, value, zero)

    packed: Tensor = te.compute((-(-conv.o // height), conv.c, *conv.kernel, height), element, name="weight_packed")
    return packed


def _lines(cfg: Any, conv: Conv, source: Tensor, weight: Tensor, pitch: int) -> Tensor:
    """The sums, [n][output channel][pixel], rows one after the other, `pitch` pixels apart."""
    block, height = cfg["tile_c"].size[-1], cfg["tile_o"].val
    (sy, sx), (dy, dx) = conv.stride, conv.dilation
    co, ci = te.reduce_axis((0, conv.c // block), name="co"), te.reduce_axis((0, block), name="ci")
    kh, kw = (te.reduce_axis((0, k), name=name) for k, name in zip(conv.kernel, ("kh", "kw"), strict=True))

    def element(n: Any, o: Any, q: Any) -> Any:
        c = co * block + ci
        at = q + kh * dy // sy * pitch + kw * dx // sx
        if source.ndim == 4:
            left = source(n, c, at // pitch, at % pitch)
        else:
            left = source(n, c, kh * dy % sy, kw * dx % sx, at // pitch, at % pitch)
        right = (
            weight(o // height, c, kh, kw, o % height) if weight.ndim == 5 else weight(*conv.weight_at(o, c, kh, kw))
        )
        return te.sum(left * right, axis=(co, kh, kw, ci))

    (oh, ow) = conv.out
    lines: Tensor = te.compute((conv.n, conv.o, (oh - 1) * pitch + ow), element, name="lines")
    return lines


def _schedule_out(cfg: Any, s: Any, conv: Conv, out: Tensor, lines: Tensor) -> tuple[Any, Any]:
    """Blocks of rows and of channels, copied to where they belong when they are done."""
    n, o, y, x = s[out].op.axis
    height = cfg["tile_o"].val
    oo, oi = s[out].split(o, factor=-(-cfg["block_o"].val // height) * height)
    yo, yi = s[out].split(y, factor=cfg["block_h"].val)
    outer = [oo, yo] if cfg["order"].val == "oh" else [yo, oo]
    s[out].reorder(n, *outer, oi, yi, x)
    s[out].vectorize(x)
    first = s[out].fuse(n, outer[0])
    s[out].parallel(first)
    s[lines].compute_at(s[out], outer[1])
    places = {outer[0]: first, outer[1]: outer[1]}
    return (s[out], places[yo]), (s[out], places[oo])


def _schedule_lines(cfg: Any, s: Any, conv: Conv, lines: Tensor, tile: Tensor) -> None:
    lanes = lanes_of(conv)
    n, o, q = s[lines].op.axis
    ot, oi = s[lines].split(o, factor=cfg["tile_o"].val)
    qt, qi = s[lines].split(q, factor=cfg["vectors"].val * lanes)
    qv, ql = s[lines].split(qi, factor=lanes)
    tiles = [ot, qt] if cfg["order_tiles"].val == "op" else [qt, ot]
    s[lines].reorder(n, *tiles, oi, qv, ql)
    s[lines].vectorize(ql)
    s[lines].unroll(oi)
    s[lines].unroll(qv)
    s[tile].compute_at(s[lines], tiles[1])
    n, o, q = s[tile].op.axis
    co, kh, kw, ci = s[tile].op.reduce_axis
    qv, ql = s[tile].split(q, factor=lanes)
    if cfg["inner"].val == "k":
        reduction = [co, ci, kh, kw]
        unrolled = {"none": [], "kw": [kw], "kh_kw": [kh, kw]}[cfg["unroll_k"].val]
    else:
        cio, cii = s[tile].split(ci, factor=cfg["unroll_c"].val)
        reduction, unrolled = [co, kh, kw, cio, cii], [cii]
    s[tile].reorder(n, *reduction, o, qv, ql)
    s[tile].vectorize(ql)
    for loop in (*unrolled, o, qv):
        s[tile].unroll(loop)


def _schedule_data(cfg: Any, s: Any, conv: Conv, copied: Tensor, at: tuple[Any, Any]) -> None:
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
