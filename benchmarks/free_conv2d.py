"""A convolution with a free schedule: any order of the loops, anything vectorized, no choice left out beforehand.

Most of its configurations are slow; `suite_spaces.py` records spaces of it for the suite `hard`. A suite opens them as
spaces of knobs, without the template.
"""

from __future__ import annotations

import pegbox as pb
from pegbox import te


@pb.template("free_conv2d")
def free_conv2d(
    cfg: pb.TemplateConfig, channels: int, height: int, width: int, filters: int, size: int
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """Sum windows of padded data, channels first, in tiles of an accumulator; the innermost loop may be any."""
    data = te.placeholder((channels, height + size - 1, width + size - 1), name="data")
    weights = te.placeholder((filters, channels, size, size), name="weights")
    rc, ry, rx = (te.reduce_axis((0, n), name=name) for n, name in ((channels, "rc"), (size, "ry"), (size, "rx")))
    out = te.compute(
        (filters, height, width),
        lambda f, y, x: te.sum(data[rc, y + ry, x + rx] * weights[f, rc, ry, rx], axis=[rc, ry, rx]),
        name="out",
    )
    s = te.create_schedule(out.op)
    inner = s.cache_write(out, "local")
    f, y, x = s[out].op.axis
    cfg.define_split("tile_f", f, num_outputs=2, max_factor=16)
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=4)
    cfg.define_split("tile_x", x, num_outputs=2, max_factor=28)
    fo, fi = cfg["tile_f"].apply(s, out, f)
    yo, yi = cfg["tile_y"].apply(s, out, y)
    xo, xi = cfg["tile_x"].apply(s, out, x)
    s[out].reorder(fo, yo, xo, fi, yi, xi)
    s[out].vectorize(xi)
    s[inner].compute_at(s[out], xo)
    reductions = list(s[inner].op.reduce_axis)
    cfg.define_reorder("reductions", reductions, policy="all")
    cfg.define_knob("last", ["f", "y", "x"])
    cfg.define_knob("reductions inside", [0, 1, 2, 3])
    axes = dict(zip("fyx", s[inner].op.axis, strict=True))
    last = axes.pop(cfg["last"].val)
    outer = len(reductions) - cfg["reductions inside"].val
    reductions = cfg["reductions"].apply(s, inner, reductions)
    loops = [*reductions[:outer], *axes.values(), last, *reductions[outer:]]
    s[inner].reorder(*loops)
    cfg.define_knob("vectorize", [False, True])
    cfg.define_knob("unroll", [0, 1, 2, 3])
    if cfg["vectorize"].val:
        s[inner].vectorize(loops[-1])
    for loop in loops[-1 - cfg["unroll"].val : -1]:
        s[inner].unroll(loop)
    return s, [data, weights, out]
