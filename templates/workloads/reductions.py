"""Workloads: reductions, normalizations and elementwise chains."""

from __future__ import annotations

import pegbox as pb
from pegbox import te


@pb.workload("row_sum")
def row_sum(n: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    """The sum of each row of X[n, m]"""
    x, k = te.placeholder((n, m), name="X", dtype=dtype), te.reduce_axis((0, m), name="k")
    return [x, te.compute((n,), lambda i: te.sum(x[i, k], axis=k), name="S")]


@pb.workload("row_min")
def row_min(n: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    """The smallest value of each row of X[n, m]"""
    x, k = te.placeholder((n, m), name="X", dtype=dtype), te.reduce_axis((0, m), name="k")
    return [x, te.compute((n,), lambda i: te.min(x[i, k], axis=k), name="M")]


@pb.workload("row_argmax")
def row_argmax(n: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    """The place and the value of the largest element of each row of X[n, m]: two outputs"""
    x, k = te.placeholder((n, m), name="X", dtype=dtype), te.reduce_axis((0, m), name="k")
    argmax = te.comm_reducer(
        lambda a, b: (
            te.if_then_else(te.any(a[1] > b[1], te.all(a[1] == b[1], a[0] < b[0])), a[0], b[0]),
            te.maximum(a[1], b[1]),
        ),
        lambda index, value: (te.max_value(index), te.min_value(value)),
        name="argmax",
    )

    def largest(i: te.Expr) -> tuple[te.Expr, ...]:
        found = argmax((te.cast("int32", k), x[i, k]), axis=k)
        assert isinstance(found, tuple)  # as many values as are reduced
        return found

    return [x, *te.compute((n,), largest, name="A")]


@pb.workload("norm")
def norm(n: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    """The Euclidean norm of all of X[n, m]: an output without axes"""
    x = te.placeholder((n, m), name="X", dtype=dtype)
    i, j = te.reduce_axis((0, n), name="i"), te.reduce_axis((0, m), name="j")
    squares = te.compute((), lambda: te.sum(x[i, j] * x[i, j], axis=[i, j]), name="squares")
    return [x, te.compute((), lambda: te.sqrt(squares()), name="norm")]


@pb.workload("softmax")
def softmax(n: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    """exp(X - max) / sum(exp(X - max)) for each row of X[n, m]"""
    x = te.placeholder((n, m), name="X", dtype=dtype)
    k1, k2 = te.reduce_axis((0, m), name="k1"), te.reduce_axis((0, m), name="k2")
    top = te.compute((n,), lambda i: te.max(x[i, k1], axis=k1), name="top")
    power = te.compute((n, m), lambda i, j: te.exp(x[i, j] - top[i]), name="power")
    total = te.compute((n,), lambda i: te.sum(power[i, k2], axis=k2), name="total")
    return [x, te.compute((n, m), lambda i, j: power[i, j] / total[i], name="softmax")]


@pb.workload("layer_norm")
def layer_norm(n: int, m: int, epsilon: float = 1e-5, dtype: str = "float32") -> list[te.Tensor]:
    """(X - mean) / sqrt(variance + epsilon) * gamma + beta for each row of X[n, m] (Ba et al., 2016)"""
    x = te.placeholder((n, m), name="X", dtype=dtype)
    gamma, beta = te.placeholder((m,), name="gamma", dtype=dtype), te.placeholder((m,), name="beta", dtype=dtype)
    k1, k2 = te.reduce_axis((0, m), name="k1"), te.reduce_axis((0, m), name="k2")
    share, eps = te.const(1 / m, dtype), te.const(epsilon, dtype)
    total = te.compute((n,), lambda i: te.sum(x[i, k1], axis=k1), name="total")
    mean = te.compute((n,), lambda i: total[i] * share, name="mean")
    off = te.compute((n, m), lambda i, j: x[i, j] - mean[i], name="off")
    squares = te.compute((n,), lambda i: te.sum(off[i, k2] * off[i, k2], axis=k2), name="squares")
    scale = te.compute((n,), lambda i: te.rsqrt(squares[i] * share + eps), name="scale")
    out = te.compute((n, m), lambda i, j: off[i, j] * scale[i] * gamma[j] + beta[j], name="layer_norm")
    return [x, gamma, beta, out]


@pb.workload("elementwise_chain")
def elementwise_chain(n: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    """sigmoid(X * 2 + Y) * X, in four steps"""
    x, y = te.placeholder((n, m), name="X", dtype=dtype), te.placeholder((n, m), name="Y", dtype=dtype)
    twice = te.compute((n, m), lambda i, j: x[i, j] * te.const(2, dtype), name="twice")
    both = te.compute((n, m), lambda i, j: twice[i, j] + y[i, j], name="both")
    gate = te.compute((n, m), lambda i, j: te.sigmoid(both[i, j]), name="gate")
    return [x, y, te.compute((n, m), lambda i, j: gate[i, j] * x[i, j], name="gated")]


@pb.workload("sum_and_max")
def sum_and_max(n: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    """The sum and the largest value of each row of X[n, m]: two operations, two outputs"""
    x = te.placeholder((n, m), name="X", dtype=dtype)
    k1, k2 = te.reduce_axis((0, m), name="k1"), te.reduce_axis((0, m), name="k2")
    total = te.compute((n,), lambda i: te.sum(x[i, k1], axis=k1), name="total")
    return [x, total, te.compute((n,), lambda i: te.max(x[i, k2], axis=k2), name="top")]
