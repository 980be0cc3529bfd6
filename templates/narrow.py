"""Matrix products with a narrow result, down to matrix × vector: dot products of the rows of A with the columns of B.

Columns are too few to fill vectors, so the reduction does: lanes run along k, and each element of the result sums the
lanes of its accumulator once, at the end. B is transposed first, which is little work and makes its columns contiguous.
"""

from __future__ import annotations

from typing import Any

from pegbox import te
from pegbox.compute.tensor import Tensor
from pegbox.expr.dtypes import nbytes

_COLUMNS = 8  # up to which the reduction fills vectors better than the columns do
_VECTOR_BYTES = 64
_REGISTERS = 24


def fits(k: int, n: int, dtype: str) -> bool:
    """Is a product with a (k × n) matrix narrow, and its reduction long enough for vectors?"""
    return n <= _COLUMNS and k >= 4 * _VECTOR_BYTES // nbytes(dtype)


def declare(cfg: Any, m: int, k: int, n: int, dtype: str) -> None:
    """The knobs: rows at a time, vectors along k at a time, and how often that is written out."""
    cfg.define_knob("rows", [r for r in (1, 2, 3, 4, 6, 8, 12) if r <= m])
    cfg.define_knob("vectors", [1, 2, 4])
    cfg.define_knob("unroll_k", [1, 2, 4])
    cfg.add_constraint(
        lambda c: c["rows"].val * n * c["vectors"].val <= _REGISTERS or c["rows"].val == c["vectors"].val == 1,
        reads=("rows", "vectors"),
        message=f"rows × columns × vectors take at most {_REGISTERS} registers",
    )


def product(cfg: Any, a: Tensor, b: Tensor) -> tuple[Any, list[Tensor]]:
    """Compute and schedule C = A · B over the leading axes, as the configuration says."""
    *lead, m, k = a.shape
    n, dtype = b.shape[-1], b.dtype
    columns = te.compute((*lead, n, k), lambda *at: b(*at[:-2], at[-1], at[-2]), name="B_columns") if n > 1 else None
    kk = te.reduce_axis((0, k), name="k")

    def element(*at: Any) -> Any:
        *batch, i, j = at
        right = b(*batch, kk, j) if columns is None else columns(*batch, j, kk)
        return te.sum(a(*batch, i, kk) * right, axis=kk)

    c = te.compute((*lead, m, n), element, name="C")
    s = te.create_schedule(c.op)
    *outer, y, x = s[c].op.axis
    yo, yi = s[c].split(y, factor=cfg["rows"].val)
    kv, lanes = s[c].split(kk, factor=cfg["vectors"].val * (_VECTOR_BYTES // nbytes(dtype)))
    ko, ki = s[c].split(kv, factor=cfg["unroll_k"].val)
    s[c].reorder(*outer, yo, ko, ki, yi, x, lanes)
    s[c].vectorize(lanes)
    for loop in (ki, yi, x):
        s[c].unroll(loop)
    s[c].parallel(outer[0] if lead and lead[0] > 1 else yo)
    return s, [a, b, c]
