"""The intrinsic `float32_tile_MxNxK`: a tile of a matrix product, kept in registers.

For each step of the reduction a row of `B` is loaded as vectors, and each element of a column of `A` goes to all lanes:
an outer product (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", TOMS 34, 2008).
"""

from __future__ import annotations

import re

from pegbox.compute.ops import compute, placeholder, reduce_axis
from pegbox.compute.ops import sum as sum_over
from pegbox.expr.low_level import broadcast
from pegbox.expr.nodes import Buffer, Expr, Load
from pegbox.loops.nodes import Alloc, ForKind, Stmt, Store, seq
from pegbox.schedule.intrinsics.build import described_update, loop, vector
from pegbox.schedule.intrinsics.intrinsic import TensorIntrin

_NAME = re.compile(r"float32_tile_(\d+)x(\d+)x(\d+)")
_WIDEST = 16  # the lanes of the widest vectors; processors with narrower ones use several for each


def float32_tile(name: str) -> TensorIntrin | None:
    """Return the intrinsic `float32_tile_MxNxK`: C[m, n] += sum over k of A[m, k] * B[k, n]."""
    found = _NAME.fullmatch(name)
    if found is None or not all(sizes := tuple(map(int, found.groups()))):
        return None
    rows, columns, steps = sizes
    a, b = placeholder((rows, steps), name="A"), placeholder((steps, columns), name="B")
    k = reduce_axis((0, steps), name="k")
    c = compute((rows, columns), lambda m, n: sum_over(a[m, k] * b[k, n], axis=k), name="C")
    return TensorIntrin(name, described_update(name, a, b, c), _outer_products(a.buffer, b.buffer, c.buffer))


def _outer_products(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    rows, columns = c.shape
    lanes = next(n for n in (16, 8, 4, 2, 1) if columns % n == 0 and n <= _WIDEST)
    tile = Buffer("tile", c.shape, "float32", "local")

    def each(body: object) -> Stmt:
        """Write a statement for every vector of the tile."""
        assert callable(body)
        return loop(
            "m",
            rows,
            lambda m: loop("n", columns // lanes, lambda n: body(m, n * lanes), ForKind.UNROLLED),
            ForKind.UNROLLED,
        )

    def copy(target: Buffer, source: Buffer) -> Stmt:
        return each(lambda m, n: Store(target, (m, n), vector(source, m, n, lanes=lanes)))

    def step(k: Expr) -> Stmt:
        def add(m: Expr, n: Expr) -> Stmt:
            product = broadcast(Load(a, (m, k)), lanes) * vector(b, k, n, lanes=lanes)
            return Store(tile, (m, n), vector(tile, m, n, lanes=lanes) + product)

        return each(add)

    return Alloc(tile, seq(copy(tile, c), loop("k", a.shape[1], step), copy(c, tile)))
