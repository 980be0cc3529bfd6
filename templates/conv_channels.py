"""Convolutions whose lanes run along output channels, in either layout.

The register tile is `tile_h` × `tile_w` pixels of the result by `vectors` vectors of channels. Each step of the
reduction multiplies one element of the input for each pixel, broadcast, with vectors of weights that were packed for
it: a panel [filter position][input channel][output channel] for each tile of output channels, zeros beyond the last.
"""

from __future__ import annotations

import math
from typing import Any

from pegbox import te
from pegbox.compute.tensor import Tensor
from pegbox.templates.conv_shape import Conv
from pegbox.templates.conv_space import lanes_of

_UNROLLED = 256  # copies of vectors written out, where the weights of a panel are turned around


def convolution(cfg: Any, conv: Conv, data: Tensor, weight: Tensor) -> tuple[Any, Tensor]:
    """Compute and schedule the convolution as the configuration says: the schedule and the result."""
    panel = cfg["vectors"].val * lanes_of(conv)
    copied = _copied_data(cfg, conv, data)
    packed = _packed_weights(cfg, conv, weight, panel)
    tile = _tiles(cfg, conv, data, copied, packed, panel)

    def element(*index: Any) -> Any:
        n, o, y, x = conv.named(index)
        return tile(n, o // panel, y, x, o % panel)

    out: Tensor = te.compute(conv.out_shape, element, name="C")
    s = te.create_schedule(out.op)
    at_rows, at_channels = _schedule_out(cfg, s, conv, out, tile, panel)
    _schedule_tile(cfg, s, conv, tile)
    if copied is not None:
        _schedule_data(cfg, s, conv, copied, at_rows)
    _schedule_weights(cfg, s, conv, packed, at_channels)
    return s, out


def _copied_data(cfg: Any, conv: Conv, data: Tensor) -> Tensor | None:
    """The input with its border of zeros: in the user's layout, or channels in blocks of `tile_c`."""
    if cfg["pack_data"].val == "no":
        return None
    if cfg["pack_data"].val == "plain":
        shape = conv.at(conv.n, conv.c, *conv.padded)
        plain: Tensor = te.compute(shape, lambda *i: padded(conv, data, *conv.named(i)), name="data_padded")
        return plain
    block = cfg["tile_c"].size[-1]
    blocked: Tensor = te.compute(
        (conv.n, conv.c // block, *conv.padded, block),
        lambda n, co, y, x, ci: padded(conv, data, n, co * block + ci, y, x),
        name="data_blocked",
    )
    return blocked


def padded(conv: Conv, data: Tensor, n: Any, c: Any, y: Any, x: Any) -> Any:
    """An element of the input by its place in the padded one."""
    tests = []
    for at, pad, size in zip((y, x), conv.padding, conv.size, strict=True):
        if pad:
            tests += [at >= pad, at < pad + size]
    value = data(*conv.at(n, c, y - conv.padding[0], x - conv.padding[1]))
    return te.if_then_else(te.all(*tests), value, te.const(0, conv.dtype)) if tests else value


def _packed_weights(cfg: Any, conv: Conv, weight: Tensor, panel: int) -> Tensor:
    """[panel][block of channels][kh][kw][channel][output channel], or channels before kh and kw, as they are read."""
    block = cfg["tile_c"].size[-1]
    zero = te.const(0, conv.dtype)
    inner_k = cfg["inner"].val == "k"

    def element(p: Any, co: Any, a: Any, b: Any, c: Any, z: Any) -> Any:
        ci, kh, kw = (a, b, c) if inner_k else (c, a, b)
        value = weight(*conv.weight_at(p * panel + z, co * block + ci, kh, kw))
        return value if conv.o % panel == 0 else te.if_then_else(p * panel + z < conv.o, value, zero)

    inside = (block, *conv.kernel) if inner_k else (*conv.kernel, block)
    packed: Tensor = te.compute((-(-conv.o // panel), conv.c // block, *inside, panel), element, name="weight_packed")
    return packed


def _tiles(cfg: Any, conv: Conv, data: Tensor, copied: Tensor | None, packed: Tensor, panel: int) -> Tensor:
    """The sums, [n][panel][y][x][output channel of the panel]."""
    block = cfg["tile_c"].size[-1]
    blocked = cfg["pack_data"].val == "blocked"
    inner_k = cfg["inner"].val == "k"
    co, ci = te.reduce_axis((0, conv.c // block), name="co"), te.reduce_axis((0, block), name="ci")
    kh, kw = (te.reduce_axis((0, k), name=name) for k, name in zip(conv.kernel, ("kh", "kw"), strict=True))

    def element(n: Any, p: Any, y: Any, x: Any, z: Any) -> Any:
        at_y = y * conv.stride[0] + kh * conv.dilation[0]
        at_x = x * conv.stride[1] + kw * conv.dilation[1]
        if blocked and copied is not None:
            left = copied(n, co, at_y, at_x, ci)
        else:
            left = (data if copied is None else copied)(*conv.at(n, co * block + ci, at_y, at_x))
        right = packed(p, co, ci, kh, kw, z) if inner_k else packed(p, co, kh, kw, ci, z)
        return te.sum(left * right, axis=(co, kh, kw, ci))

    tile: Tensor = te.compute((conv.n, packed.shape[0], *conv.out, panel), element, name="tile")
    return tile


def _schedule_out(cfg: Any, s: Any, conv: Conv, out: Tensor, tile: Tensor, panel: int) -> tuple[Any, Any]:
    """Blocks of rows and of channels, tiles in them, each written when it is done."""
    n, o, y, x = conv.named(s[out].op.axis)
    height, width = cfg["tile_h"].val, cfg["tile_w"].val
    ot, oi = s[out].split(o, factor=panel)
    yt, yi = s[out].split(y, factor=height)
    xt, xi = s[out].split(x, factor=width)
    oo, om = s[out].split(ot, factor=-(-cfg["block_o"].val // panel))
    yo, ym = s[out].split(yt, factor=-(-cfg["block_h"].val // height))
    loops = {"o": om, "h": ym, "w": xt}
    outer = [oo, yo] if cfg["order"].val == "oh" else [yo, oo]
    inner = [loops[letter] for letter in cfg["order_tiles"].val]
    ov, ol = s[out].split(oi, factor=lanes_of(conv))
    if conv.layout == "NHWC":
        s[out].reorder(n, *outer, *inner, yi, xi, ov, ol)
        s[out].vectorize(ol)
        for loop in (yi, xi, ov):
            s[out].unroll(loop)
    else:
        # Lanes along the row that is stored: the tile is turned around in registers.
        s[out].reorder(n, *outer, *inner, yi, ov, ol, xi)
        s[out].vectorize(xi)
        for loop in (yi, ov, ol):
            s[out].unroll(loop)
    first = s[out].fuse(n, outer[0])
    s[out].parallel(first)
    s[tile].compute_at(s[out], inner[-1])
    places = {outer[0]: first, outer[1]: outer[1]}
    return (s[out], places[yo]), (s[out], places[oo])


def _schedule_tile(cfg: Any, s: Any, conv: Conv, tile: Tensor) -> None:
    n, p, y, x, z = s[tile].op.axis
    co, kh, kw, ci = s[tile].op.reduce_axis
    zv, zl = s[tile].split(z, factor=lanes_of(conv))
    if cfg["inner"].val == "k":
        reduction = [co, ci, kh, kw]
        unrolled = {"none": [], "kw": [kw], "kh_kw": [kh, kw]}[cfg["unroll_k"].val]
    else:
        cio, cii = s[tile].split(ci, factor=cfg["unroll_c"].val)
        reduction, unrolled = [co, kh, kw, cio, cii], [cii]
    s[tile].reorder(n, p, *reduction, y, x, zv, zl)
    s[tile].vectorize(zl)
    for loop in (*unrolled, y, x, zv):
        s[tile].unroll(loop)


def _schedule_data(cfg: Any, s: Any, conv: Conv, copied: Tensor, at: tuple[Any, Any]) -> None:
    """Copy rows of the input, all of them beforehand or those of a block."""
    *outer, last = s[copied].op.axis
    if cfg["data_at"].val == "block":
        s[copied].compute_at(*at)
    else:
        s[copied].parallel(s[copied].fuse(*outer[:2]))
    lanes = lanes_of(conv)
    if last.extent >= lanes and (cfg["pack_data"].val == "plain" or conv.layout == "NHWC"):
        _, inside = s[copied].split(last, factor=lanes)
        s[copied].vectorize(inside)


def _schedule_weights(cfg: Any, s: Any, conv: Conv, packed: Tensor, at: tuple[Any, Any]) -> None:
    """Vectors of output channels; neighbours in the user's layout are read as vectors and turned around."""
    panel, co, *middle, z = s[packed].op.axis
    ci, kh, kw = middle if cfg["inner"].val == "k" else (middle[2], *middle[:2])
    zv, zl = s[packed].split(z, factor=lanes_of(conv))
    near = _neighbours(conv, kh, kw)
    most = max(1, _UNROLLED // math.prod(loop.extent for loop in near))
    cio, cii = s[packed].split(ci, factor=min(lanes_of(conv), 1 << (most.bit_length() - 1)))
    s[packed].reorder(panel, co, *(loop for loop in (kh, kw) if loop not in near), cio, zv, cii, *near, zl)
    s[packed].vectorize(zl)
    if conv.weights != "HWIO":
        for loop in (cii, *near):
            s[packed].unroll(loop)
    if cfg["weights_at"].val == "block":
        s[packed].compute_at(*at)
    else:
        s[packed].parallel(panel)


def _neighbours(conv: Conv, kh: Any, kw: Any) -> list[Any]:
    """The loops over filter positions that go through neighbours of one input channel in the user's weights."""
    if conv.weights != "OIHW":
        return []
    return [kh, kw] if kh.extent * kw.extent <= _UNROLLED else [kw]
