"""The products of bilinear algorithms, such as Winograd's and Strassen's: their knobs, and their schedule.

These algorithms multiply sums of the inputs by sums of the weights: `matrices` products of matrices in place of a
larger one. A block of `tiles` rows is transformed, multiplied and transformed back before the next one: the transformed
inputs of a block, and the products of a block of columns, fill the second cache. The transformed weights stream past.

The products are register tiles, `rows` rows × `vectors` vectors of columns. These need not divide the block: the rest
has code of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import pegbox as pb
from pegbox import te
from pegbox.codegen import LATENCY, Target, fits_registers
from pegbox.expr import nbytes
from pegbox.templates import weight_blocks
from pegbox.templates.conv_tiles import is_block
from pegbox.templates.register_tile import BODY, ROWS, VECTORS, step_cost, write_out

WAITED_BYTES = 4.0
"""The bytes of weights that come from the last cache in a cycle, as measured where the reduction waits for them."""
_FETCHED_BYTES = 8.0
"""The same for weights that are prefetched, as measured on an Emerald Rapids: 9, and fewer beside other programs."""
_VISIBLE = 0.5
"""The part of the shorter time, of products or of weights, that the longer one does not hide."""

_TILES = (1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96)
_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
_AHEAD = (0, 8, 16)  # iterations of the reduction for which weights are prefetched
_NEAR, _FAR = 1.12, 1.3  # factors of the least cost up to which a block's register tiles, and blocks, are worth trying


class Shape(NamedTuple):
    """The rows in a block, and the register tile: rows × vectors."""

    tiles: int
    rows: int
    vectors: int


@dataclass(frozen=True)
class BilinearProducts:
    """The products of `matrices` pairs of matrices: `count` rows × k, and k × `vectors` vectors of columns.

    Attributes:
        run: the number of rows that stay together.
        blocks: the numbers of rows in a block that are worth trying.
    """

    matrices: int
    count: int
    k: int
    vectors: int
    lanes: int
    dtype: str
    target: Target
    run: int = 1
    blocks: tuple[int, ...] = _TILES

    @property
    def itemsize(self) -> int:
        return nbytes(self.dtype)

    @property
    def depth(self) -> int:
        """The length of the reduction, in whole vectors."""
        return -(-self.k // self.lanes) * self.lanes

    @property
    def cycles(self) -> float:
        """Estimate the cycles of the multiply-adds."""
        return self.matrices * self.count * self.k * self.vectors / 2

    @property
    def weight_cycles(self) -> float:
        """Estimate the cycles to read the weights from the last cache."""
        return self.weight_bytes / WAITED_BYTES

    @cached_property
    def weight_bytes(self) -> int:
        """The bytes of all transformed weights."""
        return self.matrices * self.vectors * self.k * self.lanes * self.itemsize

    @cached_property
    def warm_cycles(self) -> float:
        """Estimate the cycles of a call after others: weights that the second cache cannot hold are in the last one.

        Each block reads them again.
        """
        blocks = -(-self.count // max(shape.tiles for shape in good_shapes(self)))
        return _beside(self.cycles, blocks * self.far_bytes / _FETCHED_BYTES)

    @property
    def far_bytes(self) -> int:
        """The bytes of weights that each block reads beyond the second cache."""
        return 0 if self.weight_bytes <= self.target.caches.l2 // 2 else self.weight_bytes


# Knobs -------------------------------------------------------------------------------------------------------------


def declare(
    cfg: pb.TemplateConfig,
    choices: Iterable[BilinearProducts],
    of: Callable[[pb.Config], BilinearProducts],
    reads: tuple[str, ...] = (),
) -> None:
    """Declare the knobs of products, and leave out configurations that cannot be fast.

    Args:
        choices: the products of all configurations.
        of: a function that returns the products of a configuration.
        reads: the knobs that `of` reads.
    """
    choices = list(choices)
    first = choices[0]
    shapes = [shape for each in choices for shape in good_shapes(each)]
    cfg.define_knob("tiles", sorted({shape.tiles for shape in shapes}))
    cfg.define_knob("rows", sorted({shape.rows for shape in shapes}))
    cfg.define_knob("vectors", sorted({shape.vectors for shape in shapes}))
    cfg.define_knob("block_o", [b for b in _BLOCKS if b == 1 or b < 2 * first.vectors])
    cfg.define_knob("unroll_c", [u for u in (1, 2, 4, 8) if first.k % u == 0])
    cfg.define_knob("prefetch", [ahead for ahead in _AHEAD if ahead < first.k])

    def add(predicate: Callable[[pb.Config], bool], message: str, *names: str) -> None:
        cfg.add_constraint(predicate, reads=(*reads, *names), message=message)

    add(
        lambda c: Shape(c["tiles"].val, c["rows"].val, c["vectors"].val) in good_shapes(of(c)),
        "register tiles fit the registers, and the rest of a block is small",
        "tiles", "rows", "vectors",
    )  # fmt: skip
    add(
        lambda c: _is_block_of(of(c), c["vectors"].val, c["block_o"].val),
        "the last block of columns is not much smaller than the others",
        "vectors", "block_o",
    )  # fmt: skip
    add(
        lambda c: _fits_cache(of(c), c["tiles"].val, c["block_o"].val * c["vectors"].val),
        "a block's transformed inputs and products fit the second cache, as far as they can",
        "tiles", "vectors", "block_o",
    )  # fmt: skip
    add(
        lambda c: c["rows"].val * c["vectors"].val * c["unroll_c"].val <= BODY,
        f"the innermost loop has at most {BODY} multiply-adds",
        "rows", "vectors", "unroll_c",
    )  # fmt: skip


@lru_cache(maxsize=256)
def good_shapes(p: BilinearProducts) -> frozenset[Shape]:
    """Return the blocks, and register tiles for them, whose products are nearly as fast as any."""
    costs = {shape: _cost(p, shape) for shape in _shapes(p)}
    best = {tiles: min(c for s, c in costs.items() if s.tiles == tiles) for tiles in {s.tiles for s in costs}}
    least = min(best.values())
    return frozenset(
        shape
        for shape, cost in costs.items()
        if cost <= _NEAR * best[shape.tiles] and best[shape.tiles] <= _FAR * least
    )


def _shapes(p: BilinearProducts) -> Iterable[Shape]:
    runs, of_core = p.count // p.run, -(-p.count // p.target.num_cores)
    wanted = {tiles for tiles in (*p.blocks, min(of_core, p.blocks[-1])) if p.run <= tiles <= of_core} or {p.run}
    blocks = {p.run * -(-runs // -(-p.count // tiles)) for tiles in wanted}
    for tiles in blocks:
        for rows in ROWS:
            for vectors in VECTORS:
                fits = fits_registers(p.target, rows, vectors)
                if fits and rows <= tiles and vectors <= p.vectors:
                    yield Shape(tiles, rows, vectors)


def _cost(p: BilinearProducts, shape: Shape) -> float:
    """Estimate the half cycles of a step of the reduction for all rows and columns, on the core with the most.

    Weights that the second cache does not hold come from the last one for each block, beside the products.
    """

    def parts(extent: int, size: int) -> list[tuple[int, int]]:
        return [(size, extent // size), *([(extent % size, 1)] if extent % size else [])]

    def of_block(tiles: int) -> float:
        return sum(
            many_rows * many_vectors * step_cost(rows, vectors)
            for rows, many_rows in parts(tiles, shape.rows)
            for vectors, many_vectors in parts(p.vectors, shape.vectors)
        )

    weights = 2 * p.far_bytes / (p.matrices * p.k * _FETCHED_BYTES)
    cost = sum(count * _beside(of_block(tiles), weights) for tiles, count in parts(p.count, shape.tiles))
    blocks = -(-p.count // shape.tiles)
    return cost * -(-blocks // p.target.num_cores) / blocks


def _beside(products: float, weights: float) -> float:
    """Combine the times of products, and of their weights, which are prefetched."""
    return max(products, weights) + _VISIBLE * min(products, weights)


def _is_block_of(p: BilinearProducts, vectors: int, block: int) -> bool:
    count = -(-p.vectors // vectors)
    return block == 1 or block == count or is_block(count, block)


def _fits_cache(p: BilinearProducts, tiles: int, block: int) -> bool:
    """Decide if a block of rows and of vectors of columns fits, or none does and it is the smallest."""
    each, l2 = p.matrices * p.itemsize, p.target.caches.l2
    smallest = min(shape.tiles for shape in good_shapes(p))
    data, products = each * tiles * p.depth, each * tiles * block * p.lanes
    return (tiles == smallest or data <= 2 * l2) and (block <= LATENCY or products <= 2 * l2)


# Schedule ----------------------------------------------------------------------------------------------------------


def schedule(
    cfg: pb.TemplateConfig, s: te.TESchedule, products: te.Tensor, sums: te.Tensor, weights: te.Tensor
) -> None:
    """Schedule products of a block: for each matrix, panel by panel of weights, row after row.

    While a panel is multiplied, the next one is prefetched into the second cache, if both fit.

    Args:
        products: (..., count, vectors, lanes), over all matrices in front.
        sums: the stage that accumulates them, made by `cache_write`.
        weights: the transformed weights, (..., vectors, k, lanes).
    """
    store = s[products]
    *matrices, p, v, z = store.op.axis
    vo, vi = store.split(v, factor=cfg["vectors"].val)
    po, pi = store.split(p, factor=cfg["rows"].val)
    store.reorder(*matrices, vo, po, pi, vi, z)
    panels = store.fuse(*matrices, vo)
    write_out(store, z, (pi, vi))
    s[sums].compute_at(store, po)
    *matrices, p, v, z = s[sums].op.axis
    ko, ki = s[sums].split(s[sums].op.reduce_axis[0], factor=cfg["unroll_c"].val)
    s[sums].reorder(*matrices, ko, ki, p, v, z)
    write_out(s[sums], z, (ki, p, v))
    panel = cfg["vectors"].val * math.prod(weights.shape[-2:]) * nbytes(weights.dtype)
    if weight_blocks.next_fits(panel, cfg.target):
        # Weights come from the last cache, or in a model from memory.
        store.prefetch(weights, panels, among=ko)
    if cfg["prefetch"].val:
        s[sums].prefetch(weights, ko, cfg["prefetch"].val)
