"""Pooling over windows of two dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox import te
from pegbox.errors import ComputeError
from pegbox.plugins.tvm.topi import reduction
from pegbox.plugins.tvm.topi.nn.border import pad


def pool2d(
    data: te.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> te.Tensor:
    """The largest ("max") or the mean ("avg") of each window.

    Args:
        padding: top, left, bottom, right.
        ceil_mode: windows that reach beyond the border count too.
        count_include_pad: the border counts as elements of the mean.
    """
    _check(pool_type, layout)
    place = [layout.index(letter) for letter in "HW"]
    sides = [[padding[0], padding[2]], [padding[1], padding[3]]]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    spans = [data.shape[p] + sum(side) - r for p, side, r in zip(place, sides, reach, strict=True)]
    sizes = [-(-span // s) + 1 if ceil_mode else span // s + 1 for span, s in zip(spans, stride, strict=True)]
    for side, span, size, s in zip(sides, spans, sizes, stride, strict=True):
        side[1] += max(0, (size - 1) * s - span)
    edge = te.min_value(data.dtype) if pool_type == "max" else te.const(0, data.dtype)
    border = dict(zip(place, sides, strict=True))
    low, high = ([border[d][end] if d in border else 0 for d in range(data.ndim)] for end in (0, 1))
    padded = pad(data, low, high, edge, name="pad_temp") if any([*low, *high]) else data
    axes = [te.reduce_axis((0, k), name=n) for k, n in zip(kernel, ("ry", "rx"), strict=True)]
    shape = [dict(zip(place, sizes, strict=True)).get(d, extent) for d, extent in enumerate(data.shape)]

    def window(*at: te.Expr) -> te.Expr:
        moved = {p: at[p] * s + r * d for p, s, r, d in zip(place, stride, axes, dilation, strict=True)}
        return padded(*(moved.get(d, i) for d, i in enumerate(at)))

    if pool_type == "max":
        return te.compute(tuple(shape), lambda *at: te.max(window(*at), axis=axes), name="pool_max", tag="pool_max")
    total = te.compute(tuple(shape), lambda *at: te.sum(window(*at), axis=axes), name="pool_sum", tag="pool_sum")

    def mean(*at: te.Expr) -> te.Expr:
        if count_include_pad:
            return total(*at) / te.const(kernel[0] * kernel[1], data.dtype)
        count: te.Expr = te.const(1)
        for p, s, k, d, side in zip(place, stride, kernel, dilation, sides, strict=True):
            first = at[p] * s - side[0]
            below = te.maximum(te.ceildiv(-first, d), 0)
            above = te.minimum(te.ceildiv(data.shape[p] - first, d), k)
            count = count * (above - below)
        return total(*at) / te.cast(data.dtype, te.maximum(count, 1))

    return te.compute(tuple(shape), mean, name="pool_avg", tag="elemwise")


def global_pool(data: te.Tensor, pool_type: str, layout: str = "NCHW") -> te.Tensor:
    """The largest element or the mean of each channel, with extents of 1 where rows and columns were."""
    _check(pool_type, layout)
    axes = [layout.index(letter) for letter in "HW"]
    return (reduction.max if pool_type == "max" else reduction.mean)(data, axes, True)


def _check(pool_type: str, layout: str) -> None:
    if pool_type not in ("max", "avg"):
        raise ComputeError(f"pool_type={pool_type!r}: give 'max' or 'avg'")
    if not {"H", "W"} <= set(layout) or not layout.isupper():
        raise ComputeError(f"layout={layout!r}: give the letters of the axes, H and W among them")
