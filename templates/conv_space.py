"""The knobs of convolutions, and their constraints.

A register tile is rows × vectors: vectors of the target's length along one dimension, and rows of them along another
one, accumulated over the whole reduction.

| lanes | vectors along | rows along | broadcast, element by element |
| --- | --- | --- | --- |
| channels | output channels | `tile_h` × `tile_w` pixels of the result | the input |
| pixels | pixels of the result, line after line | `tile_o` output channels | the weights |

NCHW has both. NHWC has channels, or pixels for windows with few output channels; products with the columns of another
convolution (`conv2d_im2col`) have pixels in either layout.

Tiles divide the result or exceed it by a small share, into padding, so that the register tile is written out once, and
not again for each kind of tail. If no such tile is good, tiles are cut (`conv_register_tiles.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pegbox as pb
from pegbox.expr import nbytes
from pegbox.templates import conv_tiles as tiles
from pegbox.templates import weight_blocks
from pegbox.templates.conv_choices import (
    AS_IT_LIES,
    BLOCK,
    BLOCKED,
    CHANNELS,
    CHANNELS_INSIDE,
    CHANNELS_OUTSIDE,
    FILTER_INSIDE,
    HOW,
    HWO,
    KH_KW,
    KW,
    NO_LOOP,
    OHW,
    PIXELS,
    PLAIN,
    ROOT,
    ROWS_OUTSIDE,
)  # fmt: skip
from pegbox.templates.conv_register_tiles import (
    HEIGHTS,
    ChannelTile,
    channel_tiles,
    end_in_panels,
    pixel_heights,
    pixel_tiles,
    tile_sizes,
    tile_widths,
)  # fmt: skip
from pegbox.templates.conv_shape import PACKED, Conv
from pegbox.templates.register_tile import BODY, VECTORS

_UNROLLED = {CHANNELS_INSIDE: "unroll_c", FILTER_INSIDE: "unroll_k"}
_BLOCKS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64, 128)


def declare(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Declare the knobs of a convolution."""
    _declare_tile_and_copies(cfg, conv)
    _declare_reduction(cfg, conv)
    _declare_blocks(cfg, conv)
    _constrain_tile(cfg, conv)
    _constrain_copies(cfg, conv)
    _constrain_blocks(cfg, conv)
    if conv.weights == PACKED and conv.n * math.prod(conv.out) <= weight_blocks.FEW_RESULTS:
        cfg.prefer(lambda c: tiles.weights_come_in_time(c, conv))


def lane_dimensions(conv: Conv) -> list[str]:
    """List the dimensions along which vectors may run.

    Images with their channels last are transposed for windows with few output channels: vectors of pixels are then
    full, except for the gaps between rows.
    """
    pitch, columns = tiles.pitch_of(conv), conv.out[1]
    is_turned = conv.layout == "NHWC" and conv.kernel != (1, 1) and 2 * conv.o * pitch < conv.lanes * columns
    if conv.are_columns or is_turned:
        return [PIXELS]
    return [CHANNELS, PIXELS] if conv.layout == "NCHW" else [CHANNELS]


def _declare_tile_and_copies(cfg: pb.TemplateConfig, conv: Conv) -> None:
    channels, pixels = {"lanes": CHANNELS}, {"lanes": PIXELS}
    widest, lanes = conv.vectors, lane_dimensions(conv)
    if PIXELS in lanes:
        widest = max(widest, -(-conv.pixels[0] * conv.pixels[1] // conv.lanes))
    cfg.define_knob("lanes", lanes)
    cfg.define_knob("vectors", [v for v in VECTORS if v <= widest])
    if CHANNELS in lanes:
        cfg.define_knob("tile_w", tile_widths(conv), when=channels)
        cfg.define_knob("tile_h", tile_sizes(conv.pixels[0], HEIGHTS), when=channels)
    if PIXELS in lanes:
        cfg.define_knob("tile_o", pixel_heights(conv), when=pixels)
    # The possible copies of the operands, and their layouts.
    cfg.define_knob("pack_data", _data_forms(conv))
    if PIXELS in lanes and conv.weights != PACKED:
        cfg.define_knob("pack_weights", [True, False])


def _data_forms(conv: Conv) -> list[str]:
    is_read = not conv.is_padded and CHANNELS in lane_dimensions(conv)
    return [*([AS_IT_LIES] if is_read else []), *_copies(conv)]


def _copies(conv: Conv) -> list[str]:
    return [PLAIN, BLOCKED] if len(_channel_blocks(conv)) > 1 and CHANNELS in lane_dimensions(conv) else [PLAIN]


def _channel_blocks(conv: Conv) -> list[int]:
    """Return the sizes of blocks, the whole first, which applies if the knob does not exist."""
    least = conv.c if conv.are_columns else min(tiles.FEW_CHANNELS, conv.c)
    return [b for b in range(conv.c, least - 1, -1) if conv.c % b == 0]


def _inner(conv: Conv) -> list[str]:
    if conv.kernel == (1, 1):
        return [CHANNELS_INSIDE]
    return [FILTER_INSIDE] if conv.c == 1 else [CHANNELS_INSIDE, FILTER_INSIDE]


def _declare_reduction(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Declare the order of the sums: blocks of channels, filter positions inside or outside the channels of a block."""
    kh, kw = conv.kernel
    is_window = kh * kw > 1
    cfg.define_knob("inner", _inner(conv))
    blocks = [[-1, b] for b in _channel_blocks(conv)]
    only = {} if len(blocks) == 1 else {"inner": CHANNELS_INSIDE} if is_window else {"pack_data": BLOCKED}
    cfg.define_split("tile_c", conv.c, "candidate", num_outputs=2, candidate=blocks, when=only)
    if CHANNELS_INSIDE in _inner(conv):
        cfg.define_knob("unroll_c", [u for u in (1, 2, 3, 4, 8) if conv.c % u == 0], when={"inner": CHANNELS_INSIDE})
    if is_window:
        loops = [NO_LOOP, *([KW] if kw > 1 else []), *([KH_KW] if kh > 1 else [])]
        cfg.define_knob("unroll_k", loops, when={"inner": FILTER_INSIDE})


def _declare_blocks(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Declare blocks of tiles (0: all), the orders of loops over blocks and over their tiles, and places of copies."""
    most = max(conv.pixels[0] if not tiles.is_gapless(conv) else conv.out[0] * conv.out[1], 1)
    cfg.define_knob("block_h", heights := [b for b in _BLOCKS if b < most])
    cfg.define_knob("block_o", panels := [b for b in _BLOCKS if b < conv.o or b == 0])
    cfg.define_knob("order", [ROWS_OUTSIDE, CHANNELS_OUTSIDE])
    cfg.define_knob("order_tiles", [OHW, HWO] if conv.flat else [OHW, HOW, HWO])
    outer: dict[str, Any] = {"order": ROWS_OUTSIDE, "block_h": heights[1:], "pack_data": _copies(conv)}
    _declare_place(cfg, "data_at", outer if heights[1:] else {})
    if conv.weights != PACKED:
        outer = {"order": CHANNELS_OUTSIDE, "block_o": panels[1:]}
        outer |= {"pack_weights": True} if PIXELS in lane_dimensions(conv) else {}
        _declare_place(cfg, "weights_at", outer if panels[1:] else {})


def _declare_place(cfg: pb.TemplateConfig, name: str, when: dict[str, Any]) -> None:
    """Declare the place of a copy, which is beforehand if there are no outer blocks (`condition` tests for them)."""
    cfg.define_knob(name, [ROOT, BLOCK] if when else [ROOT], when=when)


def _declared(cfg: pb.TemplateConfig, *names: str) -> tuple[str, ...]:
    """Return the names that are knobs."""
    return tuple(name for name in names if name in cfg.space.knobs)


def _constrain_tile(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Exclude register tiles that cannot be fast, whatever the rest of the configuration."""
    lanes = lane_dimensions(conv)
    of_channels = channel_tiles(conv).tiles if CHANNELS in lanes else frozenset()
    of_pixels = pixel_tiles(conv) if PIXELS in lanes else frozenset()
    reads = _declared(cfg, "lanes", "vectors", "tile_w", "tile_h", "tile_o")

    def is_good(c: pb.Config) -> bool:
        if c["lanes"].val == PIXELS:
            return (c["tile_o"].val, c["vectors"].val) in of_pixels
        return ChannelTile(c["tile_h"].val, c["tile_w"].val, c["vectors"].val) in of_channels

    cfg.add_constraint(
        is_good,
        reads=reads,
        message=f"the register tile fits {cfg.target.vector_registers} registers, hides latency and loads little",
    )
    for inner in _inner(conv):
        cfg.add_constraint(
            partial(_body_is_small, conv, inner),
            reads=(*reads, "inner", _UNROLLED[inner]),
            message=f"the innermost body has at most {BODY} multiply-adds",
        )


def _body_is_small(conv: Conv, inner: str, c: pb.Config) -> bool:
    """Check the size of the body if `inner` is innermost; other configurations pass."""
    if c["inner"].val != inner:
        return True
    unrolled = c[_UNROLLED[inner]].val
    kh, kw = conv.kernel
    steps = {NO_LOOP: 1, KW: kw, KH_KW: kh * kw}.get(unrolled, unrolled)
    rows = c["tile_o"].val if c["lanes"].val == PIXELS else c["tile_w"].val * c["tile_h"].val
    return bool(rows * c["vectors"].val * steps <= BODY)


def _constrain_copies(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Exclude layouts that lanes cannot read, and blocks that are the whole."""
    if len(_channel_blocks(conv)) > 1:
        whole = 1 if conv.layout == "NCHW" else conv.c
        cfg.add_constraint(
            lambda c: (
                c["pack_data"].val != BLOCKED or (c["inner"].val == CHANNELS_INSIDE and c["tile_c"].size[-1] != whole)
            ),
            reads=("pack_data", "inner", "tile_c"),
            message="blocked data are read block by block, and a block is not what lies together anyway",
        )
        if conv.kernel != (1, 1):
            cfg.add_constraint(
                lambda c: c["inner"].val != CHANNELS_INSIDE or c["tile_c"].size[-1] % c["unroll_c"].val == 0,
                reads=("inner", "tile_c", "unroll_c"),
                message="unroll_c divides the block of channels",
            )
    if AS_IT_LIES in _data_forms(conv) and not conv.flat:
        cfg.add_constraint(
            lambda c: c["pack_data"].val != AS_IT_LIES or conv.out[0] % c["tile_h"].val == 0,
            reads=("lanes", "pack_data", "tile_h"),
            message="rows of tiles stick out only of a copy",
        )
    if PIXELS in lane_dimensions(conv):
        _constrain_lines(cfg, conv)


def _constrain_lines(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Exclude combinations that lanes along pixels, or along channels, cannot have."""
    plain = (AS_IT_LIES, PLAIN) if conv.flat else (PLAIN,)
    cfg.add_constraint(
        lambda c: c["lanes"].val != PIXELS or c["pack_data"].val in plain,
        reads=("lanes", "pack_data"),
        message="lanes along pixels read the input plainly, from a copy where rows have gaps or strides",
    )
    if conv.weights != PACKED:
        cfg.add_constraint(
            lambda c: c["pack_weights"].val or (c["lanes"].val == PIXELS and conv.o % c["tile_o"].val == 0),
            reads=("lanes", "pack_weights", "tile_o"),
            message="vectors of weights are read from panels, and so are tiles that stick out",
        )
    elif not conv.are_columns:  # columns have only tiles of pixels
        lanes = conv.lanes
        cfg.add_constraint(
            lambda c: (
                c["lanes"].val != PIXELS
                or lanes % c["tile_o"].val == 0
                or (c["tile_o"].val % lanes == 0 and end_in_panels(conv, c["tile_o"].val))
                or c["tile_o"].val == conv.o
            ),
            reads=("lanes", "tile_o"),
            message="channels of a tile lie side by side in packed weights",
        )


def _constrain_blocks(cfg: pb.TemplateConfig, conv: Conv) -> None:
    """Exclude blocks with much smaller rests or far from any cache's size, and further names of one order."""
    down = _declared(cfg, "lanes", "block_h", "vectors", "tile_w", "tile_h")
    panels = _declared(cfg, "lanes", "block_o", "vectors", "tile_o")

    input_bytes = conv.c * math.prod(conv.size) * nbytes(conv.dtype)
    weight_bytes = conv.o * conv.c * math.prod(conv.kernel) * nbytes(conv.dtype)

    def is_block(count: int, block: int, size: int) -> bool:
        return tiles.is_block(count, block) and _is_cached(cfg, block, -(-size // count))

    def add(predicate: Callable[[pb.Config], bool], message: str, *reads: str) -> None:
        cfg.add_constraint(predicate, reads=reads, message=message)

    add(
        lambda c: is_block(tiles.heights_of(c, conv), c["block_h"].val, input_bytes),
        "blocks of rows fit a cache and leave little beyond the last one", *down,
    )  # fmt: skip
    add(
        lambda c: is_block(tiles.panels_of(c, conv), c["block_o"].val, weight_bytes),
        "blocks of channels fit a cache and leave little beyond the last one", *panels,
    )  # fmt: skip
    if conv.weights != PACKED:
        add(
            lambda c: c["weights_at"].val == ROOT or tiles.panels_of(c, conv) % c["block_o"].val == 0,
            "weights are turned around for whole blocks", *panels, "weights_at",
        )  # fmt: skip
    add(
        lambda c: c["order"].val == (CHANNELS_OUTSIDE if c["block_o"].val else ROWS_OUTSIDE)
        or (c["block_h"].val and c["block_o"].val),
        "one block is the inner loop", "order", "block_h", "block_o",
    )  # fmt: skip
    add(
        lambda c: c["order_tiles"].val == OHW or (c["block_o"].val or tiles.panels_of(c, conv)) > 1,
        "one panel in a block has one order", *panels, "order_tiles",
    )  # fmt: skip
    add(
        lambda c: _is_first_name(c["order_tiles"].val, *tiles.trips(c, conv)),
        "an order of tiles has one name", *down, "order_tiles",
    )  # fmt: skip


def _is_cached(cfg: pb.TemplateConfig, block: int, tile_bytes: int) -> bool:
    """Decide if a block is neither larger than the second-level cache nor a small share of the first-level one.

    Small blocks are allowed for several cores, each of which has its own blocks.
    """
    size = block * tile_bytes
    return block == 0 or ((block == 1 or size <= cfg.target.caches.l2) and (
        cfg.target.num_cores > 1 or 8 * size >= cfg.target.caches.l1))  # fmt: skip


def _is_first_name(order: str, rows: int, columns: int) -> bool:
    """Decide if an order is the first of those that are equal without loops of one iteration."""
    left = "o" + ("h" if rows > 1 else "") + ("w" if columns > 1 else "")
    projected = ["".join(x for x in name if x in left) for name in (OHW, HOW, HWO)]
    return projected.index("".join(x for x in order if x in left)) == (OHW, HOW, HWO).index(order)
