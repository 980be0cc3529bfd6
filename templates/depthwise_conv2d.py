"""Depthwise 2-D convolution: C[n, c, y, x] = Σ data[n, c, y·s + kh·d - p, x·s + kw·d - p] · weight[c, kh, kw].

Each channel has its own filter, so blocking can only reduce the loads and stores of a core. The register tile is
`tile_h` rows by `tile_w` pixels of the result, by `vectors` vectors of channels for NHWC. Elements of the input that
several results of a tile need are loaded once.

- NHWC: vectors run along the channels. Nothing is copied: the filter's rows and columns in the border are skipped, for
  which loops are cut there (`where`). While a tile is computed, lines of the next pixels' results may be prefetched
  (`prefetch`).
- NCHW: vectors run along a row (`depthwise_rows`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

import pegbox as pb
from pegbox import te
from pegbox.codegen import LINE, Target
from pegbox.expr import nbytes
from pegbox.templates import threads
from pegbox.templates.conv_shape import Conv, Steps, Window, conv_shape
from pegbox.templates.conv_stages import inside
from pegbox.templates.conv_stages import plain_depthwise as plain
from pegbox.templates.depthwise_rows import (
    Loops,
    RowStages,
    copied_image,
    lanes_of_row,
    order_rows,
    place_rows,
    prefetch_rows,
    reads_rows,
    row_pieces,
    rows_read,
    sums_by_rows,
    sums_of_result,
    vector_sizes,
)
from pegbox.templates.register_tile import BODY, WIDE_BITS, is_first_name, write_out

STRIP, CHANNELS_OUTSIDE = "yxc", "cyx"
ACROSS_PIXELS = ("ycx", CHANNELS_OUTSIDE)
_ORDERS = (STRIP, *ACROSS_PIXELS)
_BLOCKED = ("cycx", "cyxc")
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


@pb.template("depthwise_conv2d")
def depthwise_conv2d(
    cfg: pb.TemplateConfig,
    N: int,
    C: int,
    H: int,
    W: int,
    KH: int,
    KW: int,
    stride: Steps = 1,
    padding: Steps = 0,
    dilation: Steps = 1,
    layout: str = "NCHW",
    weights: str = "",
    dtype: str = "float32",
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """Convolve N images of C channels, H × W; each channel has a filter of KH × KW; zeros around them.

    stride, padding and dilation are a number or a pair (rows, columns), and padding may be (top, left, bottom, right).
    `layout` is the layout of the input and of the result, "NCHW" or "NHWC"; `weights` is "OIHW" (C, 1, KH, KW), "OHWI"
    or "HWIO" (KH, KW, 1, C), by default "OIHW" for NCHW and "HWIO" for NHWC. float32 or float64; other types run,
    untuned.
    """
    conv = depthwise_shape(
        (N, C, H, W), (KH, KW), Window(stride, padding, dilation), layout, weights, dtype, cfg.target
    )
    data = te.placeholder(conv.data_shape, name="data", dtype=dtype)
    weight = te.placeholder(conv.weight_at(conv.c, 1, *conv.kernel), name="weight", dtype=dtype)
    flop = conv.flop / conv.c
    cfg.add_flop(flop)
    cfg.define_plain(lambda: [plain(conv, data, weight)])
    declare(cfg, conv)
    _fill_registers(cfg, conv)
    if _may_prefetch(conv):
        _declare_prefetch(cfg, conv)
    elif _reads_column_by_column(conv):
        cfg.prefer(lambda c: c["order"].val == CHANNELS_OUTSIDE and c["vectors"].val == 1)
    threads.declare(cfg, flop)
    stages = compute(cfg, conv, data, weight)
    s = te.create_schedule(stages.out.op)
    threads.share(cfg, s[stages.out], schedule(cfg, s, conv, stages))
    if _fetches_rows(conv):
        prefetch_rows(s, stages)
    return s, [data, weight, stages.out]


def depthwise_shape(
    data: tuple[int, int, int, int],
    kernel: tuple[int, int],
    window: Window,
    layout: str,
    weights: str,
    dtype: str,
    target: Target,
    *,
    name: str = "depthwise_conv2d",
) -> Conv:
    """Return the convolution of data (N, C, H, W) with a filter for each channel.

    Raises:
        TemplateError: an argument is not in its domain, or the image has no room for a window.
    """
    if not weights and layout == "NHWC":
        weights = "HWIO"
    return conv_shape(data, (data[1], *kernel), window, layout, weights, dtype, target, name=name, may_be_packed=False)


# Space ---------------------------------------------------------------------------------------------------------------


def declare(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Declare the knobs: the tile, the order of tiles, and the unrolling of the filter's rows."""
    found = tiles_of(conv)
    cfg.define_knob("tile_h", sorted({tile.height for tile in found}))
    cfg.define_knob("tile_w", sorted({tile.width for tile in found}))
    cfg.define_knob("unroll_kh", [True, False] if conv.kernel[0] > 1 else [True])
    if _is_last(conv):
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
    if _is_last(conv):
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


def _fill_registers(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Exclude half vectors of NCHW on cores that compute whole wide ones at once, and prefer tiles with few loads.

    A row has more halves than whole vectors.
    """
    if _is_last(conv) or not _has_wide_units(conv):
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
    return BODY if _is_last(conv) else _ROWS_BODY


def _may_prefetch(conv: Conv) -> bool:
    """Decide if the lines of the result may be prefetched: for NHWC, where most unaligned stores span lines.

    A store of a whole line then waits for two lines if the first-level cache does not have them. With more products or
    elements of the input for each result, other work hides that.
    """
    return _has_whole_lines(conv) and conv.stride == (1, 1) and math.prod(conv.kernel) <= _FEW_PRODUCTS


def _has_whole_lines(conv: Conv) -> bool:
    """Decide if vectors run along channels and have the size of a line."""
    return _is_last(conv) and conv.lanes * nbytes(conv.dtype) >= LINE


def _fetches_rows(conv: Conv) -> bool:
    """Decide if the lines of NCHW's results are fetched: if they come from beyond the second-level cache.

    Vectors have the size of a line, as for NHWC. With a stride, results are few, and reading the image takes longer.
    """
    has_lines = not _is_last(conv) and conv.lanes * nbytes(conv.dtype) >= LINE
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
    return _BLOCKED if has_single and channel_block(conv) else _ORDERS


def _is_first_name(conv: Conv, c: pb.Config, orders: tuple[str, ...]) -> bool:
    """Decide if an order is the first of those that are equal without loops of one iteration."""
    order, vectors, block = c["order"].val, c["vectors"].val, channel_block(conv)
    if order in _BLOCKED and (block % vectors or vectors == block):
        return False
    extents = {"y": (conv.out[0], "tile_h"), "x": (conv.out[1], "tile_w"), "c": (conv.vectors, "vectors")}
    left = [letter for letter, (extent, name) in extents.items() if extent > c[name].val]
    return is_first_name(order, orders, left)


def _is_last(conv: Conv) -> bool:
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
    heights = [h for h in (_HEIGHTS if _is_last(conv) else _ROWS) if conv.out[0] % h == 0]
    if _is_last(conv) and max(heights) < _FEW_ROWS <= conv.out[0]:
        heights.append(_FEW_ROWS)
    elif not _is_last(conv) and _is_low(conv, max(heights)):
        heights = [h for h in _ROWS if h <= conv.out[0]]  # the last tile of an image has fewer rows
    if _is_last(conv):
        widths = [w for w in _WIDTHS if w <= conv.out[1]]
        vectors = [v for v in _VECTORS if v == 1 or (v - 1) * conv.lanes < conv.c]
        tiles = [_Tile(h, w, v, conv.lanes, h * w * v) for h, w, v in itertools.product(heights, widths, vectors)]
    else:
        pieces = [(w, lanes) for lanes in vector_sizes(conv) for w in row_pieces(conv, lanes, _room(conv, 1))]
        tiles = [_Tile(h, w, 1, lanes, h * w // lanes) for h, (w, lanes) in itertools.product(heights, pieces)]
    fitting = [tile for tile in tiles if tile.accumulators <= _room(conv, tile.vectors)]
    fewest = min(_FEWEST, max(tile.accumulators for tile in fitting))
    sums = 1 if _is_last(conv) else max(sums_of_result(conv), 1)
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


# Computation -------------------------------------------------------------------------------------------------------


def compute(cfg: pb.TemplateConfig, conv: Conv, data: te.Tensor, weight: te.Tensor) -> RowStages:
    """Return the result and the stages before it for a configuration."""
    if not _is_last(conv) and reads_rows(cfg, conv):
        return sums_by_rows(cfg, conv, data, weight)
    kh, kw = (te.reduce_axis((0, size), name=name) for size, name in zip(conv.kernel, ("kh", "kw"), strict=True))
    copied = None if _is_last(conv) or not cfg["copy"].val else copied_image(cfg, conv, data)
    (sy, sx), (dy, dx) = conv.stride, conv.dilation

    def element(*index: te.Expr) -> te.Expr:
        n, c, y, x = conv.named(index)
        factor = weight(*conv.weight_at(c, te.const(0, "int64"), kh, kw))
        if copied is not None:
            value = copied(n, c, y * sy + kh * dy, kw * dx % sx, x + kw * dx // sx)
            return te.sum(value * factor, axis=[kh, kw])
        at = [y * sy + kh * dy - conv.padding[0], x * sx + kw * dx - conv.padding[1]]
        value = data(*conv.at(n, c, *at))
        rows, columns = inside(conv, 0, at[0]), inside(conv, 1, at[1])
        if _is_last(conv) or 2 * cfg["tile_w"].val < conv.out[1]:
            rows += columns  # loops are cut there
            columns = []
        zero = te.const(0, conv.dtype)
        if columns and conv.target.vector_bits >= WIDE_BITS:
            product = te.if_then_else(te.all(*columns), value * factor, zero)  # one multiply-add under a mask
        else:
            product = (te.if_then_else(te.all(*columns), value, zero) if columns else value) * factor
        return te.sum(product, axis=[kh, kw], where=te.all(*rows) if rows else None)

    tile = te.compute(conv.out_shape, element, name="tile")
    return RowStages(te.compute(conv.out_shape, lambda *at: tile(*at), name="C"), tile, copied)


# Schedule ----------------------------------------------------------------------------------------------------------


def schedule(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, stages: RowStages) -> te.IterVar:
    """Order the loops by the configuration, and return the outermost one of the result."""
    first, place = (_channel_vectors if _is_last(conv) else order_rows)(cfg, s, conv, stages)
    tile = s[stages.tile]
    tile.set_scope("local")
    tile.compute_at(s[stages.out], place)
    *outer, last = tile.op.axis
    vectors, lanes = tile.split(last, factor=conv.lanes if _is_last(conv) else lanes_of_row(cfg, conv))
    if stages.row:
        write_out(tile, lanes, [*outer, vectors])
        place_rows(s, stages, place)
        return first
    kh, kw = tile.op.reduce_axis
    if not _is_last(conv) and cfg["unroll_kh"].val and not cfg["copy"].val:
        # Successive products belong to different sums, and registers hold the rows of one shift at a time.
        loops = [kw, vectors, kh, *outer]
    else:
        loops = [kh, *outer, kw, vectors]
    tile.reorder(*loops, lanes)
    write_out(tile, lanes, loops if cfg["unroll_kh"].val else loops[1:])
    return first


def _channel_vectors(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, stages: RowStages) -> Loops:
    """Order the loops of the result for NHWC."""
    out = s[stages.out]
    n, y, x, c = out.op.axis
    order, blocks = cfg["order"].val, []
    if order in _BLOCKED:
        block, c = out.split(c, factor=channel_block(conv) * conv.lanes)
        order, blocks = order[1:], [block]
    ct, ci = out.split(c, factor=cfg["vectors"].val * conv.lanes)
    cv, cl = out.split(ci, factor=conv.lanes)
    yt, yi = out.split(y, factor=cfg["tile_h"].val)
    xt, xi = out.split(x, factor=cfg["tile_w"].val)
    by_name = {"y": yt, "x": xt, "c": ct}
    loops = [*blocks, *(by_name[letter] for letter in order)]
    out.reorder(n, *loops, yi, xi, cv, cl)
    write_out(out, cl, (yi, xi, cv))
    if "prefetch" in cfg.space.knobs and cfg["prefetch"].val:
        out.prefetch(stages.out, xt, among=s[stages.tile].op.reduce_axis[0])
    return Loops(out.fuse(n, loops[0]), loops[-1])
