"""Matrix products with few columns, down to matrix × vector: dot products of rows of A and columns of B.

Columns are too few to fill vectors, so the reduction does: lanes run along k, and each element of the result sums the
lanes of its accumulator once, at the end. B is transposed first, which is little work and makes its columns contiguous.
"""

from __future__ import annotations

import pegbox as pb
from pegbox import te
from pegbox.codegen import fits_registers
from pegbox.templates import threads
from pegbox.templates.matmul_arguments import Product
from pegbox.templates.register_tile import write_out


def compute(p: Product, a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """Compute C = A · B, with `b` in the form given by the product."""
    columns = b if p.packed else None
    if p.n > 1 and columns is None:
        columns = te.compute((*p.lead, p.n, p.k), lambda *at: b(*at[:-2], at[-1], at[-2]), name="B_columns")
    k = te.reduce_axis((0, p.k), name="k")

    def element(*at: te.Expr) -> te.Expr:
        *batch, i, j = at
        right = b(*batch, k, j) if columns is None else columns(*batch, j, k)
        return te.sum(a(*batch, i, k) * right, axis=k)

    return te.compute(p.shape, element, name="C")


def declare(cfg: pb.TemplateConfig, p: Product) -> None:
    """Declare the knobs: rows at a time, vectors along k at a time, and the unrolling of these."""
    cfg.define_knob("rows", [r for r in (1, 2, 3, 4, 6, 8, 12) if r <= p.m])
    cfg.define_knob("vectors", [v for v in (1, 2, 4, 8) if v * p.lanes <= p.k])
    cfg.define_knob("unroll_k", [1, 2, 4])
    cfg.add_constraint(
        lambda c: (
            fits_registers(p.target, c["rows"].val * c["vectors"].val, p.n) or c["rows"].val == c["vectors"].val == 1
        ),
        reads=("rows", "vectors"),
        message=f"rows × columns × vectors take at most {p.target.vector_registers} registers",
    )


def schedule(cfg: pb.TemplateConfig, p: Product, c: te.Tensor) -> te.TESchedule:
    """Keep `rows` × all columns × `vectors` accumulators in registers; share row blocks, or products, among threads."""
    s = te.create_schedule(c.op)
    *outer, y, x = s[c].op.axis
    (k,) = s[c].op.reduce_axis
    yo, yi = s[c].split(y, factor=cfg["rows"].val)
    kv, lanes = s[c].split(k, factor=cfg["vectors"].val * p.lanes)
    ko, ki = s[c].split(kv, factor=cfg["unroll_k"].val)
    s[c].reorder(*outer, yo, ko, ki, yi, x, lanes)
    write_out(s[c], lanes, (ki, yi, x))
    threads.share(cfg, s[c], outer[0] if p.lead and p.lead[0] > 1 else yo)
    return s
