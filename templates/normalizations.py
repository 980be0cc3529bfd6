"""Softmax and normalizations of the rows of a matrix, by the schedule of `rows`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pegbox as pb
from pegbox import te
from pegbox.errors import TemplateError
from pegbox.expr import is_float, nbytes
from pegbox.templates import rows
from pegbox.templates.array_size import check_array_sizes
from pegbox.templates.row_stages import rows_of

_Made = tuple[te.TESchedule, list[te.Tensor]]


@pb.template("softmax")
def softmax(cfg: pb.TemplateConfig, n: int, m: int, dtype: str = "float32") -> _Made:
    """Compute exp(X - max) / sum(exp(X - max)) for each row of X[n, m].

    The sum is inverted once for each row. Types of 16 bits are computed in float32.

    Raises:
        TemplateError: sizes or the type are not supported.
    """
    x, wide = _input("softmax", n, m, dtype)
    _, power, total = _powers(wide)
    inverse = te.compute((n,), lambda i: 1 / total[i], name="inverse")
    return _made(cfg, [x], dtype, lambda i, j: power[i, j] * inverse[i], name="softmax")


@pb.template("log_softmax")
def log_softmax(cfg: pb.TemplateConfig, n: int, m: int, dtype: str = "float32") -> _Made:
    """Compute X - max - log(sum(exp(X - max))) for each row of X[n, m]. Types and errors are those of softmax."""
    x, wide = _input("log_softmax", n, m, dtype)
    low, _, total = _powers(wide)
    shift = te.compute((n,), lambda i: te.log(total[i]), name="shift")
    return _made(cfg, [x], dtype, lambda i, j: low[i, j] - shift[i], name="log_softmax")


@pb.template("layer_norm")
def layer_norm(cfg: pb.TemplateConfig, n: int, m: int, epsilon: float = 1e-5, dtype: str = "float32") -> _Made:
    """Compute (X - mean) / sqrt(variance + epsilon) * gamma + beta for each row of X[n, m] (Ba et al., 2016).

    Types and errors are those of softmax.
    """
    x, wide = _input("layer_norm", n, m, dtype)
    gamma, beta = (te.placeholder((m,), name=name, dtype=dtype) for name in ("gamma", "beta"))
    k1, k2 = (te.reduce_axis((0, m), name=name) for name in ("k1", "k2"))
    share, eps = te.const(1 / m, wide.dtype), te.const(epsilon, wide.dtype)
    total = te.compute((n,), lambda i: te.sum(wide[i, k1], axis=k1), name="total")
    mean = te.compute((n,), lambda i: total[i] * share, name="mean")
    off = te.compute((n, m), lambda i, j: wide[i, j] - mean[i], name="off")
    squares = te.compute((n,), lambda i: te.sum(off[i, k2] * off[i, k2], axis=k2), name="squares")
    scale = te.compute((n,), lambda i: te.rsqrt(squares[i] * share + eps), name="scale")

    def element(i: te.Expr, j: te.Expr) -> Any:
        return off[i, j] * scale[i] * te.cast(wide.dtype, gamma[j]) + te.cast(wide.dtype, beta[j])

    return _made(cfg, [x, gamma, beta], dtype, element, name="layer_norm")


@pb.template("rms_norm")
def rms_norm(cfg: pb.TemplateConfig, n: int, m: int, epsilon: float = 1e-5, dtype: str = "float32") -> _Made:
    """Compute X / sqrt(mean of squares + epsilon) * gamma for each row of X[n, m] (Zhang and Sennrich, 2019).

    Types and errors are those of softmax.
    """
    x, wide = _input("rms_norm", n, m, dtype)
    gamma, k = te.placeholder((m,), name="gamma", dtype=dtype), te.reduce_axis((0, m), name="k")
    share, eps = te.const(1 / m, wide.dtype), te.const(epsilon, wide.dtype)
    squares = te.compute((n,), lambda i: te.sum(wide[i, k] * wide[i, k], axis=k), name="squares")
    scale = te.compute((n,), lambda i: te.rsqrt(squares[i] * share + eps), name="scale")

    def element(i: te.Expr, j: te.Expr) -> Any:
        return wide[i, j] * scale[i] * te.cast(wide.dtype, gamma[j])

    return _made(cfg, [x, gamma], dtype, element, name="rms_norm")


def _input(name: str, n: int, m: int, dtype: str) -> tuple[te.Tensor, te.Tensor]:
    """Make the input, and its conversion to the type of the computation.

    Raises:
        TemplateError: an argument is outside its domain.
    """
    for letter, size in ("n", n), ("m", m):
        if type(size) is not int or size < 1:
            raise TemplateError(f"{name}: {letter}={size!r} is not a size; give a whole number from 1 on")
    if not is_float(dtype):
        raise TemplateError(f"{name}: dtype={dtype!r}; give a type of floats")
    check_array_sizes(name, [(n, m)], dtype)
    x = te.placeholder((n, m), name="X", dtype=dtype)
    if nbytes(dtype) >= nbytes("float32"):
        return x, x
    return x, te.compute((n, m), lambda i, j: te.cast("float32", x[i, j]), name="wide")


def _powers(x: te.Tensor) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """Compute the elements of rows minus their maxima, their exponentials, and the sums of the exponentials."""
    n, m = x.shape
    k1, k2 = (te.reduce_axis((0, m), name=name) for name in ("k1", "k2"))
    top = te.compute((n,), lambda i: te.max(x[i, k1], axis=k1), name="top")
    low = te.compute((n, m), lambda i, j: x[i, j] - top[i], name="low")
    power = te.compute((n, m), lambda i, j: te.exp(te.nonpositive(low[i, j])), name="power")
    return low, power, te.compute((n,), lambda i: te.sum(power[i, k2], axis=k2), name="total")


def _made(
    cfg: pb.TemplateConfig, inputs: list[te.Tensor], dtype: str, element: Callable[..., te.Expr], *, name: str
) -> _Made:
    """Schedule the output."""
    out = te.compute(inputs[0].shape, lambda i, j: te.cast(dtype, element(i, j)), name=name)
    found = rows_of([*inputs, out])
    rows.declare(cfg, found)
    return rows.schedule(cfg, found), [*inputs, out]
