"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pegbox import te
from pegbox.compute import elementwise, flat_index, padded, unflat_indices
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.casts import in_float32
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.windows import Windows, windows_of


def _pooled(
    node: OperatorNode, x: te.Tensor, combine: Any, fill: Any, map_: Any = lambda e: e
) -> tuple[te.Tensor, Windows, tuple[int, ...]]:
    windows = windows_of(node, x.shape[2:], node.get("kernel_shape"))
    counts = windows.counts(x.shape[2:], ceil=bool(node.get("ceil_mode", 0)))
    # The last window of a rounded-up count may reach beyond the border.
    after = [
        max(high, (n - 1) * s + d * (k - 1) + 1 - e - low)
        for e, n, (k, s, d, low, high) in zip(x.shape[2:], counts, windows.by_axis, strict=True)
    ]
    around = padded(x, (0, 0, *windows.before), (0, 0, *after), fill)
    dims = list(range(len(counts)))
    groups = [[d] for d in reversed(dims)] if _is_of_lines(windows) else [dims]
    made = around
    for group in groups:
        made, map_ = _combined(node.kind, made, windows, counts, group, combine, map_), lambda e: e
    return made, windows, counts


def _is_of_lines(windows: Windows) -> bool:
    """Decide whether to combine windows along one dimension after the other: large overlapping ones share lines."""
    overlap = all(k > s for k, s in zip(windows.kernel, windows.strides, strict=True))
    return overlap and 3 * sum(windows.kernel) < 2 * math.prod(windows.kernel)


def _combined(
    name: str, x: te.Tensor, windows: Windows, counts: tuple[int, ...], dims: list[int], combine: Any, map_: Any
) -> te.Tensor:
    """Combine the elements of windows along some dimensions."""
    over = {d: te.reduce_axis((0, windows.kernel[d]), name=f"r{d}") for d in dims}
    shape = [counts[d] if d in over else extent for d, extent in enumerate(x.shape[2:])]

    def element(n: Any, c: Any, *at: Any) -> Any:
        places = [i * windows.strides[d] + over[d] * windows.dilations[d] if d in over else i for d, i in enumerate(at)]
        return combine(map_(x(n, c, *places)), axis=list(over.values()))

    return computed((*x.shape[:2], *shape), element, name=name)


@operator("MaxPool")
def max_pool(node: OperatorNode, x: te.Tensor) -> te.Tensor | list[te.Tensor]:
    made, windows, counts = _pooled(node, x, te.max, te.min_value(x.dtype))
    return made if node.outputs == 1 else [made, _places(node, x, made, windows, counts)]


def _places(node: OperatorNode, x: te.Tensor, best: te.Tensor, windows: Windows, counts: tuple[int, ...]) -> te.Tensor:
    """Find the place in X of each window's first element that is NaN or the maximum.

    Elements of a window are compared by rows, even if places are counted by columns.
    """
    over = [te.reduce_axis((0, k), name=f"r{d}") for d, k in enumerate(windows.kernel)]

    def element(n: Any, c: Any, *at: Any) -> Any:
        tests, indices = [], []
        for i, r, e, (_, stride, dilation, low, _) in zip(at, over, x.shape[2:], windows.by_axis, strict=True):
            index = i * stride + r * dilation - low
            tests += [index >= 0, index < e]
            indices.append(te.maximum(te.minimum(index, e - 1), 0))
        value = x(n, c, *indices)
        is_found = te.any(value.equal(best(n, c, *at)), te.isnan(value))
        place = flat_index(x.shape, [n, c, *indices])
        return te.min(te.if_then_else(te.all(*tests, is_found), place, te.max_value("int64")), axis=over)

    places = computed((*x.shape[:2], *counts), element, name="places")
    return _by_columns(x.shape, places) if node.get("storage_order", 0) else places


def _by_columns(shape: tuple[int, ...], places: te.Tensor) -> te.Tensor:
    """Count places within a channel by columns instead of rows: the first spatial index runs fastest."""

    def element(*at: Any) -> Any:
        n, c, *indices = unflat_indices(shape, places(*at))
        return flat_index([*shape[:2], *shape[:1:-1]], [n, c, *reversed(indices)])

    return computed(places.shape, element, name="places_by_columns")


@operator("MaxUnpool", constants=(2,))
def max_unpool(node: OperatorNode, x: te.Tensor, places: te.Tensor) -> te.Tensor:
    n, c, *extents = x.shape
    kernel = node.get("kernel_shape")
    rank = len(kernel)
    strides, pads = node.get("strides") or [1] * rank, node.get("pads") or [0] * (2 * rank)
    natural = [
        (e - 1) * s + k - pads[d] - pads[d + rank]
        for d, (e, s, k) in enumerate(zip(extents, strides, kernel, strict=True))
    ]
    shape = node.numbers(2, "", [n, c, *natural])
    over = [te.reduce_axis((0, e), name=f"k{d}") for d, e in enumerate(extents)]

    def element(i: Any, o: Any, *at: Any) -> Any:
        # Places are counted in the original shape.
        inside = [p < e for p, e in zip(at, natural, strict=True)]
        here = te.all(*inside, places(i, o, *over).equal(flat_index([n, c, *natural], [i, o, *at])))
        return te.sum(te.if_then_else(here, x(i, o, *over), te.const(0, x.dtype)), axis=over)

    return computed(shape, element, name="MaxUnpool")


@operator("AveragePool")
@in_float32
def average_pool(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    total, windows, counts = _pooled(node, x, te.sum, te.const(0, x.dtype))
    axes = _counted(node, windows, x.shape[2:], counts)
    share = 1 / math.prod(windows.kernel)
    if all(axis.starts_inside and axis.ends_inside for axis in axes):
        return elementwise(lambda e: e * share, total, name="AveragePool")

    def element(n: Any, c: Any, *at: Any) -> Any:
        number: Any = 1
        for i, axis in zip(at, axes, strict=True):
            number = number * axis.count(i)
        if any(axis.may_miss for axis in axes):
            number = te.maximum(number, 1)
        is_whole = te.all(*(test for i, axis in zip(at, axes, strict=True) for test in axis.tests(i)))
        value = total(n, c, *at)
        return te.if_then_else(is_whole, value * share, value / te.cast(x.dtype, number))

    return computed(total.shape, element, name="AveragePool")


class _PooledAxis(NamedTuple):
    """A pooled axis: its windows, and the elements that count, `extent` of them from the place `first` on."""

    windows: int
    kernel: int
    stride: int
    dilation: int
    first: int
    extent: int

    @property
    def starts_inside(self) -> bool:
        """True if no window begins before the first element that counts."""
        return self.first == 0

    @property
    def ends_inside(self) -> bool:
        """True if no window ends after the last element that counts."""
        return (self.windows - 1) * self.stride + self._reach < self.first + self.extent

    @property
    def may_miss(self) -> bool:
        """True if some window has no element that counts, because of long steps or a wide border."""
        stop, steps = self.first + self.extent, range(0, self._reach + 1, self.dilation)
        begins = range(0, self.windows * self.stride, self.stride)
        return any(all(not self.first <= begin + step < stop for step in steps) for begin in begins)

    @property
    def _reach(self) -> int:
        return self.dilation * (self.kernel - 1)

    def count(self, i: Any) -> Any:
        """Count the elements of a window, in int32: twice as many lanes as indices have, and faster casts to float."""
        begin, d = te.cast("int32", i) * self.stride - self.first, self.dilation
        least = te.maximum(te.floordiv(d - 1 - begin, d), 0)
        return te.minimum(te.floordiv(self.extent - 1 - begin, d) + 1, self.kernel) - least

    def tests(self, i: Any) -> list[Any]:
        """Make the tests for windows with all of their elements."""
        begin = i * self.stride
        after = [] if self.ends_inside else [begin + self._reach < self.first + self.extent]
        return after if self.starts_inside else [begin >= self.first, *after]


def _counted(node: OperatorNode, windows: Windows, extents: Sequence[int], counts: Sequence[int]) -> list[_PooledAxis]:
    """Return the axes with the elements that count, including the border if the node says so."""
    rank = len(extents)
    pads = [0] * (2 * rank)
    if node.get("count_include_pad", 0):
        pads = node.get("counted_pads") or [*windows.before, *windows.after]
    return [
        _PooledAxis(counts[d], k, s, step, low - pads[d], e + pads[d] + pads[d + rank])
        for d, (e, (k, s, step, low, _)) in enumerate(zip(extents, windows.by_axis, strict=True))
    ]


@operator("LpPool")
@in_float32
def lp_pool(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    p = node.get("p", 2)
    total, _, _ = _pooled(node, x, te.sum, te.const(0, x.dtype), lambda e: te.pow(te.abs(e), float(p)))
    return computed(total.shape, lambda *at: te.pow(total(*at), 1.0 / p), name="LpPool")
