"""The register tiles of a convolution's space, which suit its shape and the target's registers.

Either tiles exceed the result by a small share, and their code is written out once; or the last ones of a row and of
the channels are cut, and written out again: if registers are few, hardly any other tiles fit 7 or 14 columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from pegbox.codegen import LATENCY, Target, fits_registers
from pegbox.templates import conv_tiles as tiles
from pegbox.templates.conv_shape import PACKED, Conv, overlap
from pegbox.templates.register_tile import ROWS, VECTORS, step_cost

HEIGHTS = (1, 2, 3, 4, 7)
_CUT_COSTS = 0.95  # the share of the cost of whole tiles below which cutting is worth the code
_CUT_ANYWAY = 0.99  # the same if a row's first and last tiles have separate code anyway, for the border
_NEAR = 1.12  # the largest cost of a tile that is worth trying, relative to the lowest cost
_FEW_REGISTERS = 16  # with more registers, tiles differ by less than the error of an estimate
_WIDE_BORDER = 0.9  # the share of the filter in the image, below which tiles differ by the border that they skip


class ChannelTile(NamedTuple):
    """A tile of `height` × `width` pixels by `vectors` vectors of output channels."""

    height: int
    width: int
    vectors: int

    @property
    def rows(self) -> int:
        return self.height * self.width


class ChannelTiles(NamedTuple):
    """The tiles that are worth trying, with flags for cutting the last ones of a row and of the channels."""

    tiles: frozenset[ChannelTile]
    are_cut: bool


@lru_cache(maxsize=256)
def channel_tiles(conv: Conv) -> ChannelTiles:
    """Return the tiles for lanes along channels."""
    whole = {tile: _cost_of_whole(conv, tile) for tile in _whole_tiles(conv)}
    cut = {tile: _cost_of_cut(conv, tile) for tile in _cut_tiles(conv)}
    enough = _CUT_ANYWAY if tiles.leaves_border_out(conv, 1) else _CUT_COSTS
    if cut and min(cut.values()) <= enough * min(whole.values()):
        return ChannelTiles(_near_the_best(cut), are_cut=True)
    is_narrow = min(conv.inside(axis) for axis in range(2)) >= _WIDE_BORDER
    all_are_close = conv.target.vector_registers > _FEW_REGISTERS and is_narrow
    return ChannelTiles(frozenset(whole) if all_are_close else _near_the_best(whole), are_cut=False)


@lru_cache(maxsize=256)
def pixel_tiles(conv: Conv) -> frozenset[tuple[int, int]]:
    """Return the tiles (output channels, vectors of pixels) for lanes along pixels."""
    count = -(-conv.pixels[0] * conv.pixels[1] // conv.lanes)
    widths = [v for v in VECTORS if tiles.sticks_out_little(count, v)]
    shapes = itertools.product(pixel_heights(conv), widths)
    return frozenset(_good(shape for shape in shapes if fits_registers(conv.target, *shape)))


def pixel_heights(conv: Conv) -> list[int]:
    """List the numbers of output channels of tiles for lanes along pixels."""
    heights = tile_sizes(conv.o, ROWS)
    if conv.weights == PACKED and conv.o in heights:  # a tile of all channels must have only one name
        heights = [height for height in heights if height <= conv.o]
    if conv.weights == PACKED and conv.are_columns:  # they need not end with a panel, only in the last
        return [height for height in heights if end_in_panels(conv, height)]
    return heights


def end_in_panels(conv: Conv, height: int) -> bool:
    """Decide if tiles of that many output channels read no panel of packed weights beyond the last one."""
    return -(-conv.o // height) * height <= conv.vectors * conv.lanes


def tile_sizes(extent: int, sizes: Iterable[int]) -> list[int]:
    return [size for size in sizes if tiles.sticks_out_little(extent, size)]


def tile_widths(conv: Conv) -> list[int]:
    """Return the widths that exceed the result little, and those that are cut."""
    cut = {tile.width for tile in channel_tiles(conv).tiles}
    return sorted({*tile_sizes(conv.pixels[1], ROWS), *cut})


def streams_vectors(target: Target, rows: int, vectors: int) -> bool:
    """Decide if a tile loads vectors one by one and keeps broadcast elements, as registers cannot hold a row."""
    return not fits_registers(target, rows, vectors)


def _near_the_best(costs: dict[ChannelTile, float]) -> frozenset[ChannelTile]:
    least = min(costs.values())
    return frozenset(tile for tile, cost in costs.items() if cost <= _NEAR * least)


def _whole_tiles(conv: Conv) -> Iterator[ChannelTile]:
    shapes = itertools.product(tile_sizes(conv.pixels[0], HEIGHTS), tile_sizes(conv.pixels[1], ROWS))
    found = [ChannelTile(*shape, v) for shape in shapes for v in VECTORS if conv.vectors % v == 0]
    found = [tile for tile in found if _fits(conv.target, tile)]
    good = _good((tile.rows, tile.vectors) for tile in found)
    return (tile for tile in found if (tile.rows, tile.vectors) in good)


def _cut_tiles(conv: Conv) -> Iterator[ChannelTile]:
    heights = [h for h in HEIGHTS if conv.pixels[0] % h == 0]
    widths = [w for w in ROWS if w <= conv.pixels[1]]
    vectors = [v for v in VECTORS if v <= conv.vectors]
    found = (ChannelTile(*shape) for shape in itertools.product(heights, widths, vectors))
    return (tile for tile in found if _fits(conv.target, tile))


def _fits(target: Target, tile: ChannelTile) -> bool:
    return fits_registers(target, tile.rows, tile.vectors) or fits_registers(target, tile.vectors, tile.rows)


def _good(found: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the tiles of the best existing kind: with few loads, and enough accumulators."""
    tried = set(found)
    # At most five loads for four multiply-adds: then many rows of one vector suffice.
    tried = {(r, v) for r, v in tried if 4 * (r + v) <= 5 * r * v} or tried
    most = max(r * v for r, v in tried)
    return {(r, v) for r, v in tried if r * v >= min(LATENCY, most)}


def _cost_of_whole(conv: Conv, tile: ChannelTile) -> float:
    """Estimate the half cycles for one input channel at one filter position, for the whole result."""
    down, deep = -(-conv.pixels[0] // tile.height), -(-conv.vectors // tile.vectors)
    return down * deep * _cost_of_row(conv, tile, tile.vectors, tile.width) * _rows_inside(conv, tile)


def _cost_of_cut(conv: Conv, tile: ChannelTile) -> float:
    last = (conv.pixels[1] - 1) % tile.width + 1
    row = sum(
        deep * _cost_of_row(conv, tile, vectors, last)
        for vectors, deep in ((tile.vectors, conv.vectors // tile.vectors), (conv.vectors % tile.vectors, 1))
        if vectors
    )
    return conv.pixels[0] // tile.height * row * _rows_inside(conv, tile)


def _cost_of_row(conv: Conv, tile: ChannelTile, vectors: int, last: int) -> float:
    """Return the cost of a row of tiles, the last one `last` columns wide, averaged over the filter's columns."""
    starts = range(0, conv.pixels[1], tile.width)
    if not tiles.leaves_border_out(conv, 1):
        most = step_cost(tile.height * tile.width, vectors)
        return (len(starts) - 1) * most + step_cost(tile.height * last, vectors)
    inside = [conv.pixels_inside(1, tap) for tap in range(conv.kernel[1])]
    pieces = [range(x, x + (last if x == starts[-1] else tile.width)) for x in starts]
    active = (overlap(pixels, piece) for pixels in inside for piece in pieces)
    if tiles.leaves_tiles_out(conv, 1, tile.width):
        active = (len(piece) for pixels in inside for piece in pieces if overlap(pixels, piece))
    return sum(step_cost(tile.height * count, vectors) for count in active if count) / len(inside)


def _rows_inside(conv: Conv, tile: ChannelTile) -> float:
    """Return the share of the filter's rows that the tile does not skip."""
    if not tiles.leaves_tiles_out(conv, 0, tile.height):
        return conv.inside(0) if tile.height == 1 and tiles.leaves_border_out(conv, 0) else 1.0
    starts = range(0, conv.pixels[0], tile.height)
    inside = [conv.pixels_inside(0, tap) for tap in range(conv.kernel[0])]
    active = sum(overlap(pixels, range(y, y + tile.height)) > 0 for pixels in inside for y in starts)
    return active / (len(starts) * len(inside))
