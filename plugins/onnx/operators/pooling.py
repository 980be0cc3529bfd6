"""Pooling."""

from __future__ import annotations

from typing import Any

from pegbox import te
from pegbox.compute import padded
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.windows import Windows, windows_of


def _pooled(
    node: OperatorNode, x: te.Tensor, combine: Any, fill: Any, map_: Any = lambda e: e
) -> tuple[te.Tensor, Windows, tuple[int, ...]]:
    windows = windows_of(node, x.shape[2:], node.get("kernel_shape"))
    counts = windows.counts(x.shape[2:], ceil=bool(node.get("ceil_mode", 0)))
    after = []  # the last window of a rounded-up count may reach beyond the border
    for e, n, k, s, d, low, high in zip(
        x.shape[2:], counts, windows.kernel, windows.strides, windows.dilations, windows.before, windows.after, strict=True
    ):
        after.append(max(high, (n - 1) * s + d * (k - 1) + 1 - e - low))
    around = padded(x, (0, 0, *windows.before), (0, 0, *after), fill)
    over = [te.reduce_axis((0, k), name=f"r{d}") for d, k in enumerate(windows.kernel)]

    def element(n: Any, c: Any, *at: Any) -> Any:
        places = [i * s + r * d for i, s, r, d in zip(at, windows.strides, over, windows.dilations, strict=True)]
        return combine(map_(around(n, c, *places)), axis=over)

    return te.compute((*x.shape[:2], *counts), element, name=node.kind), windows, counts


@operator("MaxPool")
def max_pool(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    if node.outputs > 1:
        raise node.refuse("the indices of the largest elements are not computed")
    return _pooled(node, x, te.max, te.min_value(x.dtype))[0]


@operator("AveragePool")
def average_pool(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    total, windows, _ = _pooled(node, x, te.sum, te.const(0, x.dtype))
    whole = bool(node.get("count_include_pad", 0))

    def count(i: Any, e: int, k: int, s: int, d: int, low: int, high: int) -> Any:
        first, extent = (0, e + low + high) if whole else (low, e)
        begin = i * s - first  # the window's first element, from the first that counts
        least = te.maximum(te.floordiv(d - 1 - begin, d), 0)
        most = te.minimum(te.floordiv(extent - 1 - begin, d) + 1, k)
        return most - least

    def element(n: Any, c: Any, *at: Any) -> Any:
        sizes = zip(at, x.shape[2:], windows.kernel, windows.strides, windows.dilations, windows.before, windows.after, strict=True)
        number: Any = 1
        for each in sizes:
            number = number * count(*each)
        return total(n, c, *at) / te.cast(x.dtype, number)

    return te.compute(total.shape, element, name="AveragePool")


@operator("LpPool")
def lp_pool(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    p = node.get("p", 2)
    total, _, _ = _pooled(node, x, te.sum, te.const(0, x.dtype), lambda e: te.pow(te.abs(e), float(p)))
    return te.compute(total.shape, lambda *at: te.pow(total(*at), 1.0 / p), name="LpPool")


