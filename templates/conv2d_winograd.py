"""2-D convolution by Winograd's minimal filtering, with fewer products than the direct sum: F(m × m, r × r).

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (CVPR 2016). The template begins here, and goes on
in these modules:

- `cook_toom`: the matrices of the transforms, and their errors; `linear_sums`: products with them as straight-line code
- `winograd_shape`: the convolution with its tiles, and the choice of m
- `winograd_space`: the knobs; `winograd_stages`: the computation and the schedule
"""

from __future__ import annotations

import pegbox as pb
from pegbox import te
from pegbox.templates import threads, winograd_space, winograd_stages
from pegbox.templates.conv_shape import PACKED, Steps, Window, conv_shape
from pegbox.templates.conv_stages import plain
from pegbox.templates.weights import packed
from pegbox.templates.winograd_shape import Winograd, tile_sizes


@pb.template("conv2d_winograd")
def conv2d_winograd(
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
    m: int = 0,
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """Convolve N images of C channels, H × W, with O filters, 3 × 3 or 5 × 5, by tiles of m × m outputs.

    The arguments are those of conv2d; stride and dilation are 1. `m` is 2, 3, 4 or 6. With 0 it is a knob, unless the
    weights are packed: these are transformed for one m, the one expected to be fastest. Sizes with errors above the
    task's `accuracy`, if one is given, are left out.
    """
    conv = conv_shape((N, C, H, W), (O, KH, KW), Window(stride, padding, dilation), layout, weights, dtype, cfg.target)
    sizes = {size: Winograd(conv, size) for size in tile_sizes(conv, m, cfg.accuracy)}
    is_packed = conv.weights == PACKED
    shape = next(iter(sizes.values())).weight_shape if is_packed else conv.weight_shape
    data = te.placeholder(conv.data_shape, name="data", dtype=dtype)
    weight = te.placeholder(shape, name="weight", dtype=dtype)
    cfg.add_flop(conv.flop)
    if not is_packed:  # transformed filters are more numbers than filters: no plain form
        cfg.define_plain(lambda: [plain(conv, data, weight)])
    winograd_space.declare(cfg, sizes.values())
    threads.declare(cfg, conv.flop)
    w = sizes[int(cfg["m"].val)]
    stages = winograd_stages.compute(cfg, w, data, weight)
    return winograd_stages.schedule(cfg, w, stages), [data, weight, stages.out]


conv2d_winograd.packs("weight", weights="packed")(packed)
