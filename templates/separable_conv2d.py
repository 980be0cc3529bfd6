"""Depthwise separable convolution: a filter for each channel, then sums over the channels of each pixel.

C[n, o, y, x] = Σ m[n, c, y, x] · point[o, c], where m is a depthwise convolution with a bias and an activation, as in
MobileNets (Howard et al., 2017; Sandler et al., 2018). Each block of `block` rows first computes the rows of m that it
reads, which are then still in the caches. While it sums them up, the rows of the image that the next block reads are
prefetched (NHWC) if the second-level cache does not hold them. The depthwise part has the knobs and stages of
`depthwise_conv2d`. The register tile of the sums over channels depends on the layout:

- NHWC: `point_h` rows by `point_w` pixels, by `point_vectors` vectors of output channels.
- NCHW: the same, transposed in registers when stored; or (`point_lanes`) `point_o` output channels by `point_vectors`
  vectors of pixels, which continue across the ends of rows.

`separable_space` declares the knobs of the sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pegbox as pb
from pegbox import te
from pegbox.errors import TemplateError
from pegbox.templates import depthwise_conv2d as depthwise
from pegbox.templates import depthwise_space, separable_space, threads
from pegbox.templates.conv_choices import CHANNELS
from pegbox.templates.conv_shape import PACKED, Conv, Steps, Window, conv_shape
from pegbox.templates.conv_stages import plain as plain_point
from pegbox.templates.conv_stages import plain_depthwise
from pegbox.templates.register_tile import write_out
from pegbox.templates.separable_space import PIXELS_OUTSIDE, lanes_along
from pegbox.templates.weights import packed

NAME = "separable_conv2d"
_ACTIVATIONS: dict[str, Callable[[te.Expr], te.Expr]] = {
    "": lambda value: value,
    "relu": lambda value: te.max(value, 0),
    "relu6": lambda value: te.min(te.max(value, 0), 6),
}


@pb.template(NAME)
def separable_conv2d(
    cfg: pb.TemplateConfig,
    N: int,
    C: int,
    H: int,
    W: int,
    O: int,  # noqa: E741 - the name of output channels in the layouts
    KH: int,
    KW: int,
    stride: Steps = 1,
    padding: Steps = 0,
    dilation: Steps = 1,
    activation: str = "",
    bias: bool = False,
    layout: str = "NCHW",
    weights: str = "",
    dtype: str = "float32",
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """Convolve each of C channels with a filter of KH × KW, then each pixel with O filters of C × 1 × 1.

    The inputs are the images, the filters of the channels, with `bias` also a bias[C] for their sums, and the filters
    of pixels. `activation` is "relu", "relu6" or "" (none), and follows the bias. stride, padding and dilation belong
    to the first convolution, each a number or a pair (rows, columns); padding may be (top, left, bottom, right).
    `layout` is the layout of the images and of the result, "NCHW" or "NHWC". Filters of channels are "OIHW" (C, 1, KH,
    KW) for NCHW, and "HWIO" (KH, KW, 1, C) for NHWC. `weights` is the layout of the filters of pixels, "OIHW" (the
    default of NCHW), "OHWI" (of NHWC), "HWIO", or "packed", for which `pegbox.templates.pack_weights` packs them.
    float32 or float64; other types run, untuned.

    Raises:
        TemplateError: an argument is not in its domain, or the image has no room for a window.
    """
    window, target = Window(stride, padding, dilation), cfg.target
    first = depthwise.depthwise_shape((N, C, H, W), (KH, KW), window, layout, "", dtype, target, name=NAME)
    point = conv_shape((N, C, *first.out), (O, 1, 1), Window(), layout, weights, dtype, target, name=NAME)
    if activation not in _ACTIVATIONS:
        known = ", ".join(map(repr, _ACTIVATIONS))
        raise TemplateError(f"{NAME}: activation={activation!r} is not known here; give one of {known}")
    data = te.placeholder(first.data_shape, name="data", dtype=dtype)
    weight = te.placeholder(first.weight_at(C, 1, KH, KW), name="weight", dtype=dtype)
    added = te.placeholder((C,), name="bias", dtype=dtype) if bias else None
    factors = te.placeholder(point.weight_shape, name="point", dtype=dtype)

    def middle(sums: te.Tensor) -> te.Tensor:
        def element(*index: te.Expr) -> te.Expr:
            value = sums(*index)
            return _ACTIVATIONS[activation](value if added is None else value + added(first.named(index)[1]))

        return te.compute(first.out_shape, element, name="middle")

    flop = first.flop / C + point.flop
    cfg.add_flop(flop)
    cfg.define_plain(lambda: [plain_point(point, middle(plain_depthwise(first, data, weight)), factors)])
    depthwise_space.declare(cfg, first)
    separable_space.declare(cfg, first, point)
    separable_space.prefer(cfg, first)
    threads.declare(cfg, flop)
    stages = depthwise.compute(cfg, first, data, weight)
    pixels = middle(stages.out)
    along = _along_channels if lanes_along(cfg, point) == CHANNELS else _along_pixels
    s, out, blocks, steps = along(cfg, point, pixels, factors)
    s[stages.out].compute_inline()
    depthwise.schedule(cfg, s, first, replace(stages, out=pixels))
    if separable_space.is_prefetched(first, point):
        s[out].prefetch(data, blocks, among=steps)
    return s, [data, weight, *([] if added is None else [added]), factors, out]


separable_conv2d.packs("point", weights=PACKED)(packed)


# Sums over channels --------------------------------------------------------------------------------------------------


class _Sums(NamedTuple):
    """A schedule of the sums: the result, its loop over blocks of rows, and the innermost loop over steps of a sum."""

    schedule: te.TESchedule
    out: te.Tensor
    blocks: te.IterVar
    steps: te.IterVar


def _along_channels(cfg: pb.TemplateConfig, point: Conv, pixels: te.Tensor, factors: te.Tensor) -> _Sums:
    """Return a schedule and the result, with vectors along its channels."""
    lanes, c = point.lanes, te.reduce_axis((0, point.c), name="c")
    panels = factors if point.weights == PACKED else _panels(point, factors)

    def element(n: te.Expr, v: te.Expr, y: te.Expr, x: te.Expr, z: te.Expr) -> te.Expr:
        where = v * lanes + z < point.lanes_used if separable_space.has_half_vector(point) else None
        return te.sum(pixels(*point.at(n, c, y, x)) * panels(v, 0, 0, c, z), axis=c, where=where)

    sums = te.compute((point.n, point.vectors, *point.out, lanes), element, name="sums")

    def pixel(*index: te.Expr) -> te.Expr:
        n, o, y, x = point.named(index)
        return sums(n, o // lanes, y, x, o % lanes)

    out = te.compute(point.out_shape, pixel, name="C")
    s = te.create_schedule(out.op)
    n, o, y, x = point.named(s[out].op.axis)
    yo, y = s[out].split(y, factor=cfg["block"].val)
    yt, yi = s[out].split(y, factor=cfg["point_h"].val)
    xt, xi = s[out].split(x, factor=cfg["point_w"].val)
    ot, oi = s[out].split(o, factor=cfg["point_vectors"].val * lanes)
    ov, ol = s[out].split(oi, factor=lanes)
    loops = [yt, xt, ot] if cfg["order_tiles"].val == PIXELS_OUTSIDE else [ot, yt, xt]
    tile = sums
    if point.layout == "NHWC":
        s[out].reorder(n, yo, *loops, yi, xi, ov, ol)
        write_out(s[out], ol, [yi, xi, ov])
    else:  # transposes vector by vector, from memory
        tile = s.cache_write(sums, "local")
        s[out].reorder(n, yo, *loops, yi, ov, ol, xi)
        write_out(s[out], xi, [ol])
        inner, v, y, x, z = s[sums].op.axis
        write_out(s[sums], z, [v, y, x])
        s[tile].compute_at(s[sums], inner)
    blocks = s[out].fuse(n, yo)
    _place(cfg, s, out, blocks, pixels)
    s[sums].compute_at(s[out], loops[-1])
    n, v, y, x, z = s[tile].op.axis
    co, ci = s[tile].split(s[tile].op.reduce_axis[0], factor=cfg["unroll_c"].val)
    s[tile].reorder(n, co, ci, y, x, v, z)
    write_out(s[tile], z, [ci, y, x, v])
    if panels is not factors:
        v, _, _, c, z = s[panels].op.axis
        s[panels].vectorize(z)
        threads.share(cfg, s[panels], v)
    return _Sums(s, out, blocks, co)


def _panels(point: Conv, factors: te.Tensor) -> te.Tensor:
    """Arrange plain weights as packed ones: a panel for each vector of output channels, with zeros beyond the last."""
    lanes, zero = point.lanes, te.const(0, point.dtype)

    def element(v: te.Expr, kh: te.Expr, kw: te.Expr, c: te.Expr, z: te.Expr) -> te.Expr:
        o = v * lanes + z
        value = factors(*point.weight_at(o, c, kh, kw))
        return value if point.o % lanes == 0 else te.if_then_else(o < point.o, value, zero)

    return te.compute((point.vectors, 1, 1, point.c, lanes), element, name="point_packed")


def _along_pixels(cfg: pb.TemplateConfig, point: Conv, pixels: te.Tensor, factors: te.Tensor) -> _Sums:
    """Return a schedule and the result, with vectors along the pixels of a block."""
    lanes, columns = point.lanes, point.out[1]
    c, zero = te.reduce_axis((0, point.c), name="c"), te.const(0, "int64")

    def factor(o: te.Expr) -> te.Expr:
        if point.weights == PACKED:
            return factors(o // lanes, 0, 0, c, o % lanes)
        return factors(*point.weight_at(o, c, zero, zero))

    sums = te.compute(
        (point.n, point.o, point.out[0] * columns),
        lambda n, o, q: te.sum(pixels(n, c, q // columns, q % columns) * factor(o), axis=c),
        name="sums",
    )
    out = te.compute(point.out_shape, lambda n, o, y, x: sums(n, o, y * columns + x), name="C")
    s = te.create_schedule(out.op)
    n, o, y, x = s[out].op.axis
    yo, yi = s[out].split(y, factor=cfg["block"].val)
    qt, qi = s[out].split(s[out].fuse(yi, x), factor=cfg["point_vectors"].val * lanes)
    qv, ql = s[out].split(qi, factor=lanes)
    ot, oi = s[out].split(o, factor=cfg["point_o"].val)
    loops = [qt, ot] if cfg["order_tiles"].val == PIXELS_OUTSIDE else [ot, qt]
    s[out].reorder(n, yo, *loops, oi, qv, ql)
    write_out(s[out], ql, [oi, qv])
    blocks = s[out].fuse(n, yo)
    _place(cfg, s, out, blocks, pixels)
    if cfg["block"].val > 1:
        _spread(s[pixels], lanes, columns)
    s[sums].compute_at(s[out], loops[-1])
    n, o, q = s[sums].op.axis
    qv, ql = s[sums].split(q, factor=lanes)
    co, ci = s[sums].split(s[sums].op.reduce_axis[0], factor=cfg["unroll_c"].val)
    s[sums].reorder(n, co, ci, o, qv, ql)
    write_out(s[sums], ql, [ci, o, qv])
    return _Sums(s, out, blocks, co)


def _spread(pixels: te.Stage, lanes: int, columns: int) -> None:
    """Align the rows of a channel to vectors, and spread those of all channels over different cache sets."""
    step = max(lanes, columns & -columns)
    pixels.storage_align(pixels.op.axis[1], 2 * step, step)


def _place(cfg: pb.TemplateConfig, s: te.TESchedule, out: te.Tensor, first: te.IterVar, pixels: te.Tensor) -> None:
    """Let threads share the blocks, and compute the pixels that a block reads at its beginning."""
    threads.share(cfg, s[out], first)
    s[pixels].compute_at(s[out], first)
