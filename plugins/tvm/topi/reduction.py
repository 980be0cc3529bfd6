"""Reductions over some axes of a tensor, or over all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod as product
from typing import Any

from pegbox import te
from pegbox.errors import ComputeError

__all__ = ["all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "sum"]

Axes = int | Sequence[int] | None


def axes_of(data: te.Tensor, axis: Axes) -> list[int]:
    """The axes in order, counted from the first; all of them for None.

    Raises:
        ComputeError: the tensor has no such axis.
    """
    given = range(data.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    for each in given:
        if not -data.ndim <= each < data.ndim:
            raise ComputeError(f"axis={axis!r}: {data.name} has the axes 0 to {data.ndim - 1}")
    return sorted({each % data.ndim for each in given})


def _over(
    data: te.Tensor,
    axis: Axes,
    keepdims: bool,
    combine: Callable[[Callable[..., te.Expr], list[te.IterVar], list[te.Expr]], Any],
    name: str,
) -> Any:
    """`combine` is given what reads an element at the indices that are left, the reduce axes, and these indices."""
    axes = axes_of(data, axis)
    reduced = [te.reduce_axis((0, data.shape[a]), name=f"k{a}") for a in axes]
    if keepdims:
        shape = tuple(1 if a in axes else extent for a, extent in enumerate(data.shape))
    else:
        shape = tuple(extent for a, extent in enumerate(data.shape) if a not in axes)

    def element(*at: te.Expr) -> Any:
        rest = iter([i for a, i in enumerate(at) if a not in axes] if keepdims else at)
        inside = iter(reduced)
        where = [next(inside) if a in axes else next(rest) for a in range(data.ndim)]
        return combine(data, reduced, where)

    return te.compute(shape, element, name=name, tag="comm_reduce")


def _reduction(name: str, of: Callable[..., te.Expr]) -> Callable[..., te.Tensor]:
    def reduction(data: te.Tensor, axis: Axes = None, keepdims: bool = False) -> te.Tensor:
        made: te.Tensor = _over(data, axis, keepdims, lambda x, k, at: of(x(*at), axis=k), f"T_{name}")
        return made

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"`{name}` over some axes (all of them for None), which stay with the extent 1 for `keepdims`."
    return reduction


sum = _reduction("sum", te.sum)
max = _reduction("max", te.max)
min = _reduction("min", te.min)
prod = _reduction("prod", te.prod)


def _logical(name: str, of: Callable[..., te.Expr]) -> Callable[..., te.Tensor]:
    bits = _reduction(name, lambda value, axis: of(te.cast("uint8", value), axis=axis))

    def reduction(data: te.Tensor, axis: Axes = None, keepdims: bool = False) -> te.Tensor:
        return bits(data, axis, keepdims).astype("bool")

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"`{name}` of bools over some axes (all of them for None)."
    return reduction


all = _logical("all", te.min)
any = _logical("any", te.max)


def mean(data: te.Tensor, axis: Axes = None, keepdims: bool = False) -> te.Tensor:
    """The mean over some axes, in the type of the tensor."""
    count = product(data.shape[a] for a in axes_of(data, axis))
    return sum(data, axis, keepdims) / count


def _place(
    data: te.Tensor, axis: Axes, keepdims: bool, last: bool, better: Callable[[te.Expr, te.Expr], te.Expr], name: str
) -> te.Tensor:
    def first(a: Any, b: Any) -> tuple[te.Expr, te.Expr]:
        nearer = a[0] > b[0] if last else a[0] < b[0]
        kept = te.any(better(a[1], b[1]), te.all(a[1].equal(b[1]), nearer))
        return te.if_then_else(kept, a[0], b[0]), te.if_then_else(kept, a[1], b[1])

    def nothing(index: str, value: str) -> tuple[te.Expr, te.Expr]:
        far = te.min_value(index) if last else te.max_value(index)
        return far, te.min_value(value) if name == "argmax" else te.max_value(value)

    reducer = te.comm_reducer(first, nothing, name=name)

    def combine(x: Any, reduced: list[te.IterVar], at: list[te.Expr]) -> Any:
        number: te.Expr = te.const(0, "int32")
        for axis_var in reduced:
            number = number * axis_var.extent + te.cast("int32", axis_var)
        return reducer((number, x(*at)), axis=reduced)

    found: te.Tensor = _over(data, axis, keepdims, combine, f"T_{name}_red")[0]
    made = te.compute(found.shape, lambda *at: found(*at), name=f"T_{name}", tag="comm_reduce_idx")
    return made


def argmax(data: te.Tensor, axis: Axes = None, keepdims: bool = False, select_last_index: bool = False) -> te.Tensor:
    """The place of the largest element, int32: the first one, or the last one, of equals."""
    return _place(data, axis, keepdims, select_last_index, lambda a, b: a > b, "argmax")


def argmin(data: te.Tensor, axis: Axes = None, keepdims: bool = False, select_last_index: bool = False) -> te.Tensor:
    """The place of the smallest element, int32: the first one, or the last one, of equals."""
    return _place(data, axis, keepdims, select_last_index, lambda a, b: a < b, "argmin")
