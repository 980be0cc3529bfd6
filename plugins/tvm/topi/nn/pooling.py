"""Pooling over windows of two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pegbox import te
from pegbox.errors import ComputeError
from pegbox.plugins.tvm.topi import reduction
from pegbox.plugins.tvm.topi.nn.border import pad


@dataclass(frozen=True)
class _Windows:
    """A row of `count` windows along one dimension of the data, with a border of `before` and `after` elements."""

    dim: int
    extent: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    count: int

    @classmethod
    def of(
        cls, dim: int, extent: int, kernel: int, stride: int, dilation: int, border: tuple[int, int], ceil_mode: bool
    ) -> _Windows:
        """As many as there is room for; with `ceil_mode` the last one may reach beyond the border, which then grows."""
        before, after = border
        room = extent + before + after - ((kernel - 1) * dilation + 1)
        count = (-(-room // stride) if ceil_mode else room // stride) + 1
        after += max(0, (count - 1) * stride - room)
        return cls(dim, extent, kernel, stride, dilation, before, after, count)

    def inside(self, number: te.Expr) -> te.Expr:
        """How many elements of a window are not of the border."""
        first = number * self.stride - self.before
        below = te.maximum(te.ceildiv(-first, self.dilation), 0)
        above = te.minimum(te.ceildiv(self.extent - first, self.dilation), self.kernel)
        return above - below


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
    border = [(padding[0], padding[2]), (padding[1], padding[3])]
    dims = [layout.index(letter) for letter in "HW"]
    rows = [
        _Windows.of(dim, data.shape[dim], k, s, d, sides, ceil_mode)
        for dim, k, s, d, sides in zip(dims, kernel, stride, dilation, border, strict=True)
    ]
    padded = _padded(data, rows, te.min_value(data.dtype) if pool_type == "max" else te.const(0, data.dtype))
    axes = [te.reduce_axis((0, row.kernel), name=n) for row, n in zip(rows, ("ry", "rx"), strict=True)]
    counts = {row.dim: row.count for row in rows}
    shape = tuple(counts.get(dim, extent) for dim, extent in enumerate(data.shape))

    def window(*at: te.Expr) -> te.Expr:
        moved = {row.dim: at[row.dim] * row.stride + r * row.dilation for row, r in zip(rows, axes, strict=True)}
        return padded(*(moved.get(dim, i) for dim, i in enumerate(at)))

    if pool_type == "max":
        return te.compute(shape, lambda *at: te.max(window(*at), axis=axes), name="pool_max", tag="pool_max")
    total = te.compute(shape, lambda *at: te.sum(window(*at), axis=axes), name="pool_sum", tag="pool_sum")

    def mean(*at: te.Expr) -> te.Expr:
        if count_include_pad:
            return total(*at) / te.const(kernel[0] * kernel[1], data.dtype)
        elements: te.Expr = te.const(1)
        for row in rows:
            elements = elements * row.inside(at[row.dim])
        return total(*at) / te.cast(data.dtype, te.maximum(elements, 1))

    return te.compute(shape, mean, name="pool_avg", tag="elemwise")


def global_pool(data: te.Tensor, pool_type: str, layout: str = "NCHW") -> te.Tensor:
    """The largest element or the mean of each channel, with extents of 1 where rows and columns were."""
    _check(pool_type, layout)
    axes = [layout.index(letter) for letter in "HW"]
    return (reduction.max if pool_type == "max" else reduction.mean)(data, axes, True)


def _padded(data: te.Tensor, rows: Sequence[_Windows], edge: te.Expr) -> te.Tensor:
    """The data with its border, if it has one."""
    low, high = [0] * data.ndim, [0] * data.ndim
    for row in rows:
        low[row.dim], high[row.dim] = row.before, row.after
    return pad(data, low, high, edge, name="pad_temp") if any([*low, *high]) else data


def _check(pool_type: str, layout: str) -> None:
    if pool_type not in ("max", "avg"):
        raise ComputeError(f"pool_type={pool_type!r}: give 'max' or 'avg'")
    if not {"H", "W"} <= set(layout) or not layout.isupper():
        raise ComputeError(f"layout={layout!r}: give the letters of the axes, H and W among them")
