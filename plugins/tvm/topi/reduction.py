"""Reductions over some axes of a tensor, or over all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pegbox import te
from pegbox.errors import ComputeError

Axes = int | Sequence[int] | None


def _reduction(name: str, of: Callable[..., Any]) -> Callable[..., te.Tensor]:
    def reduction(data: te.Tensor, axis: Axes = None, keepdims: bool = False) -> te.Tensor:
        axes = _axes_of(data, axis)
        reduced = {a: te.reduce_axis((0, data.shape[a]), name=f"k{a}") for a in axes}
        left = [a for a in range(data.ndim) if a not in axes]
        shape = tuple(1 if a in axes else data.shape[a] for a in range(data.ndim) if keepdims or a in left)

        def element(*at: te.Expr) -> Any:
            places = dict(zip(range(data.ndim) if keepdims else left, at, strict=True)) | reduced
            return of(data(*(places[a] for a in range(data.ndim))), axis=list(reduced.values()))

        made: te.Tensor = te.compute(shape, element, name=f"T_{name}", tag="comm_reduce")
        return made

    reduction.__doc__ = f"Compute the {name} over some axes (all for None), which stay as 1 with `keepdims`."
    return reduction


def _axes_of(data: te.Tensor, axis: Axes) -> set[int]:
    given = range(data.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    for each in given:
        if not -data.ndim <= each < data.ndim:
            raise ComputeError(f"axis={axis!r}: {data.name} has the axes 0 to {data.ndim - 1}")
    return {each % data.ndim for each in given}


sum = _reduction("sum", te.sum)
max = _reduction("max", te.max)
min = _reduction("min", te.min)
prod = _reduction("prod", te.prod)
