"""Depthwise 2-D convolution: C[n, c, y, x] = Σ data[n, c, y·s + kh·d - p, x·s + kw·d - p] · weight[c, kh, kw].

Each channel has its own filter, so blocking can only reduce the loads and stores of a core. The register tile is
`tile_h` rows by `tile_w` pixels of the result, by `vectors` vectors of channels for NHWC. Elements of the input that
several results of a tile need are loaded once.

- NHWC: vectors run along the channels. Nothing is copied: the filter's rows and columns in the border are skipped, for
  which loops are cut there (`where`). While a tile is computed, lines of the next pixels' results may be prefetched
  (`prefetch`).
- NCHW: vectors run along a row (`depthwise_rows`).

`depthwise_space` declares the knobs.
"""

from __future__ import annotations

import pegbox as pb
from pegbox import te
from pegbox.codegen import Target
from pegbox.templates import depthwise_space, threads
from pegbox.templates.conv_shape import Conv, Steps, Window, conv_shape
from pegbox.templates.conv_stages import inside
from pegbox.templates.conv_stages import plain_depthwise as plain
from pegbox.templates.depthwise_rows import (
    Loops,
    RowStages,
    copied_image,
    lanes_of_row,
    order_rows,
    place_rows,
    prefetch_rows,
    reads_rows,
    sums_by_rows,
)
from pegbox.templates.depthwise_space import BLOCKED, channel_block, fetches_rows, is_last
from pegbox.templates.register_tile import WIDE_BITS, write_out


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
    `layout` is the layout of the input and of the result, "NCHW" or "NHWC"; `weights` is "OIHW" (C, 1, KH, KW), "OHWI"
    or "HWIO" (KH, KW, 1, C), by default "OIHW" for NCHW and "HWIO" for NHWC. float32 or float64; other types run,
    untuned.
    """
    conv = depthwise_shape(
        (N, C, H, W), (KH, KW), Window(stride, padding, dilation), layout, weights, dtype, cfg.target
    )
    data = te.placeholder(conv.data_shape, name="data", dtype=dtype)
    weight = te.placeholder(conv.weight_at(conv.c, 1, *conv.kernel), name="weight", dtype=dtype)
    flop = conv.flop / conv.c
    cfg.add_flop(flop)
    cfg.define_plain(lambda: [plain(conv, data, weight)])
    depthwise_space.declare(cfg, conv)
    depthwise_space.refine(cfg, conv)
    threads.declare(cfg, flop)
    stages = compute(cfg, conv, data, weight)
    s = te.create_schedule(stages.out.op)
    threads.share(cfg, s[stages.out], schedule(cfg, s, conv, stages))
    if fetches_rows(conv):
        prefetch_rows(s, stages)
    return s, [data, weight, stages.out]


def depthwise_shape(
    data: tuple[int, int, int, int],
    kernel: tuple[int, int],
    window: Window,
    layout: str,
    weights: str,
    dtype: str,
    target: Target,
    *,
    name: str = "depthwise_conv2d",
) -> Conv:
    """Return the convolution of data (N, C, H, W) with a filter for each channel.

    Raises:
        TemplateError: an argument is not in its domain, or the image has no room for a window.
    """
    if not weights and layout == "NHWC":
        weights = "HWIO"
    return conv_shape(data, (data[1], *kernel), window, layout, weights, dtype, target, name=name, may_be_packed=False)


# Computation -------------------------------------------------------------------------------------------------------


def compute(cfg: pb.TemplateConfig, conv: Conv, data: te.Tensor, weight: te.Tensor) -> RowStages:
    """Return the result and the stages before it for a configuration."""
    if not is_last(conv) and reads_rows(cfg, conv):
        return sums_by_rows(cfg, conv, data, weight)
    kh, kw = (te.reduce_axis((0, size), name=name) for size, name in zip(conv.kernel, ("kh", "kw"), strict=True))
    copied = None if is_last(conv) or not cfg["copy"].val else copied_image(cfg, conv, data)
    (sy, sx), (dy, dx) = conv.stride, conv.dilation

    def element(*index: te.Expr) -> te.Expr:
        n, c, y, x = conv.named(index)
        factor = weight(*conv.weight_at(c, te.const(0, "int64"), kh, kw))
        if copied is not None:
            value = copied(n, c, y * sy + kh * dy, kw * dx % sx, x + kw * dx // sx)
            return te.sum(value * factor, axis=[kh, kw])
        at = [y * sy + kh * dy - conv.padding[0], x * sx + kw * dx - conv.padding[1]]
        value = data(*conv.at(n, c, *at))
        rows, columns = inside(conv, 0, at[0]), inside(conv, 1, at[1])
        if is_last(conv) or 2 * cfg["tile_w"].val < conv.out[1]:
            rows += columns  # loops are cut there
            columns = []
        zero = te.const(0, conv.dtype)
        if columns and conv.target.vector_bits >= WIDE_BITS:
            product = te.if_then_else(te.all(*columns), value * factor, zero)  # one multiply-add under a mask
        else:
            product = (te.if_then_else(te.all(*columns), value, zero) if columns else value) * factor
        return te.sum(product, axis=[kh, kw], where=te.all(*rows) if rows else None)

    tile = te.compute(conv.out_shape, element, name="tile")
    return RowStages(te.compute(conv.out_shape, lambda *at: tile(*at), name="C"), tile, copied)


# Schedule ----------------------------------------------------------------------------------------------------------


def schedule(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, stages: RowStages) -> te.IterVar:
    """Order the loops by the configuration, and return the outermost one of the result."""
    first, place = (_channel_vectors if is_last(conv) else order_rows)(cfg, s, conv, stages)
    tile = s[stages.tile]
    tile.set_scope("local")
    tile.compute_at(s[stages.out], place)
    *outer, last = tile.op.axis
    vectors, lanes = tile.split(last, factor=conv.lanes if is_last(conv) else lanes_of_row(cfg, conv))
    if stages.row:
        write_out(tile, lanes, [*outer, vectors])
        place_rows(s, stages, place)
        return first
    kh, kw = tile.op.reduce_axis
    if not is_last(conv) and cfg["unroll_kh"].val and not cfg["copy"].val:
        # Successive products belong to different sums, and registers hold the rows of one shift at a time.
        loops = [kw, vectors, kh, *outer]
    else:
        loops = [kh, *outer, kw, vectors]
    tile.reorder(*loops, lanes)
    write_out(tile, lanes, loops if cfg["unroll_kh"].val else loops[1:])
    return first


def _channel_vectors(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, stages: RowStages) -> Loops:
    """Order the loops of the result for NHWC."""
    out = s[stages.out]
    n, y, x, c = out.op.axis
    order, blocks = cfg["order"].val, []
    if order in BLOCKED:
        block, c = out.split(c, factor=channel_block(conv) * conv.lanes)
        order, blocks = order[1:], [block]
    ct, ci = out.split(c, factor=cfg["vectors"].val * conv.lanes)
    cv, cl = out.split(ci, factor=conv.lanes)
    yt, yi = out.split(y, factor=cfg["tile_h"].val)
    xt, xi = out.split(x, factor=cfg["tile_w"].val)
    by_name = {"y": yt, "x": xt, "c": ct}
    loops = [*blocks, *(by_name[letter] for letter in order)]
    out.reorder(n, *loops, yi, xi, cv, cl)
    write_out(out, cl, (yi, xi, cv))
    if "prefetch" in cfg.space.knobs and cfg["prefetch"].val:
        out.prefetch(stages.out, xt, among=s[stages.tile].op.reduce_axis[0])
    return Loops(out.fuse(n, loops[0]), loops[-1])
