"""Operators that combine elements along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from pegbox import te
from pegbox.compute import elementwise, reshaped
from pegbox.expr import is_float
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.casts import converted, in_float32
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.shapes import at_axis, axis_of

Combine = Callable[..., Any]


def reduced(
    x: te.Tensor, axes: Sequence[int], combine: Combine, *, keep: bool = True, name: str = "reduce",
    map_: Callable[[Any], Any] = lambda e: e,
) -> te.Tensor:  # fmt: skip
    """Combine the elements along axes, which keep an extent of 1 or are removed."""
    if not axes:
        return elementwise(map_, x, name=name)
    over = {axis: te.reduce_axis((0, x.shape[axis]), name=f"k{axis}") for axis in axes}
    shape = tuple(1 if d in over else e for d, e in enumerate(x.shape) if keep or d not in over)

    def element(*at: Any) -> Any:
        kept = iter(at if not keep else [i for d, i in enumerate(at) if d not in over])
        return combine(
            map_(x(*(over[d] if d in over else next(kept) for d in range(x.ndim)))), axis=list(over.values())
        )

    return computed(shape, element, name=name)


def _axes(node: OperatorNode, x: te.Tensor) -> list[int]:
    axes = list(node.numbers(1, "axes") or [])
    if not axes:
        return [] if node.get("noop_with_empty_axes", 0) else list(range(x.ndim))
    return sorted(axis_of(node, axis, x.ndim) for axis in axes)


def _reduction(kind: str, combine: Combine, *, before: Combine | None = None, after: Combine | None = None) -> None:
    @operator(kind, constants=(1,))
    @in_float32
    def meaning(node: OperatorNode, x: te.Tensor) -> te.Tensor:
        axes = _axes(node, x)
        if x.dtype == "bool":
            return converted(meaning(node, converted(x, "uint8")), "bool", name=kind)
        made = reduced(x, axes, combine, keep=bool(node.get("keepdims", 1)), name=kind, map_=before or (lambda e: e))
        if after is None:
            return made
        count = math.prod(x.shape[axis] for axis in axes)
        return elementwise(lambda e: after(e, count), made, name=kind)


def _root(e: Any) -> Any:
    return te.sqrt(e) if is_float(e.dtype) else te.cast(e.dtype, te.sqrt(te.cast("float64", e)))


_square: Combine = lambda e: e * e  # noqa: E731
_reduction("ReduceSum", te.sum)
_reduction("ReduceProd", te.prod)
_reduction("ReduceMax", te.max)
_reduction("ReduceMin", te.min)
_reduction("ReduceMean", te.sum, after=lambda e, n: e * (1 / n) if is_float(e.dtype) else te.truncdiv(e, n))
_reduction("ReduceL1", te.sum, before=te.abs)
_reduction("ReduceSumSquare", te.sum, before=_square)
_reduction("ReduceL2", te.sum, before=_square, after=lambda e, n: _root(e))
_reduction("ReduceLogSum", te.sum, after=lambda e, count: te.log(e))


@operator("ReduceLogSumExp", constants=(1,))
@in_float32
def log_sum_exp(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    axes, keep = _axes(node, x), bool(node.get("keepdims", 1))
    high = reduced(x, axes, te.max, name="high")
    finite = elementwise(lambda e: te.if_then_else(te.isinf(e), te.const(0, e.dtype), e), high, name="finite")
    powers = elementwise(lambda e, h: te.exp(e - h), x, finite, name="powers")
    total = reduced(powers, axes, te.sum, name="total")
    made = elementwise(lambda e, h: te.log(e) + h, total, finite, name="ReduceLogSumExp")
    return made if keep else reshaped(made, [e for d, e in enumerate(x.shape) if d not in axes])


_FEW = 8


def _powers(node: OperatorNode, x: te.Tensor) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """Compute the differences from a row's largest element, their powers, and the sum of the powers."""
    axis = axis_of(node, node.get("axis", -1), x.ndim)
    high = reduced(x, [axis], te.max, name="high")
    low = elementwise(lambda e, h: e - h, x, high, name="shifted")
    powers = elementwise(te.exp, low, name="powers")
    return low, powers, row_sums(powers, axis)


def row_sums(x: te.Tensor, axis: int) -> te.Tensor:
    """Sum the elements of each row; round short sums of bfloat16 at each step, as ONNX's own evaluator does."""
    if x.dtype not in ("float16", "bfloat16"):
        return reduced(x, [axis], te.sum, name="total")
    if x.dtype == "float16" or x.shape[axis] > _FEW:
        wide = reduced(x, [axis], te.sum, map_=lambda e: te.cast("float32", e), name="total")
        return converted(wide, x.dtype, name="rounded")

    def total(*at: Any) -> Any:
        return reduce(lambda a, b: a + b, (x(*at_axis(at, axis, k)) for k in range(x.shape[axis])))

    return computed(at_axis(x.shape, axis, 1), total, name="total")


def _by_rows(node: OperatorNode, x: te.Tensor, function: Callable[[OperatorNode, te.Tensor], te.Tensor]) -> te.Tensor:
    """Apply a function of one axis; before opset 13, the axis and all after it were joined."""
    if node.opset >= 13:
        return function(node, x)
    axis = node.get("axis", 1) % x.ndim
    rows = reshaped(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    row = OperatorNode(node.name, node.kind, 13, {"axis": 1})
    return reshaped(function(row, rows), x.shape)


def _softmax(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    _, powers, total = _powers(node, x)
    if x.dtype in ("float16", "bfloat16"):
        return elementwise(lambda e, t: e / t, powers, total, name="Softmax")
    inverse = elementwise(lambda t: 1 / t, total, name="inverse")
    return elementwise(lambda e, i: e * i, powers, inverse, name="Softmax")


def _log_softmax(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    low, _, total = _powers(node, x)
    return elementwise(lambda e, t: e - te.log(t), low, total, name="LogSoftmax")


@operator("Softmax")
def softmax(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    return _by_rows(node, x, _softmax)


@operator("LogSoftmax")
@in_float32
def log_softmax(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    return _by_rows(node, x, _log_softmax)


@operator("ArgMax", "ArgMin")
def arg_extremum(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    axis, last = axis_of(node, node.get("axis", 0), x.ndim), node.get("select_last_index", 0)
    largest = node.kind == "ArgMax"

    def better(a: Any, b: Any) -> Any:
        before = a[0] > b[0] if last else a[0] < b[0]
        return te.any(a[1] > b[1] if largest else a[1] < b[1], te.all(a[1].equal(b[1]), before))

    def combine(a: Any, b: Any) -> Any:
        chosen = better(a, b)
        return te.if_then_else(chosen, a[0], b[0]), te.if_then_else(chosen, a[1], b[1])

    def start(index: str, value: str) -> Any:
        return te.const(-1, index), te.min_value(value) if largest else te.max_value(value)

    reducer = te.comm_reducer(combine, start, name=node.kind.lower())
    k = te.reduce_axis((0, x.shape[axis]), name="k")
    keep = node.get("keepdims", 1)
    shape = tuple(1 if d == axis else e for d, e in enumerate(x.shape) if keep or d != axis)

    def element(*at: Any) -> Any:
        return reducer((te.cast("int64", k), x(*at[:axis], k, *at[axis + bool(keep) :])), axis=k)

    found = te.compute(shape, element, name=node.kind)[0]
    return computed(shape, lambda *at: found(*at), name="place")


@operator("CumSum", "CumProd", constants=(1,))
def running(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    axis = axis_of(node, int(node.constants[1].item()), x.ndim)
    back, apart = node.get("reverse", 0), node.get("exclusive", 0)
    extent, first = x.shape[axis], te.const(int(node.kind == "CumProd"), x.dtype)

    def given(*at: Any) -> Any:
        """Read the elements in order, shifted by one if each is excluded from its own result."""
        place = at[axis] - 1 if apart else at[axis]
        value = x(*at_axis(at, axis, extent - 1 - place if back else place))
        return te.if_then_else(place >= 0, value, first) if apart else value

    ordered = computed(x.shape, given, name="ordered") if back or apart else x
    made = te.cumsum(ordered, axis=axis) if node.kind == "CumSum" else te.cumprod(ordered, axis=axis)
    if not back:
        return made
    return computed(x.shape, lambda *at: made(*at_axis(at, axis, extent - 1 - at[axis])), name=node.kind)


@operator("GlobalAveragePool")
@in_float32
def global_average(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    count = math.prod(x.shape[2:])
    total = reduced(x, list(range(2, x.ndim)), te.sum, name="total")
    return elementwise(lambda e: e / count, total, name="GlobalAveragePool")


@operator("GlobalMaxPool")
def global_max(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    return reduced(x, list(range(2, x.ndim)), te.max, name="GlobalMaxPool")


@operator("Hardmax")
def hardmax(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    def rows(inner: OperatorNode, value: te.Tensor) -> te.Tensor:
        axis = axis_of(inner, inner.get("axis", -1), value.ndim)
        first = arg_extremum(OperatorNode(inner.name, "ArgMax", 13, {"axis": axis}), value)

        def element(*at: Any) -> Any:
            place = first(*(0 if d == axis else i for d, i in enumerate(at)))
            return te.cast(x.dtype, place.equal(te.cast("int64", at[axis])))

        return computed(value.shape, element, name="Hardmax")

    return _by_rows(node, x, rows)
