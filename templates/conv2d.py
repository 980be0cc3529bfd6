"""2-D convolution: C[n, o, y, x] = Σ data[n, c, y·s + kh·d - p, x·s + kw·d - p] · weight[o, c, kh, kw].

The template begins here, and goes on in these modules:

- `conv_shape`: the arguments, as one value, and the indices of each layout
- `conv_space`: the knobs, and which values go together; `conv_choices`: names for these values
- `conv_channels` and `conv_pixels`: the computation and the schedule, where vectors run along output channels or along
  pixels; `conv_stages`: the parts that the two share
- `conv_tiles`: how many tiles there are, for space and schedules; `conv_register_tiles`: which tiles are worth trying
"""

from __future__ import annotations

import pegbox as pb
from pegbox import te
from pegbox.templates import conv_channels, conv_pixels, conv_space, threads
from pegbox.templates.conv_choices import PIXELS
from pegbox.templates.conv_shape import Steps, Window, conv_shape
from pegbox.templates.conv_stages import plain
from pegbox.templates.weights import packed


@pb.template("conv2d")
def conv2d(
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
    """Convolution of N images of C channels, H × W, with O filters of KH × KW; zeros around them.

    stride, padding and dilation are a number or a pair (rows, columns), and padding may be (top, left, bottom, right).
    `layout` is that of the input and of the result, "NCHW" or "NHWC"; `weights` is "OIHW", "OHWI" or "HWIO", by default
    "OIHW" for NCHW and "OHWI" for NHWC (torch's memory layout with channels_last). With "packed" the kernel takes the
    weights as `pegbox.templates.pack_weights` lays them out for the task. float32 or float64; other types run, untuned.
    """
    conv = conv_shape((N, C, H, W), (O, KH, KW), Window(stride, padding, dilation), layout, weights, dtype, cfg.target)
    data = te.placeholder(conv.data_shape, name="data", dtype=dtype)
    weight = te.placeholder(conv.weight_shape, name="weight", dtype=dtype)
    cfg.add_flop(conv.flop)
    cfg.define_plain(lambda: [plain(conv, data, weight)])
    conv_space.declare(cfg, conv)
    threads.declare(cfg, conv.flop)
    way = conv_pixels if cfg["lanes"].val == PIXELS else conv_channels
    stages = way.compute(cfg, conv, data, weight)
    return way.schedule(cfg, conv, stages), [data, weight, stages.out]


conv2d.packs("weight", weights="packed")(packed)
