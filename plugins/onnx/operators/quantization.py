"""Quantized tensors: conversions to and from them, and products and convolutions of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pegbox import te
from pegbox.compute import elementwise, matmul
from pegbox.expr import is_float
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.casts import converted, dtype_of
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.convolutions import convolution
from pegbox.plugins.onnx.operators.shapes import Index, axis_of

Element = Callable[[Sequence[Index]], Any]


def _along(node: OperatorNode, value: te.Tensor, extents: Sequence[int]) -> Element:
    """Read a scale or a zero point: one for all elements, one for each index of an axis, or one for each block."""
    if value.ndim == 0 or (value.ndim == 1 and value.shape[0] == 1):
        return lambda at: value(*[0] * value.ndim)
    axis, block = axis_of(node, node.get("axis", 1), len(extents)), node.get("block_size", 0)
    if value.ndim == 1:
        node.require_shape("scale or zero point", value.shape, (extents[axis],))
        return lambda at: value(at[axis])
    return lambda at: value(*(te.floordiv(i, block) if d == axis else i for d, i in enumerate(at)))


def _saturated(value: Any, zero: Any, dtype: str) -> Any:
    """Round a float to the nearest integer, halves to the even one, and clamp it to a type."""
    low, high = (te.cast(value.dtype, bound(dtype)) for bound in (te.min_value, te.max_value))
    moved = te.round(value) if zero is None else te.round(value) + te.cast(value.dtype, zero)
    return te.cast(dtype, te.maximum(te.minimum(moved, high), low))


@operator("QuantizeLinear")
def quantize(node: OperatorNode, x: te.Tensor, scale: te.Tensor, zero: te.Tensor | None = None) -> te.Tensor:
    dtype = zero.dtype if zero is not None else dtype_of(node, "output_dtype", "uint8")
    if is_float(dtype):
        raise node.refuse(f"the result has elements of {dtype}")
    kind = dtype_of(node, "precision", "float32")
    step = _along(node, scale, x.shape)
    start = None if zero is None else _along(node, zero, x.shape)

    def element(*at: Index) -> Any:
        value = te.cast(kind, x(*at)) / te.cast(kind, step(at))
        return _saturated(value, None if start is None else start(at), dtype)

    return computed(x.shape, element, name="QuantizeLinear")


@operator("DequantizeLinear")
def dequantize(node: OperatorNode, x: te.Tensor, scale: te.Tensor, zero: te.Tensor | None = None) -> te.Tensor:
    dtype = dtype_of(node, "output_dtype", scale.dtype)
    step = _along(node, scale, x.shape)
    start = None if zero is None else _along(node, zero, x.shape)

    def element(*at: Index) -> Any:
        value = te.cast("int32", x(*at))
        if start is not None:
            value = value - te.cast("int32", start(at))
        return te.cast(dtype, te.cast("float32", value) * te.cast("float32", step(at)))

    return computed(x.shape, element, name="DequantizeLinear")


@operator("DynamicQuantizeLinear")
def dynamic_quantize(node: OperatorNode, x: te.Tensor) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    over = [te.reduce_axis((0, extent), name=f"k{d}") for d, extent in enumerate(x.shape)]
    low = computed((), lambda: te.min(x(*over), axis=over), name="low")
    high = computed((), lambda: te.max(x(*over), axis=over), name="high")
    scale = elementwise(
        lambda a, b: (te.maximum(b, 0.0) - te.minimum(a, 0.0)) / te.const(255, x.dtype), low, high, name="scale"
    )
    zero = elementwise(
        lambda a, s: _saturated(-te.minimum(a, 0.0) / te.if_then_else(s.equal(0.0), 1.0, s), None, "uint8"),
        low, scale, name="zero",
    )  # fmt: skip
    made = elementwise(
        lambda e, s, z: _saturated(e / te.if_then_else(s.equal(0.0), 1.0, s), z, "uint8"),
        x, scale, zero, name="DynamicQuantizeLinear",
    )  # fmt: skip
    return made, scale, zero


def _shifted(x: te.Tensor, zero: te.Tensor | None, axis: int) -> te.Tensor:
    """Subtract the zero point, of which there may be one for each index of an axis."""
    if zero is None:
        return converted(x, "int32", name="wide")

    def element(*at: Index) -> Any:
        own = zero(*[0] * zero.ndim) if zero.ndim != 1 or zero.shape[0] == 1 else zero(at[axis])
        if zero.ndim > 1:
            own = zero(*(0 if e == 1 else i for e, i in zip(zero.shape, at[len(at) - zero.ndim :], strict=True)))
        return te.cast("int32", x(*at)) - te.cast("int32", own)

    return computed(x.shape, element, name="shifted")


@operator("MatMulInteger")
def matmul_integer(
    node: OperatorNode, a: te.Tensor, b: te.Tensor, zero_a: te.Tensor | None = None, zero_b: te.Tensor | None = None
) -> te.Tensor:
    return matmul(_shifted(a, zero_a, a.ndim - 2), _shifted(b, zero_b, b.ndim - 1), name="MatMulInteger")


@operator("ConvInteger")
def conv_integer(
    node: OperatorNode, x: te.Tensor, w: te.Tensor, zero_x: te.Tensor | None = None, zero_w: te.Tensor | None = None
) -> te.Tensor:
    return convolution(node, _shifted(x, zero_x, 1), _shifted(w, zero_w, 0))


@operator("QLinearMatMul")
def quantized_matmul(
    node: OperatorNode, a: te.Tensor, scale_a: te.Tensor, zero_a: te.Tensor, b: te.Tensor, scale_b: te.Tensor,
    zero_b: te.Tensor, scale: te.Tensor, zero: te.Tensor,
) -> te.Tensor:  # fmt: skip
    total = matmul(_shifted(a, zero_a, a.ndim - 2), _shifted(b, zero_b, b.ndim - 1), name="total")

    def element(e: Any, p: Any, q: Any, s: Any, z: Any) -> Any:
        # As the integers are far below 2^24, float32 holds them.
        factor = te.cast("float32", p) * te.cast("float32", q) / te.cast("float32", s)
        return te.cast(zero.dtype, _saturated(te.cast("float32", e) * factor, z, zero.dtype))

    rows = computed((*scale_a.shape, 1), lambda *at: scale_a(*at[:-1]), name="rows") if scale_a.ndim == 1 else scale_a
    return elementwise(element, total, rows, scale_b, scale, zero, name="QLinearMatMul")


@operator("QLinearConv")
def quantized_conv(
    node: OperatorNode, x: te.Tensor, scale_x: te.Tensor, zero_x: te.Tensor, w: te.Tensor, scale_w: te.Tensor,
    zero_w: te.Tensor, scale: te.Tensor, zero: te.Tensor, bias: te.Tensor | None = None,
) -> te.Tensor:  # fmt: skip
    total = convolution(node, _shifted(x, zero_x, 1), _shifted(w, zero_w, 0))
    sx, sw, s, z = (_along(node, each, total.shape) for each in (scale_x, scale_w, scale, zero))

    def element(*at: Index) -> Any:
        value = total(*at) if bias is None else total(*at) + bias(at[1])
        return _saturated(te.cast("float32", value) * (sx(at) * sw(at) / s(at)), z(at), zero.dtype)

    return computed(total.shape, element, name="QLinearConv")
