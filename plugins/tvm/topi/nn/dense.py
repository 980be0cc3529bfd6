"""Products with weights, biases, and what leads up to them."""

from __future__ import annotations

from math import prod

from pegbox import te
from pegbox.errors import ComputeError
from pegbox.plugins.tvm.topi.transform import reshape


def dense(data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None) -> te.Tensor:
    """data[n, k] · weight[o, k]ᵀ + bias[o]"""
    return matmul(data, weight, bias, out_dtype, transpose_b=True)


def matmul(
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    bias: te.Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> te.Tensor:
    """A · B + bias of two matrices, each transposed first where it is said so"""
    product = _product(tensor_a, tensor_b, out_dtype, transpose_a, transpose_b, "T_dense")
    return product if bias is None else bias_add(product, bias, axis=-1)


def batch_matmul(
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    oshape: object = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> te.Tensor:
    """A[b, m, k] · B[b, n, k]ᵀ for each b; a batch of 1 goes with any."""
    return _product(tensor_a, tensor_b, out_dtype, transpose_a, transpose_b, "T_batch_matmul_NT")


def _product(a: te.Tensor, b: te.Tensor, out_dtype: str | None, turn_a: bool, turn_b: bool, name: str) -> te.Tensor:
    dtype = out_dtype or a.dtype
    rows, depth = a.shape[-2:][::-1] if turn_a else a.shape[-2:]
    other, columns = b.shape[-2:][::-1] if turn_b else b.shape[-2:]
    if depth != other:
        raise ComputeError(f"{name}: {a!r} and {b!r} are summed over {depth} and over {other} elements")
    batch = (max(a.shape[0], b.shape[0]),) if a.ndim == 3 else ()
    k = te.reduce_axis((0, depth), name="k")

    def term(*at: te.Expr) -> te.Expr:
        *lead, i, j = at
        of_a, of_b = ([0 if t.shape[0] == 1 else x for x in lead] for t in (a, b))
        left = a(*of_a, *((k, i) if turn_a else (i, k)))
        right = b(*of_b, *((j, k) if turn_b else (k, j)))
        return te.sum(te.cast(dtype, left) * te.cast(dtype, right), axis=k)

    made = te.compute((*batch, rows, columns), term, name=name, tag="batch_matmul" if batch else "dense")
    return made


def bias_add(data: te.Tensor, bias: te.Tensor, axis: int = 1) -> te.Tensor:
    """A number for each place along an axis is added."""
    made = te.compute(data.shape, lambda *i: data(*i) + bias(i[axis]), name="T_bias_add", tag="broadcast")
    return made


def flatten(data: te.Tensor) -> te.Tensor:
    """The first axis, and all others as one."""
    return reshape(data, (data.shape[0], prod(data.shape[1:])))
