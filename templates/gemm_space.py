"""The knobs of matrix products, and their constraints.

A register tile is `mr` rows of `nr` columns, nr a multiple of the target's vectors. It is accumulated over `k_block`
steps of the reduction (0: all of them). Blocks are laid out around what the target's caches hold, as in Goto and van
de Geijn, "Anatomy of high-performance matrix multiplication" (2008): a block of one operand's tiles stays in L2 while
the other operand's stream past, a `panel` of them (0: all) at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pegbox as pb
from pegbox.codegen import LATENCY, fits_registers
from pegbox.task import KnobValues
from pegbox.templates.product import Product
from pegbox.templates.register_tile import BODY, ROWS, VECTORS, is_balanced

# Values of `layout`: the ways to multiply.
PACKED, DIRECT, STREAM = "packed", "direct", "stream"
# Values of `order`: which operand's tiles stay in cache, in blocks, while the other one's stream past.
ROWS_STAY, COLUMNS_STAY = "yx", "xy"

_STREAM_ROWS = 8  # with more rows than that, memory is not the limit
_MOST_TILES = 128  # in a block
_REUSE = 256  # rows from which on packing B costs next to nothing


def declare(cfg: pb.TemplateConfig, p: Product) -> None:
    """The knobs of a product."""
    layouts = _layouts(p)
    tiled, packed = _when(layouts, PACKED, DIRECT), _when(layouts, PACKED)
    if len(layouts) > 1:
        cfg.define_knob("layout", layouts)
    cfg.define_knob("mr", _rows(p))
    cfg.define_knob("nr", [v * p.lanes for v in _widths(p)])
    cfg.define_knob("unroll_k", [u for u in (1, 2, 4, 8) if u <= p.k])
    cfg.define_knob("k_block", [0, *_divisors_near(p.k, _depths(p))], when=tiled)
    cfg.define_knob("order", [ROWS_STAY, COLUMNS_STAY] if p.m > 1 else [COLUMNS_STAY], when=tiled)
    if p.m > 1:
        cfg.define_knob("y_tiles", _powers(p.m), when=tiled | {"order": [ROWS_STAY]})
    cfg.define_knob("x_tiles", _powers(p.vectors), when=tiled | {"order": [COLUMNS_STAY]})
    if PACKED in layouts:
        cfg.define_knob("panel", [0, 8, 32], when=packed)
        cfg.define_knob("pack_a", [False, True], when=packed)
    if STREAM in layouts:
        cfg.define_knob("stretch", _powers(p.vectors), when=_when(layouts, STREAM))
    _Constraints(cfg, p, layouts).add()


def layout_of(c: KnobValues, p: Product) -> str:
    """Name the layout in which a configuration multiplies."""
    layouts = _layouts(p)
    return str(c["layout"].val) if len(layouts) > 1 else layouts[0]


def _when(layouts: Sequence[str], *wanted: str) -> dict[str, list[str]]:
    """The condition that a layout is one of those wanted; none where there is no choice."""
    return {"layout": [layout for layout in layouts if layout in wanted]} if len(layouts) > 1 else {}


def _rows(p: Product) -> list[int]:
    """Rows of the register tile."""
    return [r for r in ROWS if r <= p.m and fits_registers(p.target, r, 1)]


def _widths(p: Product) -> list[int]:
    """Vectors in a row of the register tile; a single row has the accumulators of several."""
    widths = VECTORS if p.m > 1 else (*VECTORS, 8, 12)
    return [v for v in widths if v == 1 or v <= p.vectors]


def _layouts(p: Product) -> list[str]:
    """The ways to multiply that can be the best one."""
    if p.packed:
        return [PACKED]
    caches, b_bytes = p.target.caches, p.k * p.n * p.itemsize
    packed = [PACKED] if p.m > 1 else []
    direct = [DIRECT] if p.m < _REUSE or b_bytes <= caches.l2 // 2 else []
    stream = [STREAM] if p.m <= _STREAM_ROWS else []
    return packed + direct + stream


def _depths(p: Product) -> list[int]:
    """Steps of the reduction for which two vectors' columns of B take half of L1, and multiples of that."""
    steps = p.target.caches.l1 // (4 * p.lanes * p.itemsize)
    return [steps, 2 * steps, 4 * steps]


def _powers(extent: int) -> list[int]:
    """Block sizes, in tiles."""
    return [1 << e for e in range(_MOST_TILES.bit_length()) if e == 0 or 1 << e < 2 * extent]


def _divisors_near(extent: int, wanted: Sequence[int]) -> list[int]:
    """Find, for each wanted block, the divisor of `extent` within a third of it, or the block itself for large extents.

    Blocks that divide need no second copy of the kernel for what is left over.
    """
    found = []
    for block in wanted:
        near = [d for d in range(block * 2 // 3, block * 4 // 3 + 1) if extent % d == 0 and d < extent]
        if near:
            found.append(min(near, key=lambda d: abs(d - block)))
        elif extent > 2 * block:
            found.append(block)
    return list(dict.fromkeys(found))


class _Constraints:
    """What leaves out configurations that cannot be fast, and those that mean the same as others."""

    def __init__(self, cfg: pb.TemplateConfig, p: Product, layouts: Sequence[str]) -> None:
        self.cfg, self.p, self.layouts = cfg, p, layouts
        self.caches = p.target.caches
        self.least = min(LATENCY, max(r * v for r in _rows(p) for v in _widths(p) if fits_registers(p.target, r, v)))

    def add(self) -> None:
        registers, caches = self.p.target.vector_registers, self.caches
        self._add(self.tile_fits, f"the register tile and its operands take at most {registers} vectors", "mr", "nr")
        self._add(
            self.hides_latency,
            f"the register tile takes at least {self.least} vectors, to hide the latency of additions",
            "mr",
            "nr",
        )
        if self.p.m >= 4 and self.p.vectors >= 2:
            self._add(self.is_balanced, "the register tile has more multiply-adds than loads", "mr", "nr")
        self._add(self.body_is_small, f"the innermost body has at most {BODY} multiply-adds", "mr", "nr", "unroll_k")
        tiles = ("mr", "nr", "k_block", "order")
        blocks = ("y_tiles", "x_tiles") if self.p.m > 1 else ("x_tiles",)
        self._add(
            self.block_fits,
            f"a block takes {caches.l2 >> 14} to {caches.l2 >> 10} KiB, or all tiles that there are",
            *tiles,
            *blocks,
        )
        if self.p.m > 1:
            self._add(self.order_matters, "where one axis has a single tile, the other one is blocked", *tiles)
        if PACKED in self.layouts:
            self._add(
                self.panel_fits,
                "a panel takes at most what the last cache holds, and half of the tiles",
                *tiles,
                "panel",
            )
        if STREAM in self.layouts:
            self._add(self.stretch_fits, "a stretch of C takes a part of L2, or all of C", "mr", "nr", "stretch")

    def _add(self, predicate: Callable[[pb.Config], bool], message: str, *reads: str) -> None:
        layout = ("layout",) if len(self.layouts) > 1 else ()
        self.cfg.add_constraint(predicate, reads=(*layout, *reads), message=message)

    def shape(self, c: pb.Config) -> tuple[int, int]:
        """Rows and vectors of the register tile."""
        return c["mr"].val, c["nr"].val // self.p.lanes

    def streams(self, c: pb.Config) -> bool:
        return layout_of(c, self.p) == STREAM

    def tile_fits(self, c: pb.Config) -> bool:
        return fits_registers(self.p.target, *self.shape(c))

    def hides_latency(self, c: pb.Config) -> bool:
        return self.streams(c) or math.prod(self.shape(c)) >= self.least

    def is_balanced(self, c: pb.Config) -> bool:
        return self.streams(c) or is_balanced(*self.shape(c))

    def body_is_small(self, c: pb.Config) -> bool:
        return bool(math.prod(self.shape(c)) * c["unroll_k"].val <= BODY)

    def _axes(self, c: pb.Config) -> tuple[tuple[int, int], tuple[int, int]]:
        """Tiles along the blocked axis and the bytes of one tile's operand; then those of the streamed axis."""
        depth = (c["k_block"].val or self.p.k) * self.p.itemsize
        y = -(-self.p.m // c["mr"].val), c["mr"].val * depth
        x = -(-self.p.n // c["nr"].val), c["nr"].val * depth
        return (y, x) if c["order"].val == ROWS_STAY else (x, y)

    def order_matters(self, c: pb.Config) -> bool:
        if self.streams(c):
            return True
        (blocked, _), (streamed, _) = self._axes(c)
        return bool(blocked > 1 or (streamed == 1 and c["order"].val == ROWS_STAY))

    def block_fits(self, c: pb.Config) -> bool:
        if self.streams(c):
            return True
        tiles, size = self._axes(c)[0]
        block = c["y_tiles" if c["order"].val == ROWS_STAY else "x_tiles"].val
        enough = block >= min(tiles, _MOST_TILES) or block * size >= self.caches.l2 // 16
        return bool(block < 2 * tiles and enough and (block == 1 or block * size <= self.caches.l2))

    def panel_fits(self, c: pb.Config) -> bool:
        if layout_of(c, self.p) != PACKED or c["panel"].val == 0:
            return True
        tiles, size = self._axes(c)[1]
        panel = c["panel"].val
        return bool(2 * panel <= tiles and panel * size <= max(self.caches.l2, self.caches.l3))

    def stretch_fits(self, c: pb.Config) -> bool:
        if not self.streams(c):
            return True
        tiles, size = -(-self.p.n // c["nr"].val), c["mr"].val * c["nr"].val * self.p.itemsize
        stretch = c["stretch"].val
        enough = stretch >= min(tiles, _MOST_TILES) or stretch * size >= self.caches.l1 // 4
        return bool(stretch < 2 * tiles and enough and stretch * size <= self.caches.l2 // 2)
