"""The knobs of matrix products, and their constraints.

A register tile is `mr` rows of `nr` columns, nr a multiple of the target's vectors. It is accumulated over `k_block`
steps of the reduction (0: all of them). Blocks are laid out for the target's caches, as in Goto and van
de Geijn, "Anatomy of high-performance matrix multiplication" (2008): a block of one operand's tiles stays in L2 while
the other operand's stream past, a `panel` of them (0: all) at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import pegbox as pb
from pegbox.codegen import LATENCY, fits_registers
from pegbox.task import KnobValues
from pegbox.templates import weight_blocks
from pegbox.templates.matmul_arguments import Product
from pegbox.templates.register_tile import BODY, ROWS, VECTORS, WIDE_BITS, is_balanced

# The values of `layout`: the ways to multiply.
PACKED, DIRECT, STREAM = "packed", "direct", "stream"
_TILED = (PACKED, DIRECT)
# The values of `order`: the operand whose tiles stay in cache, in blocks, while the other one's stream past.
ROWS_STAY, COLUMNS_STAY = "yx", "xy"

_STREAM_ROWS = 8  # the number of rows above which memory is not the limit
_MOST_TILES = 128  # the most tiles in a block
_REUSE = 256  # the number of rows from which on packing B costs next to nothing
_B_PARTS = 8  # the parts of L2: one is for a block of B; rows of A, of C and of the next block pass through the others
_FEWEST = 16  # the number of rows from which on the blocks of B matter
_FEW_ROWS = 64  # the number of rows up to which B is best read as it is, even if each row is in a separate page
_PAGE = 4096  # bytes; L2 is indexed by physical addresses, which are random beyond a page


def declare(cfg: pb.TemplateConfig, p: Product) -> None:
    """Declare the knobs of a product."""
    layouts = _layouts(p)
    tiled, packed = _when(layouts, *_TILED), _when(layouts, PACKED)
    # Steps of the reduction for which two vectors' columns of B take half of L1, and multiples of that.
    steps = p.target.caches.l1 // (4 * p.lanes * p.itemsize)
    if len(layouts) > 1:
        cfg.define_knob("layout", layouts)
    cfg.define_knob("mr", _rows(p))
    cfg.define_knob("nr", [v * p.lanes for v in _widths(p)])
    cfg.define_knob("unroll_k", [u for u in (1, 2, 4, 8) if u <= p.k])
    cfg.define_knob("k_block", [0, *_divisors_near(p.k, [steps, 2 * steps, 4 * steps])], when=tiled)
    cfg.define_knob("order", [ROWS_STAY, COLUMNS_STAY] if p.m > 1 else [COLUMNS_STAY], when=tiled)
    if p.m > 1:
        cfg.define_knob("y_tiles", _powers(p.m), when=tiled | {"order": [ROWS_STAY]})
    cfg.define_knob("x_tiles", _powers(p.vectors), when=tiled | {"order": [COLUMNS_STAY]})
    if PACKED in layouts:
        cfg.define_knob("panel", [0, 8, 32], when=packed)
        cfg.define_knob("pack_a", [False, True], when=packed)
    if STREAM in layouts:
        cfg.define_knob("stretch", _powers(p.vectors), when=_when(layouts, STREAM))
    _constrain(cfg, p, layouts)
    if p.packed and 1 < p.m <= weight_blocks.FEW_RESULTS:
        cfg.prefer(partial(_weights_come_in_time, p))
    elif _waits_for_l3(p):
        cfg.prefer(partial(_stays_in_l2, p))


def constrain_threads(cfg: pb.TemplateConfig, p: Product) -> None:
    """Exclude several threads if there is only one block, as the program is then that of one thread."""
    if "threads" not in cfg.space.knobs:
        return
    wanted = ("layout", "mr", "nr", "k_block", "order", "y_tiles", "x_tiles", "panel", "stretch", "threads")
    cfg.add_constraint(
        lambda c: c["threads"].val == 1 or _blocks(p, c) > 1,
        reads=[name for name in wanted if name in cfg.space.knobs],
        message="several threads have several blocks",
    )


def layout_of(c: KnobValues, p: Product) -> str:
    """Return the layout in which a configuration multiplies."""
    layouts = _layouts(p)
    return str(c["layout"].val) if len(layouts) > 1 else layouts[0]


def _when(layouts: Sequence[str], *wanted: str) -> dict[str, list[str]]:
    """Return the condition that a layout is one of those wanted, or no condition if there is no choice."""
    return {"layout": [layout for layout in layouts if layout in wanted]} if len(layouts) > 1 else {}


def _rows(p: Product) -> list[int]:
    """Return the possible numbers of rows of the register tile."""
    return [r for r in ROWS if r <= p.m and fits_registers(p.target, r, 1)]


def _widths(p: Product) -> list[int]:
    """Return the numbers of vectors in a row of the register tile; a single row has the accumulators of several."""
    widths = VECTORS if p.m > 1 else (*VECTORS, 8, 12)
    return [v for v in widths if v == 1 or v <= p.vectors]


def _layouts(p: Product) -> list[str]:
    """Return the ways to multiply that can be the best."""
    if p.packed:
        return [PACKED]
    caches, b_bytes = p.target.caches, p.k * p.n * p.itemsize
    packed = [PACKED] if p.m > 1 else []
    direct = [DIRECT] if p.m < _REUSE or b_bytes <= caches.l2 // 2 else []
    stream = [STREAM] if p.m <= _STREAM_ROWS else []
    return packed + direct + stream


def _powers(extent: int) -> list[int]:
    """Return the possible block sizes, in tiles."""
    return [1 << e for e in range(_MOST_TILES.bit_length()) if e == 0 or 1 << e < 2 * extent]


def _divisors_near(extent: int, wanted: Sequence[int]) -> list[int]:
    """Find, for each wanted block, a divisor of `extent` within a third of it, or the block itself for large extents.

    Blocks that divide the extent need no second copy of the kernel for a rest.
    """
    found = []
    for block in wanted:
        near = [d for d in range(block * 2 // 3, block * 4 // 3 + 1) if extent % d == 0 and d < extent]
        if near:
            found.append(min(near, key=lambda d: abs(d - block)))
        elif extent > 2 * block:
            found.append(block)
    return list(dict.fromkeys(found))


def _constrain(cfg: pb.TemplateConfig, p: Product, layouts: Sequence[str]) -> None:
    """Exclude configurations that cannot be fast, and duplicates."""

    def add(predicate: Callable[[pb.Config], bool], message: str, *reads: str) -> None:
        cfg.add_constraint(predicate, reads=(*(["layout"] if len(layouts) > 1 else []), *reads), message=message)

    def add_for(among: Sequence[str], predicate: Callable[[pb.Config], bool], message: str, *reads: str) -> None:
        add(lambda c: layout_of(c, p) not in among or predicate(c), message, *reads)

    _constrain_tile(add, partial(add_for, _TILED), p)
    tiles, blocks = ("mr", "nr", "k_block", "order"), ("y_tiles", "x_tiles") if p.m > 1 else ("x_tiles",)
    l2 = p.target.caches.l2
    block_message = f"a block takes {l2 >> 14} to {l2 >> 10} KiB, or all tiles that there are"
    add_for(_TILED, partial(_block_fits, p), block_message, *tiles, *blocks)
    if p.m > 1:
        message = "where one axis has a single tile, the other one is blocked"
        add_for(_TILED, partial(_order_matters, p), message, *tiles)
    if PACKED in layouts:
        message = "a panel takes at most what the last cache holds, and half of the tiles"
        add_for([PACKED], partial(_panel_fits, p), message, *tiles, "panel")
    if STREAM in layouts:
        message = "a stretch of C takes a part of L2, or all of C"
        add_for([STREAM], partial(_stretch_fits, p), message, "mr", "nr", "stretch")


def _constrain_tile(add: Callable[..., None], add_tiled: Callable[..., None], p: Product) -> None:
    sizes = [(r, v) for r in _rows(p) for v in _widths(p) if fits_registers(p.target, r, v)]
    least = min(LATENCY, max(r * v for r, v in sizes))

    def shape(c: pb.Config) -> tuple[int, int]:
        """Rows and vectors of the register tile."""
        return c["mr"].val, c["nr"].val // p.lanes

    message = f"the register tile and its operands take at most {p.target.vector_registers} vectors"
    add(lambda c: fits_registers(p.target, *shape(c)), message, "mr", "nr")
    message = f"the register tile takes at least {least} vectors, to hide the latency of additions"
    add_tiled(lambda c: math.prod(shape(c)) >= least, message, "mr", "nr")
    if p.m >= 4 and p.vectors >= 2:
        message = "the register tile has more multiply-adds than loads"
        add_tiled(lambda c: is_balanced(*shape(c)), message, "mr", "nr")
    message = f"the innermost body has at most {BODY} multiply-adds"
    add(lambda c: math.prod(shape(c)) * c["unroll_k"].val <= BODY, message, "mr", "nr", "unroll_k")


def _axes(p: Product, c: KnobValues) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the tiles along the blocked axis and the bytes of one tile's operand, then those of the streamed axis."""
    depth = (c["k_block"].val or p.k) * p.itemsize
    y = -(-p.m // c["mr"].val), c["mr"].val * depth
    x = -(-p.n // c["nr"].val), c["nr"].val * depth
    return (y, x) if c["order"].val == ROWS_STAY else (x, y)


def _blocks(p: Product, c: pb.Config) -> int:
    """Count the iterations of the loop that threads share, over stretches of C, panels, or blocks."""
    if layout_of(c, p) == STREAM:
        return int(-(-math.ceil(p.n / c["nr"].val) // c["stretch"].val))
    (blocked, _), (streamed, _) = _axes(p, c)
    if layout_of(c, p) == PACKED and c["panel"].val:
        return int(-(-streamed // c["panel"].val))
    return int(-(-blocked // c["y_tiles" if c["order"].val == ROWS_STAY else "x_tiles"].val))


def _order_matters(p: Product, c: pb.Config) -> bool:
    (blocked, _), (streamed, _) = _axes(p, c)
    return bool(blocked > 1 or (streamed == 1 and c["order"].val == ROWS_STAY))


def _block_fits(p: Product, c: pb.Config) -> bool:
    tiles, size = _axes(p, c)[0]
    block = c["y_tiles" if c["order"].val == ROWS_STAY else "x_tiles"].val
    enough = block >= min(tiles, _MOST_TILES) or block * size >= p.target.caches.l2 // 16
    return bool(block < 2 * tiles and enough and (block == 1 or block * size <= p.target.caches.l2))


def is_one_block(p: Product, c: KnobValues) -> bool:
    """Decide if one block has all tiles of the operand that stays in cache."""
    return bool(_axes(p, c)[0][0] <= c["y_tiles" if c["order"].val == ROWS_STAY else "x_tiles"].val)


def fetches_panels(p: Product, c: KnobValues) -> bool:
    """Decide if panels of B, as the kernel gets it, are prefetched, because they fit L2 with the panels in use.

    Panels of a single tile of rows are read once, in long runs, which the hardware prefetches.
    """
    return bool(
        (p.packed or _waits_for_b(p, c))
        and p.m > c["mr"].val
        and weight_blocks.next_fits(_bytes_at_once(p, c), p.target)
    )


def _waits_for_b(p: Product, c: KnobValues) -> bool:
    """Decide if the product waits for a B that is not packed ahead and is read block by block.

    With many rows, packing is a small part of the time.
    """
    is_far = p.k * p.n * p.itemsize > p.target.caches.l2
    by_blocks = layout_of(c, p) == DIRECT or (c["order"].val == COLUMNS_STAY and not p.lead)
    return is_far and by_blocks and p.m <= weight_blocks.FEW_RESULTS


def _weights_come_in_time(p: Product, c: pb.Config) -> bool:
    """Decide if nearly all panels of B are prefetched while others are multiplied."""
    return fetches_panels(p, c) and bool(weight_blocks.is_small(_bytes_at_once(p, c), p.k * p.n * p.itemsize))


def _waits_for_l3(p: Product) -> bool:
    """Decide if a product takes longer when L2 does not keep the blocks of a B that is not packed ahead.

    This needs so few rows that reading B takes a large part of the time, and vectors so wide that they are multiplied
    faster than L3 delivers them.
    """
    is_far = 2 * p.k * p.n * p.itemsize > p.target.caches.l2
    is_wide = p.target.vector_bits >= WIDE_BITS
    return is_far and is_wide and not p.lead and _FEWEST <= p.m <= weight_blocks.FEW_RESULTS


def _stays_in_l2(p: Product, c: pb.Config) -> bool:
    """Decide if L2 keeps everything that is read again: blocks, packed panels, and sums over parts of the reduction.

    Other configurations read B or panels from L3 once for each tile or each block of rows. If B is read as it is and
    its rows are long, each row of a tile is in a separate page: for many tiles, packing takes less time. All of B is
    packed without a prefetch, which takes long.
    """
    l2 = p.target.caches.l2
    if c["k_block"].val and 2 * p.m * p.n * p.itemsize > l2:
        return False
    is_packed, rows_stay = layout_of(c, p) == PACKED, c["order"].val == ROWS_STAY
    (tiles, size), (_, streamed_size) = _axes(p, c)
    block = min(c["y_tiles" if rows_stay else "x_tiles"].val, tiles) * size
    if not is_packed and p.m > (_FEW_ROWS if p.n * p.itemsize >= _PAGE else 2 * _FEW_ROWS):
        return False
    if not rows_stay:
        return bool(_B_PARTS * (block if is_packed else _bytes_at_once(p, c)) <= l2)
    if is_packed:
        return bool(0 < 2 * c["panel"].val * streamed_size <= l2 and 2 * block <= l2)
    return is_one_block(p, c) and _B_PARTS * _bytes_at_once(p, c) <= l2 and 2 * block <= l2


def _bytes_at_once(p: Product, c: KnobValues) -> int:
    """Return the bytes of cache for the panels of B that are read for all rows of a block before other panels.

    Rows whose distance is a multiple of a large power of two share few sets: their parts need as much cache as longer
    ones.
    """
    tiles: int = 1 if c["order"].val == ROWS_STAY else c["x_tiles"].val
    run = tiles * c["nr"].val * p.itemsize
    if not p.packed:
        run = max(run, math.gcd(p.n * p.itemsize, _PAGE))
    return int(run * (c["k_block"].val or p.k))


def _panel_fits(p: Product, c: pb.Config) -> bool:
    (tiles, size), panel, caches = _axes(p, c)[1], c["panel"].val, p.target.caches
    return bool(panel == 0 or (2 * panel <= tiles and panel * size <= max(caches.l2, caches.l3)))


def _stretch_fits(p: Product, c: pb.Config) -> bool:
    tiles, size = -(-p.n // c["nr"].val), c["mr"].val * c["nr"].val * p.itemsize
    stretch = c["stretch"].val
    enough = stretch >= min(tiles, _MOST_TILES) or stretch * size >= p.target.caches.l1 // 4
    return bool(stretch < 2 * tiles and enough and stretch * size <= p.target.caches.l2 // 2)
