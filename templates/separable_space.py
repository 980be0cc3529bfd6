"""The knobs of `separable_conv2d` without those of its depthwise part: blocks of rows, tiles of sums over channels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from functools import lru_cache

import pegbox as pb
from pegbox.codegen import fits_registers
from pegbox.expr import nbytes
from pegbox.task import KnobValues
from pegbox.templates import depthwise_space
from pegbox.templates.conv_choices import CHANNELS, PIXELS
from pegbox.templates.conv_shape import HALVES_OF_WIDE, PACKED, Conv
from pegbox.templates.depthwise_rows import lanes_of_row, reads_rows, sums_of_result
from pegbox.templates.register_tile import BODY, ROWS, VECTORS, WIDE_BITS, step_cost

PIXELS_OUTSIDE, CHANNELS_OUTSIDE = "po", "op"
"""The values of `order_tiles`: the outer loop over the register tiles of a block."""

_NAMES = {CHANNELS: ("point_h", "point_w", "point_vectors"), PIXELS: ("point_o", "point_vectors")}
"""The knobs of a register tile, by the dimension that its vectors run along."""

_HEIGHTS = (1, 2, 4, 7)
_UNROLLED = (1, 2, 4, 8)
_FEWEST = 4
"""The fewest vectors of a depthwise tile of rows with which predictions begin, if there are such tiles."""
_NEAR = 1.15
"""The largest cost of a register tile that is worth trying, relative to the lowest cost."""
_NEARER = 1.05
"""The largest cost of the fastest tile with lanes along one dimension, relative to the other one."""
_FAR = 2.0
"""The half cycles for a vector of pixels beyond the first-level cache: channels are too far apart to be prefetched."""
_TURN = 3.0
"""The half cycles for each step of the transposition of a wide vector of channels, with its share of loads and stores.

Narrower vectors take half as many: cores shuffle two at a time.
"""


def declare(cfg: pb.TemplateConfig, first: Conv, point: Conv) -> None:
    """Declare the rows of a block and the register tile of the sums over channels, after the depthwise knobs."""
    (rows, columns), ways = point.out, [CHANNELS] if point.layout == "NHWC" else [PIXELS, CHANNELS]
    row_bytes = columns * point.c * nbytes(point.dtype)
    held, lowest = cfg.target.caches.l2 // row_bytes, min(_values(cfg, "tile_h"))
    least = lowest if rows % lowest == 0 else rows
    blocks = [b for b in range(1, rows + 1) if rows % b == 0 and (b in (1, least) or b <= held)]
    rivals = {block: [block] for block in blocks}
    if point.layout == "NCHW":
        heights = _values(cfg, "tile_h")
        blocks = [block for block in blocks if any(_has_whole_tiles(block, height, rows) for height in heights)]
        rivals = dict.fromkeys(blocks, blocks)
        cost = _least_cost(point, blocks, ways)
        ways = [way for way in ways if _least_cost(point, blocks, [way]) <= _NEARER * cost]
    found = {
        (block, way): tiles
        for block, way in itertools.product(blocks, ways)
        if (tiles := _tiles(point, block, way, _NEAR * _least_cost(point, rivals[block], ways)))
    }
    blocks = [block for block in blocks if any(block == size for size, _ in found)]
    cfg.define_knob("block", blocks)
    if point.layout == "NCHW":
        cfg.define_knob("point_lanes", ways)
    for name in sorted({name for way in ways for name in _NAMES[way]}):
        of_name = [way for way in ways if name in _NAMES[way]]
        sizes = {tile[_NAMES[way].index(name)] for block, way in found if way in of_name for tile in found[block, way]}
        cfg.define_knob(name, sorted(sizes), when={} if of_name == ways else {"point_lanes": of_name[0]})
    cfg.define_knob("order_tiles", [PIXELS_OUTSIDE, CHANNELS_OUTSIDE])
    cfg.define_knob("unroll_c", [u for u in _UNROLLED if point.c % u == 0])
    reads = tuple(name for name in ("point_lanes", *_NAMES[PIXELS], *_NAMES[CHANNELS][:2]) if name in cfg.space.knobs)
    cfg.add_constraint(
        lambda c: _tile(c, point) in found.get((c["block"].val, lanes_along(c, point)), ()),
        reads=("block", *reads),
        message="the register tile fits the registers, and has few loads",
    )
    cfg.add_constraint(
        lambda c: math.prod(_tile(c, point)) * c["unroll_c"].val <= BODY,
        reads=(*reads, "unroll_c"),
        message=f"the innermost body has at most {BODY} multiply-adds",
    )
    cfg.add_constraint(
        lambda c: c["order_tiles"].val == PIXELS_OUTSIDE or min(_counts(c, point)) > 1,
        reads=("block", *reads, "order_tiles"),
        message="an order of tiles has one name",
    )
    _constrain_depthwise(cfg, first)


def prefer(cfg: pb.TemplateConfig, first: Conv) -> None:
    """Let predictions begin with depthwise parts that read the image in long runs (NHWC), or each row once (NCHW)."""
    if first.layout == "NHWC":
        cfg.prefer(lambda c: _goes_along_pixels(c, first))
        return
    tiles = [tile for tile in depthwise_space.tiles_of(first) if _has_whole_pieces(first, tile.width)]
    most = max((tile.height * tile.width for tile in tiles), default=0)
    cfg.prefer(lambda c: _has_fast_rows(c, first, most))


def _has_whole_pieces(first: Conv, width: int) -> bool:
    """Decide if all pieces of a row are equally wide, or the row is one piece."""
    return width >= first.out[1] or first.out[1] % width == 0


def _goes_along_pixels(c: pb.Config, first: Conv) -> bool:
    """Decide if a pixel's channels, or those of a block that the first-level cache holds, are read together."""
    return first.c <= first.lanes or c["order"].val not in depthwise_space.ACROSS_PIXELS


def _has_fast_rows(c: pb.Config, first: Conv, most: int) -> bool:
    """Decide if tiles have several whole vectors, or `most` pixels, and read each row once, from the image."""
    width = c["tile_w"].val
    if c["copy"].val or not c["unroll_kh"].val or not _has_whole_pieces(first, width):
        return False
    return bool(c["tile_h"].val * width >= min(lanes_of_row(c, first) * _FEWEST, most))


def _row_cost(first: Conv, lanes: int) -> float:
    """Estimate the time of a row's vectors; half a wide one takes less time only on cores that compute it in halves."""
    takes_half = lanes < first.lanes and first.target.multiply_adds == 1
    return -(-first.out[1] // lanes) * (HALVES_OF_WIDE / 2 if takes_half else 1.0)


def _constrain_depthwise(cfg: pb.TemplateConfig, first: Conv) -> None:
    """Require whole depthwise tiles in a block, whole rows for a stride in NCHW, and one name for each order."""
    cfg.add_constraint(
        lambda c: _has_whole_tiles(c["block"].val, c["tile_h"].val, first.out[0]),
        reads=("block", "tile_h"),
        message="a block has whole tiles of the depthwise convolution",
    )
    if "order" in cfg.space.knobs:
        cfg.add_constraint(
            lambda c: c["order"].val != depthwise_space.CHANNELS_OUTSIDE or c["block"].val > c["tile_h"].val,
            reads=("order", "block", "tile_h"),
            message="an order of loops has one name",
        )
    else:
        _constrain_rows(cfg, first)


def _has_whole_tiles(block: int, height: int, rows: int) -> bool:
    """Decide if depthwise tiles divide a block, or it has all rows, so that its last tile may have fewer."""
    return block % height == 0 or block == rows >= height


def _constrain_rows(cfg: pb.TemplateConfig, first: Conv) -> None:
    """Exclude slow depthwise tiles of NCHW: if registers hold tiles of whole rows, others take twice the time."""
    blocks = _values(cfg, "block")
    tiles = [
        tile
        for tile in depthwise_space.tiles_of(first)
        if any(_has_whole_tiles(block, tile.height, first.out[0]) for block in blocks)
    ]
    if "lanes" in cfg.space.knobs:
        least = min(_row_cost(first, tile.lanes) for tile in tiles)
        tiles = [tile for tile in tiles if _row_cost(first, tile.lanes) <= _NEAR * least]
        cfg.add_constraint(
            lambda c: _row_cost(first, lanes_of_row(c, first)) <= _NEAR * least,
            reads=("lanes",),
            message="vectors of a row take about the least time",
        )
    if max(_values(cfg, "tile_w")) < first.out[1]:
        return
    cfg.add_constraint(lambda c: not c["copy"].val, reads=("copy",), message="the image is read as it is")
    whole = [tile for tile in tiles if tile.width >= first.out[1]]
    if sums_of_result(first) and any(depthwise_space.is_short(first, tile.accumulators) for tile in whole):
        cfg.add_constraint(
            lambda c: reads_rows(c, first),
            reads=("tile_w", "copy", "unroll_kh"),
            message="every second column is picked from whole rows in registers",
        )


def _values(cfg: pb.TemplateConfig, name: str) -> list[int]:
    return [value for entity in cfg.space.knobs[name].entities if isinstance(value := entity.value(), int)]


def lanes_along(c: KnobValues, point: Conv) -> str:
    """Return the dimension along which vectors of sums run."""
    return CHANNELS if point.layout == "NHWC" else str(c["point_lanes"].val)


def is_prefetched(first: Conv, point: Conv) -> bool:
    """Decide if the next block's rows of the image are prefetched: if image and result exceed the second-level cache.

    In NCHW these rows are not contiguous, so the address of each line would take divisions.
    """
    return (
        first.layout == "NHWC"
        and (math.prod(first.data_shape) + math.prod(point.out_shape)) * nbytes(first.dtype) > first.target.caches.l2
    )


def has_half_vector(point: Conv) -> bool:
    """Decide if only half of the last vector of output channels is computed, because this takes half the time.

    LLVM moves sums of half a vector to another register in each step, and spills them if a loop body has several steps.
    """
    return point.target.multiply_adds == 1 and point.lanes_used < point.vectors * point.lanes


def _tile(c: pb.Config, point: Conv) -> tuple[int, ...]:
    return tuple(c[name].val for name in _NAMES[lanes_along(c, point)])


def _counts(c: pb.Config, point: Conv) -> tuple[int, int]:
    """Count the tiles of output channels, and the tiles of a block's pixels."""
    columns, block, tile = point.out[1], c["block"].val, _tile(c, point)
    if lanes_along(c, point) == CHANNELS:
        height, width, vectors = tile
        return -(-point.vectors // vectors), block // height * -(-columns // width)
    channels, vectors = tile
    return -(-point.o // channels), -(-block * columns // (vectors * point.lanes))


@lru_cache(maxsize=256)
def _costs(point: Conv, block: int, way: str) -> dict[tuple[int, ...], float]:
    """Return the half cycles for a row of results for each register tile."""
    if way == CHANNELS:
        columns, vectors = point.out[1], point.vectors
        # A transposed tile stores the pixels of each row together: at least half a vector of them.
        narrowest = 1 if point.layout == "NHWC" else min(point.lanes // 2, columns)
        turn = _TURN * math.log2(point.lanes) * (1.0 if point.target.vector_bits >= WIDE_BITS else 0.5)
        turns = 0.0 if point.layout == "NHWC" else turn * columns * vectors
        return {
            (h, w, v): _cost(columns, w, vectors, v, rows=h) / h * point.c + turns
            for h, w, v in itertools.product(_HEIGHTS, ROWS, VECTORS)
            if block % h == 0 and w >= narrowest and fits_registers(point.target, h * w, v)
        }
    vectors, size = -(-block * point.out[1] // point.lanes), point.lanes * nbytes(point.dtype)
    near = point.target.caches.l1 // (point.c * size) - 1  # vectors of all channels, and a line of weights for each
    return {
        (o, v): (_cost(point.o, o, vectors, v) + (_FAR * point.o / o * vectors if v > near else 0.0)) / block * point.c
        for o, v in itertools.product(ROWS, VECTORS)
        if fits_registers(point.target, o, v) and _is_side_by_side(point, o)
    }


def _least_cost(point: Conv, blocks: Iterable[int], ways: Iterable[str]) -> float:
    """Return the least cost of a register tile; infinity if there is none, as for transposed tiles of bytes."""
    found = (cost for block, way in itertools.product(blocks, ways) for cost in _costs(point, block, way).values())
    return min(found, default=math.inf)


def _tiles(point: Conv, block: int, way: str, most: float) -> frozenset[tuple[int, ...]]:
    return frozenset(tile for tile, cost in _costs(point, block, way).items() if cost <= most)


def _cost(extent: int, size: int, vectors: int, width: int, rows: int = 1) -> float:
    """Return the cost of tiles of rows × size, by `width` vectors, the last ones cut; infinite if one is too large."""
    if size > extent or width > vectors:
        return math.inf
    down = {size: extent // size, extent % size: 1}
    across = {width: vectors // width, vectors % width: 1}
    tiles = itertools.product(down.items(), across.items())
    return sum(n * m * step_cost(rows * s, w) for (s, n), (w, m) in tiles if s and w)


def _is_side_by_side(point: Conv, channels: int) -> bool:
    """Decide if the weights of a tile's output channels are contiguous in packed weights."""
    is_whole = point.lanes % channels == 0 or channels % point.lanes == 0 or channels == point.o
    return point.weights != PACKED or is_whole
