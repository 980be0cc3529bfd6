"""Activations, and softmax along an axis."""

from __future__ import annotations

from pegbox import te
from pegbox.compute.elementwise import elementwise
from pegbox.plugins.tvm.topi import math, reduction


def relu(x: te.Tensor) -> te.Tensor:
    """max(x, 0)"""
    return elementwise(te.relu, x, name="T_relu")


def leaky_relu(x: te.Tensor, alpha: float) -> te.Tensor:
    """x where it is positive, elsewhere x * alpha"""
    slope, zero = te.const(alpha, x.dtype), te.const(0, x.dtype)
    return elementwise(lambda v: te.if_then_else(v > zero, v, v * slope), x, name="T_leaky_relu")


def prelu(x: te.Tensor, slope: te.Tensor, axis: int = 1) -> te.Tensor:
    """x where it is positive, elsewhere x times the slope of its place along the axis"""
    zero = te.const(0, x.dtype)
    made = te.compute(
        x.shape,
        lambda *i: te.if_then_else(x(*i) > zero, x(*i), x(*i) * slope(i[axis])),
        name="T_prelu",
        tag="broadcast",
    )
    return made


def softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """exp(x - max) / sum(exp(x - max)) along an axis"""
    power = math.exp(x - reduction.max(x, axis, keepdims=True))
    return power / reduction.sum(power, axis, keepdims=True)


def log_softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """log(softmax(x)) along an axis"""
    off = x - reduction.max(x, axis, keepdims=True)
    return off - math.log(reduction.sum(math.exp(off), axis, keepdims=True))
