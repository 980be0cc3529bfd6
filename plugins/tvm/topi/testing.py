"""`topi.testing`: what operators give, by NumPy, to compare kernels with.

Each takes and gives arrays. `padding` is as in `topi.nn`: a number, "SAME", "VALID", two or four numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from pegbox.plugins.tvm.topi.nn.border import get_pad_tuple, pair

Array: TypeAlias = "np.ndarray[Any, Any]"
_Pair: TypeAlias = "int | Sequence[int]"
_Padding: TypeAlias = "int | str | Sequence[int]"


def conv2d_nchw_python(a_np: Array, w_np: Array, stride: _Pair, padding: _Padding, groups: int = 1) -> Array:
    """Convolution of images (N, C, H, W) with filters (O, C / groups, h, w)."""
    tiles = _windows(a_np, w_np.shape[2:], stride, padding)
    n, c, y, x, h, w = tiles.shape
    apart = tiles.reshape(n, groups, c // groups, y, x, h, w)
    filters = w_np.reshape(groups, -1, *w_np.shape[1:])
    return np.asarray(np.einsum("ngcyxhw,gochw->ngoyx", apart, filters, optimize=True).reshape(n, -1, y, x))


def conv2d_nhwc_python(a_np: Array, w_np: Array, stride: _Pair, padding: _Padding, groups: int = 1) -> Array:
    """Convolution of images (N, H, W, C) with filters (h, w, C / groups, O)."""
    images, filters = a_np.transpose(0, 3, 1, 2), w_np.transpose(3, 2, 0, 1)
    return np.asarray(conv2d_nchw_python(images, filters, stride, padding, groups).transpose(0, 2, 3, 1))


def conv2d_hwcn_python(a_np: Array, w_np: Array, stride: _Pair, padding: _Padding) -> Array:
    """Convolution of images (H, W, C, N) with filters (h, w, C, O)."""
    images, filters = a_np.transpose(3, 2, 0, 1), w_np.transpose(3, 2, 0, 1)
    return np.asarray(conv2d_nchw_python(images, filters, stride, padding).transpose(2, 3, 1, 0))


def depthwise_conv2d_python_nchw(input_np: Array, filter_np: Array, stride: _Pair, padding: _Padding) -> Array:
    """Images (N, C, H, W), each channel with the filters (C, M, h, w) of its own."""
    tiles = _windows(input_np, filter_np.shape[2:], stride, padding)
    n, _, y, x = tiles.shape[:4]
    return np.asarray(np.einsum("ncyxhw,cmhw->ncmyx", tiles, filter_np, optimize=True).reshape(n, -1, y, x))


def depthwise_conv2d_python_nhwc(input_np: Array, filter_np: Array, stride: _Pair, padding: _Padding) -> Array:
    """Images (N, H, W, C), each channel with the filters (h, w, C, M) of its own."""
    images, filters = input_np.transpose(0, 3, 1, 2), filter_np.transpose(2, 3, 0, 1)
    return np.asarray(depthwise_conv2d_python_nchw(images, filters, stride, padding).transpose(0, 2, 3, 1))


def dilate_python(input_np: Array, strides: Sequence[int], dilation_value: float = 0.0) -> Array:
    """The array with `strides - 1` times the value between neighbours."""
    shape = [(extent - 1) * step + 1 for extent, step in zip(input_np.shape, strides, strict=True)]
    wide = np.full(shape, dilation_value, input_np.dtype)
    wide[tuple(slice(None, None, step) for step in strides)] = input_np
    return wide


def dense(
    x: Array, y: Array, bias: Array | None = None, use_bias: bool = False, use_relu: bool = False, out_dtype: Any = None
) -> Array:
    """The product of (M, K) and (N, K), with a bias and ReLU where they are asked for."""
    product = x.astype(out_dtype or x.dtype) @ y.astype(out_dtype or y.dtype).T
    if use_bias and bias is not None:
        product = product + bias
    return np.asarray(np.maximum(product, 0) if use_relu else product)


def matmul(x: Array, y: Array, bias: Array | None = None, out_dtype: Any = None, trans_x: bool = False,
           trans_y: bool = False) -> Array:  # fmt: skip
    """The product of two matrices, each transposed where that is asked for, with a bias."""
    left, right = (x.T if trans_x else x), (y.T if trans_y else y)
    product = left.astype(out_dtype or x.dtype) @ right.astype(out_dtype or y.dtype)
    return np.asarray(product if bias is None else product + bias)


def batch_matmul(x: Array, y: Array, out_dtype: Any = None, trans_x: bool = False, trans_y: bool = True) -> Array:
    """The products of matrices (B, M, K) and (B, N, K); a batch of one stands for any."""
    left, right = (x.swapaxes(1, 2) if trans_x else x), (y.swapaxes(1, 2) if trans_y else y)
    return np.asarray(np.matmul(left.astype(out_dtype or x.dtype), right.astype(out_dtype or y.dtype)))


def softmax_python(a_np: Array, axis: int = 1) -> Array:
    """Softmax along an axis."""
    powers = np.exp(a_np - a_np.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def log_softmax_python(a_np: Array, axis: int = 1) -> Array:
    """The logarithm of softmax along an axis."""
    away = a_np - a_np.max(axis=axis, keepdims=True)
    return np.asarray(away - np.log(np.exp(away).sum(axis=axis, keepdims=True)))


def _windows(images: Array, window: Sequence[int], stride: _Pair, padding: _Padding) -> Array:
    """What each output of images (N, C, H, W) sees: (N, C, output H, output W, h, w)."""
    top, left, bottom, right = get_pad_tuple(padding, window)
    padded = np.pad(images, ((0, 0), (0, 0), (top, bottom), (left, right)))
    down, across = pair(stride)
    return np.lib.stride_tricks.sliding_window_view(padded, tuple(window), axis=(2, 3))[:, :, ::down, ::across]
