"""`topi.nn`: convolutions, which are those of pegbox's workloads, products, activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pegbox import te
from pegbox.compute import convolve, convolve_nhwc, elementwise, padded
from pegbox.errors import ComputeError
from pegbox.plugins.tvm.topi import reduction

Pair: TypeAlias = "int | Sequence[int]"
Padding: TypeAlias = "int | str | Sequence[int]"


def relu(x: te.Tensor) -> te.Tensor:
    """Compute max(x, 0)."""
    return elementwise(te.relu, x, name="T_relu")


def softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """Compute exp(x - max) / sum(exp(x - max)) along an axis."""
    power = elementwise(te.exp, x - reduction.max(x, axis, keepdims=True), name="T_exp")
    return power / reduction.sum(power, axis, keepdims=True)


def pad(
    data: te.Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    pad_value: float = 0.0,
    name: str = "PadInput",
) -> te.Tensor:
    """Add a border of one value: `pad_before[d]` elements before axis d, and `pad_after[d]` (as many) after it."""
    after = pad_before if pad_after is None else pad_after
    if not len(pad_before) == len(after) == data.ndim:
        raise ComputeError(f"pad: {list(pad_before)} and {list(after)} for the {data.ndim} axes of {data.name}")
    return padded(data, pad_before, after, pad_value, name=name)


def conv2d_nchw(
    Input: te.Tensor, Filter: te.Tensor, stride: Pair, padding: Padding, dilation: Pair, out_dtype: str | None = None
) -> te.Tensor:
    """Convolve Input[n, c, y, x] with Filter[o, c, ky, kx]."""
    return group_conv2d_nchw(Input, Filter, stride, padding, dilation, 1, out_dtype)


def group_conv2d_nchw(
    Input: te.Tensor, Filter: te.Tensor, stride: Pair, padding: Padding, dilation: Pair, groups: int,
    out_dtype: str | None = None,
) -> te.Tensor:  # fmt: skip
    """Convolve Input[n, c, y, x] with Filter[o, c / groups, ky, kx]."""
    _check_channels(Input, Input.shape[1], Filter, Filter.shape[1] * groups)
    top, left, bottom, right = get_pad_tuple(padding, Filter.shape[2:], dilation)
    data = pad(Input, (0, 0, top, left), (0, 0, bottom, right), name="pad_temp")
    return convolve(_as(data, out_dtype), _as(Filter, out_dtype), _pair(stride), _pair(dilation), groups)


def conv2d_nhwc(
    Input: te.Tensor, Filter: te.Tensor, stride: Pair, padding: Padding, dilation: Pair, out_dtype: str | None = None
) -> te.Tensor:
    """Convolve Input[n, y, x, c] with Filter[ky, kx, c, o]."""
    _check_channels(Input, Input.shape[3], Filter, Filter.shape[2])
    top, left, bottom, right = get_pad_tuple(padding, Filter.shape[:2], dilation)
    data = pad(Input, (0, top, left, 0), (0, bottom, right, 0), name="pad_temp")
    return convolve_nhwc(_as(data, out_dtype), _as(Filter, out_dtype), _pair(stride), _pair(dilation))


def conv2d(
    input: te.Tensor, filter: te.Tensor, strides: Pair, padding: Padding, dilation: Pair, data_layout: str = "NCHW",
    kernel_layout: str = "", out_dtype: str | None = None,
) -> te.Tensor:  # fmt: skip
    """Convolve by the name of a layout: NCHW with filters OIHW, NHWC with HWIO."""
    known = {"NCHW": (conv2d_nchw, "OIHW"), "NHWC": (conv2d_nhwc, "HWIO")}
    if data_layout not in known or kernel_layout not in ("", known[data_layout][1]):
        raise ComputeError(f"conv2d of {data_layout}, {kernel_layout}: there are {', '.join(known)}")
    return known[data_layout][0](input, filter, strides, padding, dilation, out_dtype)


def get_pad_tuple(padding: Padding, kernel: Sequence[int], dilation: Pair = 1) -> tuple[int, int, int, int]:
    """Return a padding as (top, left, bottom, right).

    Args:
        padding: one number, (rows, columns), all four, or "VALID" (none) or "SAME" (as many outputs as inputs at a
            stride of 1).
    """
    if isinstance(padding, str):
        if padding not in ("VALID", "SAME"):
            raise ComputeError(f"padding={padding!r}: give numbers, 'VALID' or 'SAME'")
        border = [(k - 1) * d * (padding == "SAME") for k, d in zip(kernel, _pair(dilation), strict=True)]
        top, left = (each - each // 2 for each in border)
        return top, left, border[0] - top, border[1] - left
    if not isinstance(padding, int) and len(padding) == 4:
        top, left, bottom, right = padding
        return top, left, bottom, right
    rows, columns = _pair(padding)
    return rows, columns, rows, columns


def dense(data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None) -> te.Tensor:
    """Multiply data[n, k] by weight[o, k]ᵀ, and add bias[o]."""
    return matmul(data, weight, bias, out_dtype, transpose_b=True)


def matmul(
    tensor_a: te.Tensor, tensor_b: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None,
    transpose_a: bool = False, transpose_b: bool = False,
) -> te.Tensor:  # fmt: skip
    """Multiply two matrices, each transposed first on request, and add a bias."""
    a, b = _as(tensor_a, out_dtype), _as(tensor_b, out_dtype)
    rows, depth = a.shape[::-1] if transpose_a else a.shape
    other, columns = b.shape[::-1] if transpose_b else b.shape
    if depth != other:
        raise ComputeError(f"matmul: {a!r} and {b!r} are summed over {depth} and over {other} elements")
    k = te.reduce_axis((0, depth), name="k")

    def term(i: te.Expr, j: te.Expr) -> te.Expr:
        return te.sum((a[k, i] if transpose_a else a[i, k]) * (b[j, k] if transpose_b else b[k, j]), axis=k)

    product = te.compute((rows, columns), term, name="T_matmul", tag="dense")
    return product if bias is None else product + bias


def _as(x: te.Tensor, dtype: str | None) -> te.Tensor:
    return x if dtype in (None, x.dtype) else x.astype(dtype)


def _pair(value: Pair) -> tuple[int, int]:
    first, second = (value, value) if isinstance(value, int) else value
    return first, second


def _check_channels(data: te.Tensor, channels: int, filters: te.Tensor, wanted: int) -> None:
    if channels != wanted:
        raise ComputeError(f"conv2d: {data!r} has {channels} channels, {filters!r} takes {wanted}")
