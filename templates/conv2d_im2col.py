"""2-D convolution as a product of matrices: filters × the columns of the image under them (im2col).

Chellapilla, Puri and Simard, "High Performance Convolutional Neural Networks for Document Processing" (2006). The
columns of a block of pixels, C · KH · KW numbers each, are copied into the cache. They are the image of a 1 × 1
convolution, which has the knobs and the schedule of `conv2d` (`conv_space`, `conv_pixels`) with vectors along pixels,
in either layout: few channels would not fill vectors along channels.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pegbox as pb
from pegbox import te
from pegbox.compute import reshaped
from pegbox.templates import conv_pixels, conv_space, threads
from pegbox.templates.array_size import check_array_sizes
from pegbox.templates.conv_shape import Conv, Steps, Window, conv_shape
from pegbox.templates.conv_stages import place_copy, plain
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
    turned = conv_pixels.channels_first(conv, data)
    image = conv_pixels.phases(conv, turned, conv.out[0] + conv.reach[0] // conv.stride[0], name="image")
    windows = _windows(conv, image)
    columns = reshaped(windows, (product.n, product.c, *product.size), name="columns")
    filters = reshaped(weight, product.weight_shape, name="filters")
    stages = conv_pixels.compute(cfg, product, columns, filters)
    s = conv_pixels.schedule(cfg, product, stages)
    for tensor in (windows, columns, filters):
        s[tensor].compute_inline()
    assert stages.copied is not None, "the columns are always copied"
    reader = s[stages.copied], s[stages.copied].op.axis[0]
    if conv.stride == (1, 1) and not conv.is_padded:
        s[image].compute_inline()
    else:
        n, c, *_, x = s[image].op.axis
        s[image].vectorize(x)
        place_copy(cfg, s[image], cfg["data_at"].val, reader, [n, c])
        reader = s[image], n
    if turned is not data:
        conv_pixels.turn(cfg, s[turned], conv, reader)
    return s, [data, weight, stages.out]


conv2d_im2col.packs("weight", weights="packed")(packed)


def _product(conv: Conv) -> Conv:
    """Return the 1 × 1 convolution over the columns of another one.

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


def _windows(conv: Conv, image: te.Tensor) -> te.Tensor:
    """Return the windows of pixels, with their elements in the order of a filter in memory."""
    (sy, sx), (dy, dx) = conv.stride, conv.dilation
    is_first = conv.weights == "OIHW"  # the channel
    window = (conv.c, *conv.kernel) if is_first else (*conv.kernel, conv.c)

    def element(n: te.Expr, *at: te.Expr) -> te.Expr:
        *inside, y, x = at
        c, kh, kw = inside if is_first else (inside[2], *inside[:2])
        return image(n, c, kh * dy % sy, kw * dx % sx, y + kh * dy // sy, x + kw * dx // sx)

    return te.compute((conv.n, *window, *conv.out), element, name="windows")
