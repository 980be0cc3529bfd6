"""Products by Strassen's algorithm: the computation and the schedule.

A block of pairs of rows is the outer loop. It contains `A_sums`, seven sums of the quarters of A for the block; for
each block of columns `products`, seven products of matrices in register tiles; then C from these, with what follows it.

Rows and columns are scaled to a largest magnitude of 1, or of less than 2 where weights are packed, and their products
scaled back: Ballard, Benson, Druinsky, Lipshitz and Schwartz, "Improving the numerical stability of fast matrix
multiplication" (2016). Without that the errors of a row would be those of its neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass

import pegbox as pb
from pegbox import te
from pegbox.codegen import LINE
from pegbox.expr import EXPONENTS
from pegbox.templates import bilinear_products, threads
from pegbox.templates.linear_sums import chosen, matrix_rows
from pegbox.templates.register_tile import write_out
from pegbox.templates.strassen_shape import LEFT, OUT, RIGHT, Strassen


@dataclass(frozen=True)
class StrassenStages:
    """The stages to the result; `column_max` is None where the weights were packed ahead."""

    row_max: te.Tensor
    left: te.Tensor
    column_max: te.Tensor | None
    right: te.Tensor
    products: te.Tensor
    out: te.Tensor


# Computation -------------------------------------------------------------------------------------------------------


def compute(h: Strassen, a: te.Tensor, b: te.Tensor) -> StrassenStages:
    """Return C from products of sums of A, and of sums of B: computed here, or packed ahead."""
    p, lanes = h.product, h.product.lanes
    row_max, left = _left(h, a)
    column_max, right = (None, b) if p.packed else _right(h, b)
    k = te.reduce_axis((0, h.k), name="k")
    products = te.compute(
        (len(OUT[0]), h.rows, h.vectors, lanes),
        lambda t, i, v, z: te.sum(left(t, i, k) * right(t, v, k, z), axis=k),
        name="products",
    )

    def element(y: te.Expr, x: te.Expr) -> te.Expr:
        v, z = x // lanes, x % lanes
        quarters = matrix_rows(OUT, [products(t, y // 2, v // 2, z) for t in range(len(OUT[0]))], p.dtype)
        found = chosen(y % 2, [chosen(v % 2, quarters[:2]), chosen(v % 2, quarters[2:])])
        row = _scale_back(row_max(y))
        column = right(v % 2, v // 2, h.k, z) if column_max is None else _scale_back(column_max(x))
        # The product of both scales may overflow, and so may the product with the larger one.
        return found * te.minimum(row, column) * te.maximum(row, column)

    return StrassenStages(row_max, left, column_max, right, products, te.compute(p.shape, element, name="C"))


def _left(h: Strassen, a: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """Return the magnitude of each row of A, and sums of its quarters [sum][pair of rows][k]."""
    p = h.product
    k = te.reduce_axis((0, p.k), name="k")
    row_max = te.compute((p.m,), lambda i: te.max(te.abs(a(i, k)), axis=k), name="A_max")

    def quarter(i: te.Expr, k: te.Expr) -> te.Expr:
        return _within(a(i, k) * (1 / _scale(row_max(i))), (i, p.m), (k, p.k))

    def element(t: te.Expr, i: te.Expr, k: te.Expr) -> te.Expr:
        quarters = [quarter(2 * i + y, k + x * h.k) for y in (0, 1) for x in (0, 1)]
        return chosen(t, matrix_rows(LEFT, quarters, p.dtype))

    return row_max, te.compute((len(LEFT), h.rows, h.k), element, name="A_sums")


def _right(h: Strassen, b: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """Return the magnitude of each column of B, and sums of its quarters [sum][pair of vectors][k][column]."""
    p = h.product
    k = te.reduce_axis((0, p.k), name="k")
    column_max = te.compute((p.n,), lambda x: te.max(te.abs(b(k, x)), axis=k), name="B_max")

    def quarter(k: te.Expr, x: te.Expr) -> te.Expr:
        return _within(b(k, x) * (1 / _scale(column_max(x))), (k, p.k), (x, p.n))

    def element(t: te.Expr, v: te.Expr, k: te.Expr, z: te.Expr) -> te.Expr:
        quarters = [quarter(k + y * h.k, (2 * v + x) * p.lanes + z) for y in (0, 1) for x in (0, 1)]
        return chosen(t, matrix_rows(RIGHT, quarters, p.dtype))

    return column_max, te.compute((len(RIGHT), h.vectors, h.k, p.lanes), element, name="B_sums")


def _scale(magnitude: te.Expr) -> te.Expr:
    """Return a magnitude, or the least normal number if that is larger, whose inverse is finite."""
    return te.maximum(magnitude, te.const(2.0 ** EXPONENTS[magnitude.dtype][0], magnitude.dtype))


def _scale_back(magnitude: te.Expr) -> te.Expr:
    """Return the scale, or 0 for a row or column of zeros, so that the result is 0 and not a rounding error."""
    return te.if_then_else(magnitude == 0, te.const(0, magnitude.dtype), _scale(magnitude))


def _within(value: te.Expr, *places: tuple[te.Expr, int]) -> te.Expr:
    """Return a value of a matrix, or 0 outside it, where the second half of an odd extent ends."""
    tests = [place < extent for place, extent in places]
    return te.if_then_else(te.all(*tests), value, te.const(0, value.dtype))


# Schedule ----------------------------------------------------------------------------------------------------------


def schedule(cfg: pb.TemplateConfig, h: Strassen, stages: StrassenStages) -> te.TESchedule:
    """Return the schedule that the configuration describes."""
    s = te.create_schedule(stages.out.op)
    sums = s.cache_write(stages.products, "local")
    block, columns = _schedule_out(cfg, s, h, stages.out)
    s[stages.products].compute_at(s[stages.out], columns)
    bilinear_products.schedule(cfg, s, stages.products, sums, stages.right)
    _schedule_left(s, h, stages, (s[stages.out], block))
    if stages.column_max is not None:
        _schedule_right(cfg, s, h, stages.right, stages.column_max, (s[stages.out], columns))
    return s


def _schedule_out(cfg: pb.TemplateConfig, s: te.TESchedule, h: Strassen, c: te.Tensor) -> tuple[te.IterVar, te.IterVar]:
    """Store pairs of rows, two vectors at a time; return the loops over blocks of rows and of columns."""
    out, lanes = s[c], h.product.lanes
    y, x = out.op.axis
    rows, row = out.split(y, factor=2)
    vectors, near = out.split(x, factor=2 * lanes)
    vector, lane = out.split(near, factor=lanes)
    block, rows = out.split(rows, factor=cfg["tiles"].val)
    columns, vectors = out.split(vectors, factor=cfg["block_o"].val * cfg["vectors"].val)
    out.reorder(block, columns, rows, vectors, row, vector, lane)
    write_out(out, lane, (row, vector))
    threads.share(cfg, out, block)
    return block, columns


def _schedule_left(s: te.TESchedule, h: Strassen, stages: StrassenStages, at: tuple[te.Stage, te.IterVar]) -> None:
    """Compute the sums of a block pair by pair of rows, a vector at a time."""
    lanes, left = h.product.lanes, s[stages.left]
    left.compute_at(*at)
    t, i, k = left.op.axis
    kv, lane = left.split(k, factor=lanes)
    left.reorder(i, kv, t, lane)
    write_out(left, lane, [t])
    # Rows, which are read side by side, lie in different cache sets.
    line = LINE // h.product.itemsize
    left.storage_align(i, 4 * line, line)
    rows = s[stages.row_max]
    rows.compute_at(*at)
    rows.vectorize(rows.split(rows.op.reduce_axis[0], factor=lanes)[1])


def _schedule_right(
    cfg: pb.TemplateConfig,
    s: te.TESchedule,
    h: Strassen,
    sums: te.Tensor,
    column_max: te.Tensor,
    at: tuple[te.Stage, te.IterVar],
) -> None:
    """Compute the sums of B a vector at a time: for each block of columns if one block has all rows, else beforehand.

    The sums of all columns need much memory, and fresh memory in each call costs as much as computing them.
    """
    lanes, right, columns = h.product.lanes, s[sums], s[column_max]
    t, v, k, lane = right.op.axis
    right.reorder(v, k, t, lane)
    write_out(right, lane, [t])
    (x,) = columns.op.axis
    xo, lane = columns.split(x, factor=lanes)
    columns.reorder(xo, *columns.op.reduce_axis, lane)
    columns.vectorize(lane)
    for stage, shared in ((right, v), (columns, xo)):
        if cfg["tiles"].val >= h.rows:
            stage.compute_at(*at)
        else:
            threads.share(cfg, stage, shared)
