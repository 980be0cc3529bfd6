"""Depthwise 2-D convolution: C[n, c, y, x] = Σ data[n, c, y·s + kh·d - p, x·s + kw·d - p] · weight[c, kh, kw].

Each channel has a filter of its own, so there is nothing to block but what a core loads and stores. The register tile
is `tile_h` rows by `tile_w` pixels of the result, by `vectors` vectors of channels for NHWC. Elements of the input that
several results of a tile need are loaded once.

- NHWC: vectors run along the channels. Nothing is copied: the filter's rows and columns that lie in the border are left
  out, for which loops are cut there (`where`).
- NCHW: vectors run along a row. The image is read as it is, and the border left out, or (`copy`) the image of each
  channel is first copied with its border of zeros while it is in the closest cache; with a stride, columns that a
  vector of results reads lie together in the copy ("phases").
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import pegbox as pb
from pegbox import te
from pegbox.codegen import Target
from pegbox.templates import threads
from pegbox.templates.conv_shape import Conv, Steps, Window, conv_shape
from pegbox.templates.conv_stages import padded
from pegbox.templates.conv_stages import plain_depthwise as plain
from pegbox.templates.register_tile import BODY, write_out

STRIP = "yxc"
_ORDERS = (STRIP, "ycx", "cyx")
"""The orders of the loops over tiles of NHWC, outermost first: rows, pixels of a row, channels."""

_FIELDS = {"tile_h": "height", "tile_w": "width", "vectors": "vectors"}
_HEIGHTS = (1, 2, 3, 4, 5, 6, 7, 8)
_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 14)
_VECTORS = (1, 2, 3, 4, 6, 8)
_FEWEST = 4
"""The fewest accumulators of a tile; those of the next tile are under way at the same time."""

_OTHERS = 2
"""The registers for elements of the input."""


@dataclass(frozen=True)
class _Stages:
    """The result, the tile that it is stored from, and the copy of an image with its border (of NCHW)."""

    out: te.Tensor
    tile: te.Tensor
    copied: te.Tensor | None


@pb.template("depthwise_conv2d")
def depthwise_conv2d(
    cfg: pb.TemplateConfig,
    N: int,
    C: int,
    H: int,
    W: int,
    KH: int,
    KW: int,
    stride: Steps = 1,
    padding: Steps = 0,
    dilation: Steps = 1,
    layout: str = "NCHW",
    weights: str = "",
    dtype: str = "float32",
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """Convolve N images of C channels, H × W; each channel has a filter of KH × KW; zeros around them.

    stride, padding and dilation are a number or a pair (rows, columns), and padding may be (top, left, bottom, right).
    `layout` is that of the input and of the result, "NCHW" or "NHWC"; `weights` is "OIHW" (C, 1, KH, KW), "OHWI" or
    "HWIO" (KH, KW, 1, C), and where it is not given "OIHW" for NCHW and "HWIO" for NHWC. float32 or float64; other
    types run, untuned.
    """
    conv = depthwise_shape(
        (N, C, H, W), (KH, KW), Window(stride, padding, dilation), layout, weights, dtype, cfg.target
    )
    data = te.placeholder(conv.data_shape, name="data", dtype=dtype)
    weight = te.placeholder(conv.weight_at(conv.c, 1, *conv.kernel), name="weight", dtype=dtype)
    flop = conv.flop / conv.c
    cfg.add_flop(flop)
    cfg.define_plain(lambda: [plain(conv, data, weight)])
    _declare(cfg, conv)
    threads.declare(cfg, flop)
    stages = _computed(cfg, conv, data, weight)
    return _scheduled(cfg, conv, stages), [data, weight, stages.out]


def depthwise_shape(
    data: tuple[int, int, int, int],
    kernel: tuple[int, int],
    window: Window,
    layout: str,
    weights: str,
    dtype: str,
    target: Target,
) -> Conv:
    """Return the convolution of data (N, C, H, W) with a filter for each channel.

    Raises:
        TemplateError: an argument is not in its domain, or there is no room for a single window.
    """
    if not weights and layout == "NHWC":
        weights = "HWIO"
    return conv_shape(
        data, (data[1], *kernel), window, layout, weights, dtype, target, name="depthwise_conv2d", may_be_packed=False
    )


# Space ---------------------------------------------------------------------------------------------------------------


def _declare(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Declare the knobs: the tile, the order of tiles, and whether the filter's rows are written out."""
    found = _tiles(conv)
    cfg.define_knob("tile_h", sorted({tile.height for tile in found}))
    cfg.define_knob("tile_w", sorted({tile.width for tile in found}))
    cfg.define_knob("unroll_kh", [True, False] if conv.kernel[0] > 1 else [True])
    if _is_last(conv):
        cfg.define_knob("vectors", sorted({tile.vectors for tile in found}))
        cfg.define_knob("order", list(_ORDERS) if conv.c > conv.lanes else [STRIP])
    else:
        cfg.define_knob("copy", [False, True])
    names = "tile_h", "tile_w", *(["vectors"] if _is_last(conv) else [])
    sizes = {tuple(getattr(tile, _FIELDS[name]) for name in names): tile.accumulators for tile in found}
    cfg.add_constraint(
        lambda c: tuple(c[name].val for name in names) in sizes,
        reads=names,
        message="accumulators fit the registers, and hide the latency",
    )
    if _is_last(conv):
        cfg.add_constraint(
            lambda c: _is_first_name(conv, c),
            reads=(*names, "order"),
            message="an order of loops has one name",
        )
    taps = math.prod(conv.kernel)
    cfg.add_constraint(
        lambda c: not c["unroll_kh"].val or taps * sizes.get(tuple(c[name].val for name in names), 0) <= BODY,
        reads=(*names, "unroll_kh"),
        message=f"the innermost body has at most {BODY} multiply-adds",
    )


def _is_first_name(conv: Conv, c: pb.Config) -> bool:
    """Decide whether an order is the first of those that are the same without loops of one iteration."""
    extents = {"y": (conv.out[0], "tile_h"), "x": (conv.out[1], "tile_w"), "c": (-(-conv.c // conv.lanes), "vectors")}
    left = [letter for letter, (extent, name) in extents.items() if extent > c[name].val]
    kept = [[letter for letter in order if letter in left] for order in _ORDERS]
    place = _ORDERS.index(c["order"].val)
    return kept.index(kept[place]) == place


def _is_last(conv: Conv) -> bool:
    return conv.layout == "NHWC"


class _Tile(NamedTuple):
    """`height` × `width` pixels, by `vectors` vectors of channels (NHWC), or in `vectors` vectors a row (NCHW)."""

    height: int
    width: int
    vectors: int
    accumulators: int


def _tiles(conv: Conv) -> frozenset[_Tile]:
    """Return the tiles whose accumulators leave registers for taps and elements, and are enough to hide latency."""
    heights = [h for h in _HEIGHTS if conv.out[0] % h == 0]
    if _is_last(conv):
        widths = [w for w in _WIDTHS if w <= conv.out[1]]
        vectors = [v for v in _VECTORS if v == 1 or (v - 1) * conv.lanes < conv.c]
        tiles = [_Tile(h, w, v, h * w * v) for h, w, v in itertools.product(heights, widths, vectors)]
    else:
        counts = {w: w // conv.lanes for w in _row_pieces(conv)}
        tiles = [_Tile(h, w, v, h * v) for h, (w, v) in itertools.product(heights, counts.items())]
    fitting = [tile for tile in tiles if tile.accumulators <= _room(conv, tile.vectors if _is_last(conv) else 1)]
    most = max(tile.accumulators for tile in fitting)
    return frozenset(tile for tile in fitting if tile.accumulators >= min(_FEWEST, most))


def _room(conv: Conv, vectors: int) -> int:
    """Return the registers for accumulators beside a row of the filter's taps, each of `vectors` vectors."""
    return max(conv.target.vector_registers - _OTHERS - conv.kernel[1] * vectors, _FEWEST)


def _row_pieces(conv: Conv) -> list[int]:
    """Return widths of whole vectors, those that divide a row where there are any: their stores need no masks."""
    room = _room(conv, 1)
    pieces = [v * conv.lanes for v in range(1, room + 1) if v == 1 or (v - 1) * conv.lanes < conv.out[1]]
    return [w for w in pieces if conv.out[1] % w == 0] or pieces


# Computation -------------------------------------------------------------------------------------------------------


def _computed(cfg: pb.TemplateConfig, conv: Conv, data: te.Tensor, weight: te.Tensor) -> _Stages:
    kh, kw = (te.reduce_axis((0, size), name=name) for size, name in zip(conv.kernel, ("kh", "kw"), strict=True))
    copied = None if _is_last(conv) or not cfg["copy"].val else _copied(cfg, conv, data)
    (sy, sx), (dy, dx) = conv.stride, conv.dilation

    def element(*index: te.Expr) -> te.Expr:
        n, c, y, x = conv.named(index)
        factor = weight(*conv.weight_at(c, te.const(0, "int64"), kh, kw))
        if copied is not None:
            value = copied(n, c, y * sy + kh * dy, kw * dx % sx, x + kw * dx // sx)
            return te.sum(value * factor, axis=[kh, kw])
        at = [y * sy + kh * dy - conv.padding[0], x * sx + kw * dx - conv.padding[1]]
        value = data(*conv.at(n, c, *at))
        tests: list[te.Expr] = []
        for place, before, after, size in zip(at, conv.padding, conv.padding_after, conv.size, strict=True):
            tests += [place >= 0] * (before > 0) + [place < size] * (after > 0)
        return te.sum(value * factor, axis=[kh, kw], where=te.all(*tests) if tests else None)

    tile = te.compute(conv.out_shape, element, name="tile")
    return _Stages(te.compute(conv.out_shape, lambda *at: tile(*at), name="C"), tile, copied)


def _copied(cfg: pb.TemplateConfig, conv: Conv, data: te.Tensor) -> te.Tensor:
    """Return the bordered input, [n][c][row][phase of columns][column], with room for whole vectors of results."""
    sx, dx = conv.stride[1], conv.dilation[1]
    phases = max(k * dx % sx for k in range(conv.kernel[1])) + 1
    width = cfg["tile_w"].val
    columns = -(-conv.out[1] // width) * width + conv.reach[1] // sx
    rows = (conv.out[0] - 1) * conv.stride[0] + conv.reach[0] + 1
    last = rows - 1, (columns - 1) * sx + phases - 1
    return te.compute(
        (conv.n, conv.c, rows, phases, columns),
        lambda n, c, y, px, x: padded(conv, data, last, n, c, y, x * sx + px),
        name="data_padded",
    )


# Schedule ----------------------------------------------------------------------------------------------------------


def _scheduled(cfg: pb.TemplateConfig, conv: Conv, stages: _Stages) -> te.TESchedule:
    s = te.create_schedule(stages.out.op)
    place = _channel_vectors(cfg, s, conv, stages) if _is_last(conv) else _pixel_vectors(cfg, s, conv, stages)
    s[stages.tile].set_scope("local")
    s[stages.tile].compute_at(s[stages.out], place)
    *outer, last = s[stages.tile].op.axis
    kh, kw = s[stages.tile].op.reduce_axis
    vectors, lanes = s[stages.tile].split(last, factor=conv.lanes)
    s[stages.tile].reorder(kh, *outer, kw, vectors, lanes)
    write_out(s[stages.tile], lanes, [*([kh] if cfg["unroll_kh"].val else []), *outer, kw, vectors])
    return s


def _channel_vectors(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, stages: _Stages) -> te.IterVar:
    """Order the loops of the result for NHWC, and return the one that each tile is computed at."""
    out = s[stages.out]
    n, y, x, c = out.op.axis
    ct, ci = out.split(c, factor=cfg["vectors"].val * conv.lanes)
    cv, cl = out.split(ci, factor=conv.lanes)
    yt, yi = out.split(y, factor=cfg["tile_h"].val)
    xt, xi = out.split(x, factor=cfg["tile_w"].val)
    by_name = {"y": yt, "x": xt, "c": ct}
    loops = [by_name[letter] for letter in cfg["order"].val]
    out.reorder(n, *loops, yi, xi, cv, cl)
    write_out(out, cl, (yi, xi, cv))
    threads.share(cfg, out, out.fuse(n, loops[0]))
    return loops[-1]


def _pixel_vectors(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, stages: _Stages) -> te.IterVar:
    """Order the loops of the result for NCHW, and return the one that each tile is computed at."""
    out = s[stages.out]
    n, c, y, x = out.op.axis
    yt, yi = out.split(y, factor=cfg["tile_h"].val)
    xt, xi = out.split(x, factor=cfg["tile_w"].val)
    xv, xl = out.split(xi, factor=conv.lanes)
    out.reorder(n, c, yt, xt, yi, xv, xl)
    write_out(out, xl, [yi, xv])
    image = out.fuse(n, c)
    threads.share(cfg, out, image)
    if stages.copied is not None:
        copying = s[stages.copied]
        copying.compute_at(out, image)
        *_, column = copying.op.axis
        copying.vectorize(copying.split(column, factor=conv.lanes)[1])
    return xt
