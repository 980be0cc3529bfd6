"""The knobs of Winograd convolutions, and their constraints.

A block of `tiles` tiles is transformed, multiplied and transformed back before the next one: the transformed inputs of
a block, and the products of a block of output channels, fill the second cache. The transformed filters stream past.

The products are register tiles, `rows` tiles of the image × `vectors` vectors of output channels. These need not divide
the block: the rest has code of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

import pegbox as pb
from pegbox.codegen import LATENCY, fits_registers
from pegbox.expr import nbytes
from pegbox.templates.conv_tiles import is_block
from pegbox.templates.register_tile import BODY, ROWS, VECTORS, step_cost
from pegbox.templates.winograd_shape import WEIGHT_BYTES, Winograd
from pegbox.templates.winograd_stages import IMAGE, TILE

_TILES = (1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96)
_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
_CHANNELS = (2, 4, 8, 16)  # vectors of input channels
_AHEAD = (0, 8, 16)  # iterations of the reduction for which filters are prefetched
_NEAR, _FAR = 1.12, 1.3  # times the least cost, up to which register tiles of a block, and blocks, are worth trying
_FEW_REGISTERS, _SMALL = 16, 4  # with few registers, only small matrices are written out whole
_MATRIX = 6  # with many, those of at most this many rows


class Shape(NamedTuple):
    """Tiles of the image in a block, and the register tile: rows × vectors."""

    tiles: int
    rows: int
    vectors: int


def declare(cfg: pb.TemplateConfig, sizes: Iterable[Winograd]) -> None:
    """Declare the knobs of a convolution, for the tiles of all sizes m."""
    by_m = {w.m: w for w in sizes}
    any_w = next(iter(by_m.values()))
    conv = any_w.conv
    shapes = [shape for w in by_m.values() for shape in good_shapes(w)]
    cfg.define_knob("m", list(by_m))
    cfg.define_knob("tiles", sorted({shape.tiles for shape in shapes}))
    cfg.define_knob("rows", sorted({shape.rows for shape in shapes}))
    cfg.define_knob("vectors", sorted({shape.vectors for shape in shapes}))
    cfg.define_knob("block_o", [b for b in _BLOCKS if b == 1 or b < 2 * conv.vectors])
    cfg.define_knob("unroll_c", [u for u in (1, 2, 4, 8) if conv.c % u == 0])
    cfg.define_knob("prefetch", [ahead for ahead in _AHEAD if ahead < conv.c])
    copies = [TILE, IMAGE] if conv.layout == "NHWC" else [IMAGE]
    cfg.define_knob("copy", copies)
    vectors = any_w.channels // conv.lanes
    blocks = [b for b in _CHANNELS if b < vectors] or [vectors]
    cfg.define_knob("block_c", blocks, when={"copy": [TILE]} if len(copies) > 1 and len(blocks) > 1 else {})
    whole = [False, True] if any(_is_written_out(w) for w in by_m.values()) else [False]
    cfg.define_knob("unroll_in", whole)
    cfg.define_knob("unroll_out", whole)
    _constrain(cfg, by_m)


def _constrain(cfg: pb.TemplateConfig, by_m: dict[int, Winograd]) -> None:
    """Leave out configurations that cannot be fast, and those that mean the same as others."""

    def add(predicate: Callable[[pb.Config, Winograd], bool], message: str, *reads: str) -> None:
        cfg.add_constraint(lambda c: predicate(c, by_m[int(c["m"].val)]), reads=("m", *reads), message=message)

    add(
        lambda c, w: Shape(c["tiles"].val, c["rows"].val, c["vectors"].val) in good_shapes(w),
        "register tiles fit the registers, and the rest of a block is small",
        "tiles", "rows", "vectors",
    )  # fmt: skip
    add(
        lambda c, w: _is_block_of(w, c["vectors"].val, c["block_o"].val),
        "the last block of output channels is not much smaller than the others",
        "vectors", "block_o",
    )  # fmt: skip
    add(
        lambda c, w: _fits_cache(w, c["tiles"].val, c["block_o"].val * c["vectors"].val),
        "a block's transformed inputs and products fit the second cache, as far as they can",
        "tiles", "vectors", "block_o",
    )  # fmt: skip
    add(
        lambda c, w: c["rows"].val * c["vectors"].val * c["unroll_c"].val <= BODY,
        f"the innermost loop has at most {BODY} multiply-adds",
        "rows", "vectors", "unroll_c",
    )  # fmt: skip
    add(
        lambda c, w: _is_written_out(w) or not (c["unroll_in"].val or c["unroll_out"].val),
        "large matrices are not written out whole",
        "unroll_in", "unroll_out",
    )  # fmt: skip


@lru_cache(maxsize=256)
def good_shapes(w: Winograd) -> frozenset[Shape]:
    """Return the blocks, and register tiles for them, whose products are nearly as fast as any."""
    costs = {shape: _cost(w, shape) for shape in _shapes(w)}
    best = {tiles: min(c for s, c in costs.items() if s.tiles == tiles) for tiles in {s.tiles for s in costs}}
    least = min(best.values())
    return frozenset(
        shape
        for shape, cost in costs.items()
        if cost <= _NEAR * best[shape.tiles] and best[shape.tiles] <= _FAR * least
    )


def _shapes(w: Winograd) -> Iterable[Shape]:
    runs = w.count // w.run
    wanted = [tiles for tiles in _TILES if w.run <= tiles <= w.count] or [w.run]
    blocks = {w.run * -(-runs // -(-w.count // tiles)) for tiles in wanted}
    for tiles in blocks:
        for rows in ROWS:
            for vectors in VECTORS:
                fits = fits_registers(w.conv.target, rows, vectors)
                if fits and rows <= tiles and vectors <= w.conv.vectors:
                    yield Shape(tiles, rows, vectors)


def _cost(w: Winograd, shape: Shape) -> float:
    """Estimate the half cycles of a step of the reduction for all tiles and output channels.

    Filters that the second cache does not hold come from the last one for each block.
    """

    def parts(extent: int, size: int) -> list[tuple[int, int]]:
        return [(size, extent // size), *([(extent % size, 1)] if extent % size else [])]

    def of_block(tiles: int) -> float:
        return sum(
            many_rows * many_vectors * step_cost(rows, vectors)
            for rows, many_rows in parts(tiles, shape.rows)
            for vectors, many_vectors in parts(w.conv.vectors, shape.vectors)
        )

    itemsize, l2 = nbytes(w.conv.dtype), w.conv.target.caches.l2
    is_near = math.prod(w.weight_shape) * itemsize <= l2 // 2
    filters = 0.0 if is_near else 2 * w.conv.vectors * w.conv.lanes * itemsize / WEIGHT_BYTES
    return sum(count * (of_block(tiles) + filters) for tiles, count in parts(w.count, shape.tiles))


def _is_block_of(w: Winograd, vectors: int, block: int) -> bool:
    count = -(-w.conv.vectors // vectors)
    return block == 1 or block == count or is_block(count, block)


def _fits_cache(w: Winograd, tiles: int, block: int) -> bool:
    """Decide whether a block of tiles and of vectors of output channels fits, or none does and it is the smallest."""
    each, l2 = w.size**2 * nbytes(w.conv.dtype), w.conv.target.caches.l2
    smallest = min(shape.tiles for shape in good_shapes(w))
    data, products = each * tiles * w.channels, each * tiles * block * w.conv.lanes
    return (tiles == smallest or data <= 2 * l2) and (block <= LATENCY or products <= 2 * l2)


def _is_written_out(w: Winograd) -> bool:
    return w.size <= (_SMALL if w.conv.target.vector_registers <= _FEW_REGISTERS else _MATRIX)
