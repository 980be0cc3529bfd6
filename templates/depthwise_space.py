"""The knobs of `depthwise_conv2d`: register tiles, orders of tiles, unrolling, prefetches."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

import pegbox as pb
from pegbox.codegen import LINE
from pegbox.expr import nbytes
from pegbox.templates.conv_shape import Conv
from pegbox.templates.depthwise_rows import lanes_of_row, row_pieces, rows_read, sums_of_result, vector_sizes
from pegbox.templates.register_tile import BODY, WIDE_BITS, is_first_name

STRIP, CHANNELS_OUTSIDE = "yxc", "cyx"
ACROSS_PIXELS = ("ycx", CHANNELS_OUTSIDE)
_ORDERS = (STRIP, *ACROSS_PIXELS)
BLOCKED = ("cycx", "cyxc")
"""The orders of the loops over tiles of NHWC, outermost first: rows, pixels of a row, channels.

If channels occur twice, blocks of them are outermost, and the channels of a block further inside.
"""

_PIXEL_BY_PIXEL = (STRIP, "cyxc")
"""The orders in which tiles of the same pixels are consecutive."""

_FIELDS = {"tile_h": "height", "tile_w": "width", "vectors": "vectors", "lanes": "lanes"}
_HEIGHTS = (1, 2, 3, 4, 5, 6, 7, 8)
_FEW_ROWS = 4
"""A further height of NHWC's tiles, if neither it nor a larger one divides the rows of the result.

Lower tiles read rows of the input again, which takes longer than the missing rows of a last tile.
"""

_ROWS = (*_HEIGHTS, 10, 12, 14, 16)
"""The heights of NCHW's tiles, which may be one vector wide: high tiles use a row of the input for more results."""

_HIGH = 6
"""The height of a tile of NCHW beyond which more rows save few loads."""

_FAR_MORE = 1.25
"""The ratio of rows that low and high tiles read at which the loads of low tiles begin to outlast multiply-adds."""

_ROWS_BODY = 400
"""The most multiply-adds of NCHW's innermost body, in which a row of the input is loaded once for all of its uses."""

_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 14)
_VECTORS = (1, 2, 3, 4, 6, 8)
_FEWEST = 4
"""The fewest accumulators of a tile, whose multiply-adds overlap with those of the next tile."""

_MOST_OF_CACHE = 0.7
"""The share of the second-level cache from which on stores wait for lines, as measured on an Emerald Rapids."""

_FEWEST_LINES = 4
"""The fewest lines of a pixel that are read together."""

_FEW_PRODUCTS = 16
"""The most products of a result for which its store takes a large part of the time."""

_SETS = 64
"""The number of sets of the first-level cache: a line's set is its number modulo this."""

_OTHERS = 2
"""The number of registers for elements of the input."""


def declare(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Declare the knobs: the tile, the order of tiles, and the unrolling of the filter's rows."""
    found = tiles_of(conv)
    cfg.define_knob("tile_h", sorted({tile.height for tile in found}))
    cfg.define_knob("tile_w", sorted({tile.width for tile in found}))
    cfg.define_knob("unroll_kh", [True, False] if conv.kernel[0] > 1 else [True])
    if is_last(conv):
        cfg.define_knob("vectors", sorted({tile.vectors for tile in found}))
        orders = _orders(conv, found)
        cfg.define_knob("order", list(orders))
    else:
        cfg.define_knob("copy", [False, True])
        if len(vector_sizes(conv)) > 1:
            cfg.define_knob("lanes", vector_sizes(conv))
    names = [name for name in _FIELDS if name in cfg.space.knobs]
    sizes = {tuple(getattr(tile, _FIELDS[name]) for name in names): tile.accumulators for tile in found}
    cfg.add_constraint(
        lambda c: tuple(c[name].val for name in names) in sizes,
        reads=names,
        message="accumulators fit the registers, and hide the latency",
    )
    if is_last(conv):
        cfg.add_constraint(
            lambda c: _is_first_name(conv, c, orders),
            reads=(*names, "order"),
            message="an order of loops has one name",
        )
    cfg.add_constraint(
        lambda c: not c["unroll_kh"].val or is_short(conv, sizes.get(tuple(c[name].val for name in names), 0)),
        reads=(*names, "unroll_kh"),
        message=f"the innermost body has at most {_most_steps(conv)} multiply-adds",
    )


def refine(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Declare what only a depthwise convolution by itself has: a knob of prefetches, and preferences."""
    _fill_registers(cfg, conv)
    if _may_prefetch(conv):
        _declare_prefetch(cfg, conv)
    elif _reads_column_by_column(conv):
        cfg.prefer(lambda c: c["order"].val == CHANNELS_OUTSIDE and c["vectors"].val == 1)


def _fill_registers(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Exclude half vectors of NCHW on cores that compute whole wide ones at once, and prefer tiles with few loads.

    A row has more halves than whole vectors.
    """
    if is_last(conv) or not _has_wide_units(conv):
        return
    if "lanes" in cfg.space.knobs:
        widest = max(tile.lanes for tile in tiles_of(conv))
        cfg.add_constraint(
            lambda c: c["lanes"].val == widest,
            reads=("lanes",),
            message="half a vector takes as long as a whole one",
        )
    cfg.prefer(lambda c: _loads_little(c, conv))


def _has_wide_units(conv: Conv) -> bool:
    """Decide if a core computes whole wide vectors at once."""
    return conv.target.vector_bits >= WIDE_BITS and conv.target.multiply_adds > 1


def _loads_little(c: pb.Config, conv: Conv) -> bool:
    """Decide if a tile of NCHW loads each row once for all of its sums, with two multiply-adds for each load at least.

    Most loads span two lines and take twice as long. The rows stay in registers together with the sums and the taps.
    Tiles of less than half a row have separate loops at the border, for fewer lanes.
    """
    height, width, (kh, kw) = c["tile_h"].val, c["tile_w"].val, conv.kernel
    rows = rows_read(conv, height)
    vectors = height * width // lanes_of_row(c, conv) + rows + kw
    is_direct = c["unroll_kh"].val and not c["copy"].val and 2 * width >= conv.out[1]
    return bool(is_direct and 2 * rows <= height * kh and vectors <= conv.target.vector_registers)


def is_short(conv: Conv, accumulators: int) -> bool:
    """Decide if a tile with this number of accumulators may write out the rows of the filter."""
    return math.prod(conv.kernel) * accumulators <= _most_steps(conv)


def _most_steps(conv: Conv) -> int:
    return BODY if is_last(conv) else _ROWS_BODY


def _may_prefetch(conv: Conv) -> bool:
    """Decide if the lines of the result may be prefetched: for NHWC, where most unaligned stores span lines.

    A store of a whole line then waits for two lines if the first-level cache does not have them. With more products or
    elements of the input for each result, other work hides that.
    """
    return _has_whole_lines(conv) and conv.stride == (1, 1) and math.prod(conv.kernel) <= _FEW_PRODUCTS


def _has_whole_lines(conv: Conv) -> bool:
    """Decide if vectors run along channels and have the size of a line."""
    return is_last(conv) and conv.lanes * nbytes(conv.dtype) >= LINE


def fetches_rows(conv: Conv) -> bool:
    """Decide if the lines of NCHW's results are fetched: if they come from beyond the second-level cache.

    Vectors have the size of a line, as for NHWC. With a stride, results are few, and reading the image takes longer.
    """
    has_lines = not is_last(conv) and conv.lanes * nbytes(conv.dtype) >= LINE
    return has_lines and conv.stride == (1, 1) and _bytes(conv) > _MOST_OF_CACHE * conv.target.caches.l2


def _declare_prefetch(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Declare the knob, and let predictions begin with prefetches if pixels are not aligned to lines.

    Arrays that nearly fill the second-level cache are prefetched, too. Other results are stored a little faster without
    prefetches if they are aligned to lines, as in models.
    """
    cfg.define_knob("prefetch", [False, True])
    cfg.add_constraint(
        lambda c: not c["prefetch"].val or (c["order"].val in _PIXEL_BY_PIXEL and c["tile_w"].val < conv.out[1]),
        reads=("order", "tile_w", "prefetch"),
        message="lines of the next pixels are prefetched where all channels of a pixel follow each other",
    )
    prefers = conv.c % conv.lanes != 0 or _bytes(conv) > _MOST_OF_CACHE * conv.target.caches.l2
    cfg.prefer(lambda c: c["prefetch"].val == prefers)


def _reads_column_by_column(conv: Conv) -> bool:
    """Decide if predictions begin with one vector of channels after the other, as large filters read rows many times.

    The second-level cache holds the arrays, and the first-level cache holds the rows of a vector, but not those of all
    channels. If the distance of pixels is a power of two, they share few of its sets. Orders with blocks of channels
    need no preference, because the first-level cache holds the rows of a block.
    """
    is_large = math.prod(conv.kernel) > _FEW_PRODUCTS and _bytes(conv) <= conv.target.caches.l2
    is_partly_held = _lines_of_all_sets(conv) <= _held_vectors(conv) < conv.vectors
    return _has_whole_lines(conv) and is_large and is_partly_held and not channel_block(conv)


def _lines_of_all_sets(conv: Conv) -> int:
    """Return the fewest lines of each pixel that together lie in all sets of the first-level cache."""
    return max(1, math.gcd(conv.c * nbytes(conv.dtype), _SETS * LINE) // LINE)


def _bytes(conv: Conv) -> int:
    """Count the bytes of the input and the result."""
    return (math.prod(conv.data_shape) + math.prod(conv.out_shape)) * nbytes(conv.dtype)


def channel_block(conv: Conv) -> int:
    """Return the vectors of a block of channels whose rows for a row of results fit half the first-level cache.

    If all channels of a row are computed first, the next row reads rows again that have left this cache; in a block of
    channels they are still there. Blocks have the same number of vectors. A block of `_FEWEST_LINES` lines of a pixel
    may fill two thirds of the cache, if these lines lie in all of its sets. The result is 0 (no blocks) if a block
    would have all channels or fewer lines, or if arrays come from beyond the second-level cache, from which whole rows
    are read faster.
    """
    if _bytes(conv) > conv.target.caches.l2:
        return 0
    fewest = -(-_FEWEST_LINES * LINE // (conv.lanes * nbytes(conv.dtype)))
    held = _held_vectors(conv)
    if _lines_of_all_sets(conv) <= _FEWEST_LINES:
        held = max(held, min(fewest, _held_vectors(conv, 2 / 3)))
    block = max((count for count in range(1, held + 1) if conv.vectors % count == 0), default=0)
    return block if fewest <= block < conv.vectors else 0


def _held_vectors(conv: Conv, share: float = 0.5) -> int:
    """Return the number of vectors of channels whose rows for a row of results fit a share of the first-level cache."""
    row = conv.size[1] * conv.lanes * nbytes(conv.dtype)
    return int(share * conv.target.caches.l1) // (row * (conv.reach[0] + 2))


def _orders(conv: Conv, tiles: Iterable[_Tile]) -> tuple[str, ...]:
    if conv.c <= conv.lanes:
        return (STRIP,)
    has_single = any(tile.vectors == 1 for tile in tiles)  # other numbers of vectors may not divide a block
    return BLOCKED if has_single and channel_block(conv) else _ORDERS


def _is_first_name(conv: Conv, c: pb.Config, orders: tuple[str, ...]) -> bool:
    """Decide if an order is the first of those that are equal without loops of one iteration."""
    order, vectors, block = c["order"].val, c["vectors"].val, channel_block(conv)
    if order in BLOCKED and (block % vectors or vectors == block):
        return False
    extents = {"y": (conv.out[0], "tile_h"), "x": (conv.out[1], "tile_w"), "c": (conv.vectors, "vectors")}
    left = [letter for letter, (extent, name) in extents.items() if extent > c[name].val]
    return is_first_name(order, orders, left)


def is_last(conv: Conv) -> bool:
    return conv.layout == "NHWC"


class _Tile(NamedTuple):
    """`height` × `width` pixels, by `vectors` vectors of channels (NHWC), or in vectors of `lanes` pixels (NCHW)."""

    height: int
    width: int
    vectors: int
    lanes: int
    accumulators: int


def _room(conv: Conv, vectors: int) -> int:
    """Return the number of registers left for accumulators by a row of the filter's taps, each of `vectors` vectors."""
    return max(conv.target.vector_registers - _OTHERS - conv.kernel[1] * vectors, _FEWEST)


def tiles_of(conv: Conv) -> frozenset[_Tile]:
    """Return the tiles with enough accumulators to hide latency, but with registers left for taps and elements."""
    heights = [h for h in (_HEIGHTS if is_last(conv) else _ROWS) if conv.out[0] % h == 0]
    if is_last(conv) and max(heights) < _FEW_ROWS <= conv.out[0]:
        heights.append(_FEW_ROWS)
    elif not is_last(conv) and _is_low(conv, max(heights)):
        heights = [h for h in _ROWS if h <= conv.out[0]]  # the last tile of an image has fewer rows
    if is_last(conv):
        widths = [w for w in _WIDTHS if w <= conv.out[1]]
        vectors = [v for v in _VECTORS if v == 1 or (v - 1) * conv.lanes < conv.c]
        tiles = [_Tile(h, w, v, conv.lanes, h * w * v) for h, w, v in itertools.product(heights, widths, vectors)]
    else:
        pieces = [(w, lanes) for lanes in vector_sizes(conv) for w in row_pieces(conv, lanes, _room(conv, 1))]
        tiles = [_Tile(h, w, 1, lanes, h * w // lanes) for h, (w, lanes) in itertools.product(heights, pieces)]
    fitting = [tile for tile in tiles if tile.accumulators <= _room(conv, tile.vectors)]
    fewest = min(_FEWEST, max(tile.accumulators for tile in fitting))
    sums = 1 if is_last(conv) else max(sums_of_result(conv), 1)
    return frozenset(tile for tile in fitting if sums * tile.accumulators >= fewest)


def _is_low(conv: Conv, height: int) -> bool:
    """Decide if a tile of NCHW has too few accumulators, or reads many more rows for each of its own than high ones.

    Most loads of wide vectors span two lines, so the further loads of low tiles cost more than missing rows of a last
    tile.
    """
    if height == 1 or height * -(-conv.out[1] // conv.lanes) < _FEWEST:
        return True
    high = min(_HIGH, conv.out[0])
    return _has_wide_units(conv) and rows_read(conv, height) / height >= _FAR_MORE * rows_read(conv, high) / high
