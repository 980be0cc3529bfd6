"""Running sums and products."""

from __future__ import annotations

from collections.abc import Callable

from pegbox import te
from pegbox.plugins.tvm.topi.math import cast
from pegbox.plugins.tvm.topi.reduction import axes_of
from pegbox.plugins.tvm.topi.transform import reshape

__all__ = ["cumprod", "cumsum"]


def cumsum(
    data: te.Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> te.Tensor:
    """The running sums along an axis; see `_running`."""
    return _running(te.cumsum, 0, data, axis, dtype, exclusive)


def cumprod(
    data: te.Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> te.Tensor:
    """The running products along an axis; see `_running`."""
    return _running(te.cumprod, 1, data, axis, dtype, exclusive)


def _running(
    scan: Callable[[te.Tensor, int], te.Tensor],
    start: int,
    data: te.Tensor,
    axis: int | None,
    dtype: str | None,
    exclusive: bool | None,
) -> te.Tensor:
    """Combine the elements up to each one.

    Args:
        start: the value of no elements.
        axis: None for one row of all elements.
        dtype: a type to add in.
        exclusive: leave out the element itself.
    """
    size = 1
    for extent in data.shape:
        size *= extent
    row = reshape(data, (size,)) if axis is None else data
    (dim,) = axes_of(row, 0 if axis is None else axis)
    made = scan(row if dtype in (None, row.dtype) else cast(row, dtype), dim)
    if not exclusive:
        return made

    def before(*i: te.IterVar) -> te.Expr:
        row = (*i[:dim], i[dim] - 1, *i[dim + 1 :])
        found: te.Expr = made[row]
        return te.if_then_else(i[dim] > 0, found, te.const(start, made.dtype))

    return te.compute(made.shape, before, name="T_exclusive", tag="injective")
