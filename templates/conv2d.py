"""2-D convolution: C[n, o, y, x] = Σ data[n, c, y·s + kh·d - p, x·s + kw·d - p] · weight[o, c, kh, kw]."""

from __future__ import annotations

from typing import Any

import pegbox as pb
from pegbox import te
from pegbox.templates import conv_channels, conv_pixels, conv_space
from pegbox.templates.conv_shape import PACKED, conv_shape
from pegbox.templates.conv_tiles import packed_shape


@pb.template("conv2d")
def conv2d(
    cfg: Any,
    N: int,
    C: int,
    H: int,
    W: int,
    O: int,  # noqa: E741 - the name that layouts have for it
    KH: int,
    KW: int,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    layout: str = "NCHW",
    weights: str = "",
    dtype: str = "float32",
) -> Any:
    """Convolution of N images of C channels, H × W, with O filters of KH × KW; zeros around them.

    stride, padding and dilation are a number or a pair (rows, columns). `layout` is that of the input and of the
    result, "NCHW" or "NHWC"; `weights` is "OIHW", "OHWI" or "HWIO", and where it is not given "OIHW" for NCHW and
    "OHWI" for NHWC (what torch has in memory with channels_last). With "packed" the kernel takes the weights as
    `pegbox.templates.pack_weights` lays them out for the task. float32 or float64; other types run, untuned.
    """
    conv = conv_shape((N, C, H, W), (O, KH, KW), stride, padding, dilation, layout, weights, dtype)
    data = te.placeholder(conv.data_shape, name="data", dtype=dtype)
    is_packed = conv.weights == PACKED
    weight_shape = packed_shape(conv, cfg.target) if is_packed else conv.weight_shape
    weight = te.placeholder(weight_shape, name="weight", dtype=dtype)
    cfg.add_flop(conv.flop)
    conv_space.declare(cfg, conv)
    kind = conv_pixels if cfg["lanes"].val == "pixels" else conv_channels
    schedule, out = kind.convolution(cfg, conv, data, weight)
    return schedule, [data, weight, out]
