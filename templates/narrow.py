"""Matrix products with a narrow result, down to matrix × vector: dot products of the rows of A with the columns of B.

Columns are too few to fill vectors, so the reduction does: lanes run along k, and each element of the result sums the
lanes of its accumulator once, at the end. B is transposed first, which is little work and makes its columns contiguous.
"""

from __future__ import annotations

from typing import Any

from pegbox import te
from pegbox.compute.tensor import Tensor
from pegbox.templates.product import Product
from pegbox.templates.register_tile import fits


def declare(cfg: Any, p: Product) -> None:
    """The knobs: rows at a time, vectors along k at a time, and how often that is written out."""
    cfg.define_knob("rows", [r for r in (1, 2, 3, 4, 6, 8, 12) if r <= p.m])
    cfg.define_knob("vectors", [v for v in (1, 2, 4, 8) if v * p.lanes <= p.k])
    cfg.define_knob("unroll_k", [1, 2, 4])
    cfg.add_constraint(
        lambda c: fits(p.target, c["rows"].val * c["vectors"].val, p.n) or c["rows"].val == c["vectors"].val == 1,
        reads=("rows", "vectors"),
        message=f"rows × columns × vectors take at most {p.target.vector_registers} registers",
    )


def product(cfg: Any, p: Product, a: Tensor, b: Tensor) -> tuple[Any, list[Tensor]]:
    """Compute and schedule C = A · B, as the configuration says; `b` as the product says that it is given."""
    lead, m, n, k = p.lead, p.m, p.n, p.k
    columns = b if p.packed else None
    if n > 1 and columns is None:
        columns = te.compute((*lead, n, k), lambda *at: b(*at[:-2], at[-1], at[-2]), name="B_columns")
    kk = te.reduce_axis((0, k), name="k")

    def element(*at: Any) -> Any:
        *batch, i, j = at
        right = b(*batch, kk, j) if columns is None else columns(*batch, j, kk)
        return te.sum(a(*batch, i, kk) * right, axis=kk)

    c = te.compute((*lead, m, n), element, name="C")
    s = te.create_schedule(c.op)
    *outer, y, x = s[c].op.axis
    yo, yi = s[c].split(y, factor=cfg["rows"].val)
    kv, lanes = s[c].split(kk, factor=cfg["vectors"].val * p.lanes)
    ko, ki = s[c].split(kv, factor=cfg["unroll_k"].val)
    s[c].reorder(*outer, yo, ko, ki, yi, x, lanes)
    s[c].vectorize(lanes)
    for loop in (ki, yi, x):
        s[c].unroll(loop)
    s[c].parallel(outer[0] if lead and lead[0] > 1 else yo)
    return s, [a, b, c]
