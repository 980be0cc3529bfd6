"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pegbox import te
from pegbox.errors import ComputeError
from pegbox.plugins.tvm.topi import math, reduction
from pegbox.plugins.tvm.topi.transform import reshape


def scale_shift_nchw(Input: te.Tensor, Scale: te.Tensor, Shift: te.Tensor) -> te.Tensor:
    """Input[n, c, y, x] * Scale[c] + Shift[c]"""
    return _along(Input, Scale, 1) + _as_axis(Shift, 1, 4)


def scale_shift_nhwc(Input: te.Tensor, Scale: te.Tensor, Shift: te.Tensor) -> te.Tensor:
    """Input[n, y, x, c] * Scale[c] + Shift[c]"""
    return _along(Input, Scale, 3) + _as_axis(Shift, 3, 4)


def batch_norm(
    data: te.Tensor,
    gamma: te.Tensor,
    beta: te.Tensor,
    moving_mean: te.Tensor,
    moving_var: te.Tensor,
    axis: int | None = None,
    epsilon: float | None = None,
    center: bool | None = None,
    scale: bool | None = None,
    training: bool | None = None,
    momentum: float | None = None,
) -> list[te.Tensor]:
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta along an axis (1), at inference; and the two moments.

    Raises:
        ComputeError: `training` is asked for.
    """
    if training:
        raise ComputeError("batch_norm(training=True): only inference is here; give the moments, or compute them")
    place, rank = 1 if axis is None else axis, data.ndim
    spread = math.sqrt(_as_axis(moving_var, place, rank) + (1e-5 if epsilon is None else epsilon))
    out = (data - _as_axis(moving_mean, place, rank)) / spread
    out = out if scale is False else _along(out, gamma, place)
    out = out if center is False else out + _as_axis(beta, place, rank)
    return [out, moving_mean, moving_var]


def layer_norm(
    data: te.Tensor, gamma: te.Tensor, beta: te.Tensor | None, axis: int | Sequence[int], epsilon: float = 1e-5
) -> te.Tensor:
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta over some axes, the last ones"""
    off = data - reduction.mean(data, axis, keepdims=True)
    variance: Any = reduction.mean(off * off, axis, keepdims=True)
    out = off * math.rsqrt(variance + epsilon) * gamma
    return out if beta is None else out + beta


def _along(data: te.Tensor, factor: te.Tensor, axis: int) -> te.Tensor:
    return data * _as_axis(factor, axis, data.ndim)


def _as_axis(values: te.Tensor, axis: int, rank: int) -> te.Tensor:
    """A vector as the tensor of that rank that has it along an axis."""
    return reshape(values, [values.shape[0] if d == axis % rank else 1 for d in range(rank)])
