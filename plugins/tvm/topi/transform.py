"""Tensors whose elements are those of others, elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import Any

from pegbox import te
from pegbox.compute.elementwise import broadcast_shape, element
from pegbox.errors import ComputeError
from pegbox.plugins.tvm.topi.reduction import Axes, axes_of

__all__ = [
    "arange", "broadcast_to", "concatenate", "expand_dims", "flip", "layout_transform", "repeat", "reshape", "split",
    "squeeze", "stack", "strided_slice", "take", "tile", "transpose",
]  # fmt: skip


def _moved(shape: Sequence[int], at: Callable[..., Any], name: str) -> te.Tensor:
    made: te.Tensor = te.compute(tuple(shape), at, name=f"T_{name}", tag="injective")
    return made


def _axis(axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise ComputeError(f"axis={axis!r}: there are the axes 0 to {ndim - 1}")
    return axis % ndim


def transpose(a: te.Tensor, axes: Sequence[int] | None = None) -> te.Tensor:
    """The axes in another order; reversed for None."""
    order = [_axis(x, a.ndim) for x in (range(a.ndim)[::-1] if axes is None else axes)]
    if sorted(order) != list(range(a.ndim)):
        raise ComputeError(f"transpose: axes={axes!r} is not an order of the {a.ndim} axes")
    return _moved([a.shape[x] for x in order], lambda *i: a(*(i[order.index(d)] for d in range(a.ndim))), "transpose")


def reshape(a: te.Tensor, newshape: Sequence[int]) -> te.Tensor:
    """The same elements in row-major order in another shape; one extent may be -1."""
    shape = [int(extent) for extent in newshape]
    if shape.count(-1) == 1:
        shape[shape.index(-1)] = prod(a.shape) // max(1, -prod(shape))
    if prod(shape) != prod(a.shape):
        raise ComputeError(f"reshape: {a!r} has {prod(a.shape)} elements, {tuple(newshape)} another number")
    return _moved(shape, lambda *i: a(*_digits(_number(i, shape), a.shape)), "reshape")


def _number(indices: Sequence[Any], shape: Sequence[int]) -> te.Expr:
    number: te.Expr = te.const(0)
    for index, extent in zip(indices, shape, strict=True):
        number = number * extent + index
    return number


def _digits(number: te.Expr, shape: Sequence[int]) -> list[te.Expr]:
    rests = [prod(shape[d + 1 :]) for d in range(len(shape))]
    return [
        number // rest % extent if d else number // rest
        for d, (rest, extent) in enumerate(zip(rests, shape, strict=True))
    ]


def expand_dims(a: te.Tensor, axis: int, num_newaxis: int = 1) -> te.Tensor:
    """New axes of extent 1 before an axis."""
    place = _axis(axis, a.ndim + 1)
    shape = [*a.shape[:place], *[1] * num_newaxis, *a.shape[place:]]
    return _moved(shape, lambda *i: a(*i[:place], *i[place + num_newaxis :]), "expand_dims")


def squeeze(a: te.Tensor, axis: Axes = None) -> te.Tensor:
    """Without axes of extent 1: those that are named, or all."""
    gone = [d for d, extent in enumerate(a.shape) if extent == 1] if axis is None else axes_of(a, axis)
    if any(a.shape[d] != 1 for d in gone):
        raise ComputeError(f"squeeze: axis={axis!r} of {a!r} has not the extent 1")
    kept = [d for d in range(a.ndim) if d not in gone]
    return _moved(
        [a.shape[d] for d in kept],
        lambda *i: a(*(i[kept.index(d)] if d in kept else 0 for d in range(a.ndim))),
        "squeeze",
    )


def broadcast_to(data: te.Tensor, shape: Sequence[int]) -> te.Tensor:
    """Extents of 1, and axes in front, repeated."""
    if broadcast_shape(data.shape, shape) != tuple(shape):
        raise ComputeError(f"broadcast_to: {data!r} does not broadcast to {tuple(shape)}")
    return _moved(shape, lambda *i: element(data, i), "broadcast_to")


def concatenate(a_tuple: Sequence[te.Tensor], axis: int = 0) -> te.Tensor:
    """One behind the other along an axis."""
    first, place = a_tuple[0], _axis(axis, a_tuple[0].ndim)
    if any(_without(t.shape, place) != _without(first.shape, place) for t in a_tuple):
        raise ComputeError(f"concatenate: {list(a_tuple)} differ elsewhere than along axis {place}")
    starts = [0, *accumulate(t.shape[place] for t in a_tuple)]

    def at(*i: te.Expr) -> te.Expr:
        found = first(*i[:place], i[place], *i[place + 1 :])
        for tensor, start in zip(a_tuple[1:], starts[1:], strict=False):
            there = tensor(*i[:place], i[place] - start, *i[place + 1 :])
            found = te.if_then_else(i[place] >= start, there, found)
        return found

    return _moved([*first.shape[:place], starts[-1], *first.shape[place + 1 :]], at, "concat")


def _without(shape: Sequence[int], place: int) -> tuple[int, ...]:
    return (*shape[:place], *shape[place + 1 :])


def stack(tensors: Sequence[te.Tensor], axis: int = 0) -> te.Tensor:
    """Side by side along a new axis."""
    return concatenate([expand_dims(t, axis) for t in tensors], axis)


def split(ary: te.Tensor, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[te.Tensor]:
    """Parts along an axis: so many equal ones, or cut at places."""
    place = _axis(axis, ary.ndim)
    whole = ary.shape[place]
    if isinstance(indices_or_sections, int):
        if whole % indices_or_sections:
            raise ComputeError(f"split: {indices_or_sections} does not divide the extent {whole} of axis {place}")
        step = whole // indices_or_sections
        cuts = [*range(step, whole, step)]
    else:
        cuts = [int(cut) for cut in indices_or_sections]
    edges = [0, *cuts, whole]
    return [strided_slice(ary, [low], [high], axes=[place]) for low, high in pairwise(edges)]


def strided_slice(
    a: te.Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    slice_mode: str = "end",
) -> te.Tensor:
    """`a[begin:end:stride]` along each axis, or those of `axes`; with the mode "size", `end` are extents (-1: all)."""
    where = [*range(len(begin))] if axes is None else [_axis(x, a.ndim) for x in axes]
    steps = (
        [1] * len(where) if strides is None or slice_mode == "size" else [*strides, *[1] * (len(where) - len(strides))]
    )
    ranges = {d: range(extent) for d, extent in enumerate(a.shape)}
    for d, low, high, step in zip(where, begin, end, steps, strict=False):
        extent = a.shape[d]
        stop = (extent if high < 0 else low + high) if slice_mode == "size" else high
        ranges[d] = range(extent)[slice(low, stop, step)]
    shape = [len(ranges[d]) for d in range(a.ndim)]
    return _moved(
        shape, lambda *i: a(*(i[d] * ranges[d].step + ranges[d].start for d in range(a.ndim))), "strided_slice"
    )


def flip(a: te.Tensor, axis: int = 0) -> te.Tensor:
    """Backwards along an axis."""
    place = _axis(axis, a.ndim)
    last = a.shape[place] - 1
    return _moved(a.shape, lambda *i: a(*i[:place], last - i[place], *i[place + 1 :]), "flip")


def repeat(a: te.Tensor, repeats: int, axis: int) -> te.Tensor:
    """Each element along an axis so many times."""
    place = _axis(axis, a.ndim)
    shape = [*a.shape[:place], a.shape[place] * repeats, *a.shape[place + 1 :]]
    return _moved(shape, lambda *i: a(*i[:place], i[place] // repeats, *i[place + 1 :]), "repeat")


def tile(a: te.Tensor, reps: Sequence[int]) -> te.Tensor:
    """The whole tensor so many times along each axis."""
    rank = max(a.ndim, len(reps))
    counts = [*[1] * (rank - len(reps)), *reps]
    shape = [*[1] * (rank - a.ndim), *a.shape]
    return _moved(
        [extent * count for extent, count in zip(shape, counts, strict=True)],
        lambda *i: a(*(index % extent for index, extent in zip(i[rank - a.ndim :], a.shape, strict=True))),
        "tile",
    )


def take(
    a: te.Tensor, indices: te.Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> te.Tensor:
    """The elements at indices along an axis, or of the flat tensor for None.

    Args:
        mode: what indices outside mean: "clip" the nearest one, "wrap" counted round; "fast" says that there are none.
    """
    if batch_dims or mode not in ("clip", "wrap", "fast"):
        raise ComputeError(f"take: batch_dims={batch_dims!r}, mode={mode!r}: give 0 and one of clip, wrap, fast")
    source = reshape(a, [prod(a.shape)]) if axis is None else a
    place = _axis(axis or 0, source.ndim)
    extent, rank = source.shape[place], indices.ndim

    def at(*i: te.Expr) -> te.Expr:
        found = te.cast("int64", indices(*i[place : place + rank]))
        if mode != "fast":
            found = found % extent if mode == "wrap" else te.minimum(te.maximum(found, 0), extent - 1)
        return source(*i[:place], found, *i[place + rank :])

    return _moved([*source.shape[:place], *indices.shape, *source.shape[place + 1 :]], at, "take")


def arange(start: int, stop: int | None = None, step: int = 1, dtype: str = "float32") -> te.Tensor:
    """The numbers from `start` up to `stop`, which is left out; from 0 where there is only one number."""
    first, last = (0, start) if stop is None else (start, stop)
    count = len(range(first, last, step))
    return _moved((count,), lambda i: te.cast(dtype, i * step + first), "arange")


def layout_transform(array: te.Tensor, src_layout: str, dst_layout: str) -> te.Tensor:
    """Axes in another order, by their letters: "NCHW" to "NHWC". Layouts with inner blocks (NCHW8c) are refused."""
    if sorted(src_layout) != sorted(dst_layout) or not (src_layout.isupper() and dst_layout.isupper()):
        raise ComputeError(
            f"layout_transform from {src_layout!r} to {dst_layout!r}: give the same capital letters in another order; "
            "cut an axis with topi.reshape first"
        )
    return transpose(array, [src_layout.index(letter) for letter in dst_layout])
