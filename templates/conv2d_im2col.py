"""2-D convolution as a product of matrices: filters × the columns of the image under them (im2col).

Chellapilla, Puri and Simard, "High Performance Convolutional Neural Networks for Document Processing" (2006). The
columns of a block of pixels, C · KH · KW numbers each, are copied into the cache. They are the image of a convolution
of 1 × 1, which has the knobs and the schedule of `conv2d` (`conv_space`, `conv_pixels`) with vectors along pixels, in
either layout: so they are full where a few channels would not fill them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pegbox as pb
from pegbox import te
from pegbox.compute import reshaped
from pegbox.templates import conv_pixels, conv_space, threads
from pegbox.templates.array_size import check_array_sizes
from pegbox.templates.conv_choices import BLOCK
from pegbox.templates.conv_shape import Conv, Steps, Window, conv_shape
from pegbox.templates.conv_stages import padded, plain
from pegbox.templates.weights import packed

NAME = "conv2d_im2col"


@pb.template(NAME)
def conv2d_im2col(
    cfg: pb.TemplateConfig,
    N: int,
    C: int,
    H: int,
    W: int,
    O: int,  # noqa: E741 - the name that layouts have for it
    KH: int,
    KW: int,
    stride: Steps = 1,
    padding: Steps = 0,
    dilation: Steps = 1,
    layout: str = "NCHW",
    weights: str = "",
    dtype: str = "float32",
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """Convolve N images of C channels, H × W, with O filters of KH × KW; the arguments are those of conv2d."""
    window = Window(stride, padding, dilation)
    conv = conv_shape((N, C, H, W), (O, KH, KW), window, layout, weights, dtype, cfg.target, name=NAME)
    data = te.placeholder(conv.data_shape, name="data", dtype=dtype)
    weight = te.placeholder(conv.weight_shape, name="weight", dtype=dtype)
    cfg.add_flop(conv.flop)
    cfg.define_plain(lambda: [plain(conv, data, weight)])
    product = _product(conv)
    conv_space.declare(cfg, product)
    threads.declare(cfg, conv.flop)
    image = _image(conv, data)
    windows = _windows(conv, image)
    columns = reshaped(windows, product.data_shape, name="columns")
    filters = reshaped(weight, product.weight_shape, name="filters")
    stages = conv_pixels.compute(cfg, product, columns, filters)
    s = conv_pixels.schedule(cfg, product, stages)
    for tensor in (windows, columns, filters):
        s[tensor].compute_inline()
    _schedule_image(cfg, s, conv, image, stages.copied)
    return s, [data, weight, stages.out]


conv2d_im2col.packs("weight", weights="packed")(packed)


def _product(conv: Conv) -> Conv:
    """Return the convolution of 1 × 1 over the columns of another one.

    Raises:
        TemplateError: a process cannot address so many columns.
    """
    one, none = (1, 1), (0, 0)
    product = replace(
        conv, c=conv.c * math.prod(conv.kernel), size=conv.out, kernel=one, stride=one, dilation=one, padding=none,
        padding_after=none, are_columns=True,
    )  # fmt: skip
    check_array_sizes(NAME, [product.data_shape], conv.dtype)
    return product


def _image(conv: Conv, data: te.Tensor) -> te.Tensor:
    """Return the bordered input, [n][c][phase of rows][phase of columns][row][column], a phase for each of a stride."""
    sy, sx = conv.stride
    phases = [min(step, reach + 1) for step, reach in zip(conv.stride, conv.reach, strict=True)]
    size = [-(-extent // step) for extent, step in zip(conv.padded, conv.stride, strict=True)]
    last = [(extent - 1) * step + phase - 1 for extent, step, phase in zip(size, conv.stride, phases, strict=True)]
    return te.compute(
        (conv.n, conv.c, *phases, *size),
        lambda n, c, py, px, y, x: padded(conv, data, last, n, c, y * sy + py, x * sx + px),
        name="image",
    )


def _windows(conv: Conv, image: te.Tensor) -> te.Tensor:
    """Return the window of each pixel, its elements in the order that those of a filter have in memory."""
    (sy, sx), (dy, dx) = conv.stride, conv.dilation
    is_first, is_last = conv.weights == "OIHW", conv.layout == "NHWC"  # the channels, of the filter and of the image
    window = (conv.c, *conv.kernel) if is_first else (*conv.kernel, conv.c)

    def element(n: te.Expr, *at: te.Expr) -> te.Expr:
        (y, x), inside = (at[:2], at[2:]) if is_last else (at[3:], at[:3])
        c, kh, kw = inside if is_first else (inside[2], *inside[:2])
        return image(n, c, kh * dy % sy, kw * dx % sx, y + kh * dy // sy, x + kw * dx // sx)

    shape = (*conv.out, *window) if is_last else (*window, *conv.out)
    return te.compute((conv.n, *shape), element, name="windows")


def _schedule_image(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, image: te.Tensor, columns: te.Tensor) -> None:
    """Copy the image beforehand, or the rows of a block before its columns; where nothing moves, copy nothing."""
    stage, is_last = s[image], conv.layout == "NHWC"
    if conv.stride == (1, 1) and not conv.is_padded and not is_last:
        stage.compute_inline()
        return
    n, c, *phases, y, x = stage.op.axis
    xo, xi = stage.split(x, factor=conv.lanes)
    stage.vectorize(xi)
    if is_last:  # vectors of channels are read and turned around
        c, near = stage.split(c, factor=conv.lanes)
        stage.reorder(n, c, *phases, y, xo, near, xi)
        stage.unroll(near)
    if cfg["data_at"].val == BLOCK:
        stage.compute_at(s[columns], s[columns].op.axis[0])
    else:
        threads.share(cfg, stage, stage.fuse(n, c))
