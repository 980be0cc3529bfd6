"""Workloads: matrix products, alone and with bias, activation or attention."""

from __future__ import annotations

import math
from collections.abc import Callable

import pegbox as pb
from pegbox import te


def _product(a: te.Tensor, b: te.Tensor, name: str, accumulate: str | None = None) -> te.Tensor:
    """Compute A · B over the leading axes, summed in another type if one is given."""
    *lead, m, depth = a.shape
    k = te.reduce_axis((0, depth), name=f"{name}_k")
    dtype = accumulate or a.dtype

    def term(*at: te.Expr) -> te.Expr:
        *batch, i, j = at
        return te.sum(te.cast(dtype, a(*batch, i, k)) * te.cast(dtype, b(*batch, k, j)), axis=k)

    return te.compute((*lead, m, b.shape[-1]), term, name=name)


def _map(x: te.Tensor, value: Callable[..., te.Expr], name: str) -> te.Tensor:
    """Make another tensor of the same shape: `value(element, *indices)`."""
    return te.compute(x.shape, lambda *at: value(x(*at), *at), name=name)


@pb.workload("matmul")
def matmul(n: int, k: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    """C[n, m] = A[n, k] · B[k, m]"""
    a = te.placeholder((n, k), name="A", dtype=dtype)
    b = te.placeholder((k, m), name="B", dtype=dtype)
    return [a, b, _product(a, b, "C")]


@pb.workload("matmul_bias_relu")
def matmul_bias_relu(n: int, k: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    """max(A[n, k] · B[k, m] + bias[m], 0)"""
    a, b, c = matmul.tensors(n, k, m, dtype)
    bias = te.placeholder((m,), name="bias", dtype=dtype)
    zero = te.const(0, dtype)
    return [a, b, bias, _map(c, lambda x, i, j: te.maximum(x + bias[j], zero), "relu")]


@pb.workload("matmul_bias_gelu")
def matmul_bias_gelu(n: int, k: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    """gelu(A[n, k] · B[k, m] + bias[m]), with the hyperbolic tangent (Hendrycks and Gimpel, 2016)"""
    a, b, c = matmul.tensors(n, k, m, dtype)
    bias = te.placeholder((m,), name="bias", dtype=dtype)
    biased = _map(c, lambda x, i, j: x + bias[j], "biased")
    factor = te.const(math.sqrt(2 / math.pi), dtype)
    cubic, half, one = te.const(0.044715, dtype), te.const(0.5, dtype), te.const(1, dtype)

    def gelu(x: te.Expr, *_: te.Expr) -> te.Expr:
        return half * x * (one + te.tanh(factor * (x + cubic * x * x * x)))

    return [a, b, bias, _map(biased, gelu, "gelu")]


@pb.workload("matmul_chain")
def matmul_chain(n: int, k: int, m: int, p: int, dtype: str = "float32") -> list[te.Tensor]:
    """(A[n, k] · B[k, m]) · D[m, p]"""
    a, b, c = matmul.tensors(n, k, m, dtype)
    d = te.placeholder((m, p), name="D", dtype=dtype)
    return [a, b, d, _product(c, d, "E")]


@pb.workload("batch_matmul")
def batch_matmul(batch: int, n: int, k: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    """C[b, n, m] = A[b, n, k] · B[b, k, m]"""
    a = te.placeholder((batch, n, k), name="A", dtype=dtype)
    b = te.placeholder((batch, k, m), name="B", dtype=dtype)
    return [a, b, _product(a, b, "C")]


@pb.workload("matmul_transposed")
def matmul_transposed(n: int, k: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    """C[n, m] = A[k, n]ᵀ · B[m, k]ᵀ"""
    a = te.placeholder((k, n), name="A", dtype=dtype)
    b = te.placeholder((m, k), name="B", dtype=dtype)
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[r, i] * b[j, r], axis=r), name="C")
    return [a, b, c]


@pb.workload("matmul_int8")
def matmul_int8(n: int, k: int, m: int) -> list[te.Tensor]:
    """C[n, m] = A[n, k] · B[k, m] of int8, summed in int32"""
    a = te.placeholder((n, k), name="A", dtype="int8")
    b = te.placeholder((k, m), name="B", dtype="int8")
    return [a, b, _product(a, b, "C", "int32")]


@pb.workload("attention")
def attention(batch: int, n: int, d: int, dtype: str = "float32") -> list[te.Tensor]:
    """softmax(Q · Kᵀ / sqrt(d)) · V of [batch, n, d] each (Vaswani et al., 2017)"""
    q, k, v = (te.placeholder((batch, n, d), name=name, dtype=dtype) for name in "QKV")
    r, scale = te.reduce_axis((0, d), name="r"), te.const(1 / math.sqrt(d), dtype)
    s = te.compute((batch, n, n), lambda b, i, j: te.sum(q[b, i, r] * k[b, j, r], axis=r), name="S")
    scaled = _map(s, lambda x, *_: x * scale, "scaled")
    j1, j2 = (te.reduce_axis((0, n), name=name) for name in ("j1", "j2"))
    top = te.compute((batch, n), lambda b, i: te.max(scaled[b, i, j1], axis=j1), name="top")
    weight = _map(scaled, lambda x, b, i, j: te.exp(x - top[b, i]), "weight")
    total = te.compute((batch, n), lambda b, i: te.sum(weight[b, i, j2], axis=j2), name="total")
    share = _map(weight, lambda x, b, i, j: x / total[b, i], "share")
    return [q, k, v, _product(share, v, "O")]
