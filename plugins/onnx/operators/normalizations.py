"""Normalizations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pegbox import te
from pegbox.compute import elementwise, padded, reshaped
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.casts import in_float32
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.reductions import reduced
from pegbox.plugins.onnx.operators.shapes import axis_of


def _moments(x: te.Tensor, axes: Sequence[int]) -> tuple[te.Tensor, te.Tensor]:
    """Compute the mean of the elements along axes, and the mean of their squared deviations."""
    share = 1 / math.prod(x.shape[axis] for axis in axes)
    mean = elementwise(lambda e: e * share, reduced(x, axes, te.sum, name="total"), name="mean")
    apart = elementwise(lambda e, m: (e - m) * (e - m), x, mean, name="apart")
    return mean, elementwise(lambda e: e * share, reduced(apart, axes, te.sum, name="squares"), name="variance")


def _inverse(variance: te.Tensor, epsilon: float) -> te.Tensor:
    return elementwise(lambda v: 1 / te.sqrt(v + epsilon), variance, name="inverse")


@operator("LayerNormalization")
@in_float32
def layer_normalization(node: OperatorNode, x: te.Tensor, scale: te.Tensor, bias: te.Tensor | None = None) -> Any:
    axis = axis_of(node, node.get("axis", -1), x.ndim)
    mean, variance = _moments(x, list(range(axis, x.ndim)))
    inverse = _inverse(variance, node.get("epsilon", 1e-5))
    terms = [x, mean, inverse, scale, *([bias] if bias is not None else [])]
    made = elementwise(lambda e, m, i, s, *b: (e - m) * i * s + (b[0] if b else 0), *terms, name="LayerNormalization")
    return made if node.outputs == 1 else [made, mean, inverse]


@operator("RMSNormalization")
@in_float32
def rms_normalization(node: OperatorNode, x: te.Tensor, scale: te.Tensor) -> te.Tensor:
    axes = list(range(axis_of(node, node.get("axis", -1), x.ndim), x.ndim))
    share = 1 / math.prod(x.shape[axis] for axis in axes)
    squares = reduced(x, axes, te.sum, map_=lambda e: e * e, name="squares")
    inverse = _inverse(elementwise(lambda e: e * share, squares, name="mean"), node.get("epsilon", 1e-5))
    return elementwise(lambda e, i, s: e * i * s, x, inverse, scale, name="RMSNormalization")


@operator("BatchNormalization")
@in_float32
def batch_normalization(
    node: OperatorNode, x: te.Tensor, scale: te.Tensor, bias: te.Tensor, mean: te.Tensor, variance: te.Tensor
) -> te.Tensor:
    if node.get("training_mode", 0):
        raise node.refuse("training mode")
    epsilon = node.get("epsilon", 1e-5)

    def element(*at: Any) -> Any:
        c = at[1]
        return (x(*at) - mean(c)) / te.sqrt(variance(c) + epsilon) * scale(c) + bias(c)

    return computed(x.shape, element, name="BatchNormalization")


@operator("InstanceNormalization")
@in_float32
def instance_normalization(node: OperatorNode, x: te.Tensor, scale: te.Tensor, bias: te.Tensor) -> te.Tensor:
    mean, variance = _moments(x, list(range(2, x.ndim)))
    inverse, zeros = _inverse(variance, node.get("epsilon", 1e-5)), [0] * (x.ndim - 2)

    def element(n: Any, c: Any, *at: Any) -> Any:
        return (x(n, c, *at) - mean(n, c, *zeros)) * inverse(n, c, *zeros) * scale(c) + bias(c)

    return computed(x.shape, element, name="InstanceNormalization")


@operator("GroupNormalization")
@in_float32
def group_normalization(node: OperatorNode, x: te.Tensor, scale: te.Tensor, bias: te.Tensor) -> te.Tensor:
    n, c, *spatial = x.shape
    groups = node.get("num_groups")
    size = c // groups
    parts = reshaped(x, (n, groups, size, *spatial), name="groups")
    mean, variance = _moments(parts, list(range(2, parts.ndim)))
    inverse, zeros = _inverse(variance, node.get("epsilon", 1e-5)), [0] * (x.ndim - 1)

    def element(i: Any, c: Any, *at: Any) -> Any:
        group = te.floordiv(c, size)
        place = c if scale.shape[0] != groups or groups == x.shape[1] else group  # one of each group before opset 21
        return (x(i, c, *at) - mean(i, group, *zeros)) * inverse(i, group, *zeros) * scale(place) + bias(place)

    return computed(x.shape, element, name="GroupNormalization")


@operator("MeanVarianceNormalization")
@in_float32
def mean_variance_normalization(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    mean, variance = _moments(x, [axis_of(node, axis, x.ndim) for axis in node.get("axes", [0, 2, 3])])
    return elementwise(
        lambda e, m, v: (e - m) / (te.sqrt(v) + 1e-9), x, mean, variance, name="MeanVarianceNormalization"
    )


@operator("LpNormalization")
def lp_normalization(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    axis, p = axis_of(node, node.get("axis", -1), x.ndim), node.get("p", 2)
    total = reduced(x, [axis], te.sum, map_=te.abs if p == 1 else lambda e: e * e, name="norm")

    def element(e: Any, t: Any) -> Any:
        norm = t if p == 1 else te.sqrt(t)
        return te.if_then_else(norm.equal(0), te.const(0, e.dtype), e / norm)

    return elementwise(element, x, total, name="LpNormalization")


@operator("LRN")
def lrn(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    size, alpha, beta, bias = node.get("size"), node.get("alpha", 1e-4), node.get("beta", 0.75), node.get("bias", 1.0)
    k = te.reduce_axis((0, size), name="k")
    rest = [0] * (x.ndim - 2)
    around = padded(x, (0, (size - 1) // 2, *rest), (0, size // 2, *rest))
    squares = computed(
        x.shape, lambda n, c, *at: te.sum(around(n, c + k, *at) * around(n, c + k, *at), axis=k), name="squares"
    )
    return elementwise(lambda e, s: e / te.pow(bias + alpha / size * s, beta), x, squares, name="LRN")
