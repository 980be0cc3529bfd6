"""Extents of register tiles and blocks of a convolution, for the space and the schedules.

A tile may exceed the result by a small share, into padding: results there are never read. Tiles of a block that lie
outside are skipped.

Schedules call these functions with traced integers, whose values `int()` would pin, so values of knobs are not
converted.
"""

from __future__ import annotations

import math

from pegbox.expr import nbytes
from pegbox.task import KnobValues
from pegbox.templates import weight_blocks
from pegbox.templates.conv_choices import CHANNELS_INSIDE, CHANNELS_OUTSIDE, OHW, PIXELS
from pegbox.templates.conv_shape import Conv

_OF_A_TILE = 7
_OF_A_BLOCK = 4
_BORDER = 0.03  # the share of the filter's rows or columns from which on skipping them is worth the code
FEW_CHANNELS = 8  # a loop over fewer input channels costs more than a block of them, or skipping the border, saves


def sticks_out_little(extent: int, tile: int) -> bool:
    """Decide if tiles of that size exceed the extent only a little."""
    return (-extent % tile) * _OF_A_TILE <= extent


def is_block(count: int, block: int) -> bool:
    """Decide if the last block of that many tiles (0: all) is not much smaller than the others."""
    return block == 0 or (block < count and (-count % block) * _OF_A_BLOCK <= count)


def leaves_border_out(conv: Conv, axis: int) -> bool:
    """Decide if tiles skip the rows (axis 0) or columns (1) of the filter that lie in the border."""
    return conv.c >= FEW_CHANNELS and conv.inside(axis) <= 1 - _BORDER


def leaves_tiles_out(conv: Conv, axis: int, extent: int) -> bool:
    """Decide if tiles of that extent are skipped if they lie wholly in the border of a dilated filter."""
    if conv.dilation[axis] == 1 or conv.kernel[axis] == 1 or not leaves_border_out(conv, axis):
        return False
    return (extent - 1) * conv.stride[axis] < max(conv.padding[axis], conv.padding_after[axis])


def border_read(c: KnobValues, conv: Conv, axis: int) -> int | None:
    """Return the rows (axis 0) or columns (1) beyond the image that tiles read if those in the border are skipped.

    The result is None if no whole tile is skipped: then tiles read the border, or skip single pixels.
    """
    # Each value of a knob that is compared makes a class of programs; without dilation, no knob is read.
    if conv.dilation[axis] == 1 or c["inner"].val != CHANNELS_INSIDE:
        return None
    extent: int = c[("tile_h", "tile_w")[axis]].val
    return (extent - 1) * conv.stride[axis] if leaves_tiles_out(conv, axis, extent) else None


def copy_of(c: KnobValues, conv: Conv, axis: int, extent: int) -> tuple[int, int]:
    """Return the first row (axis 0) or column (1) of the padded input in a copy, and their number.

    Args:
        extent: the extent of the result, in whole tiles.
    """
    end = (extent - 1) * conv.steps[axis] + conv.reach[axis] + 1
    beside = border_read(c, conv, axis)
    if beside is None:
        return 0, end
    first = conv.padding[axis] - min(beside, conv.padding[axis])
    return first, max(min(end, conv.padding[axis] + conv.size[axis] + beside) - first, 1)  # windows may have no pixel


def panels_of(c: KnobValues, conv: Conv) -> int:
    """Count the tiles of output channels."""
    if c["lanes"].val == PIXELS:
        return _pieces(conv.o, c["tile_o"].val)
    return _pieces(conv.vectors, c["vectors"].val)


def pitch_of(conv: Conv) -> int:
    """Return the distance of rows in a line of pixels: the result's columns, and those a filter reaches beyond."""
    return conv.out[1] + conv.reach[1] // conv.stride[1] if conv.kernel[1] > 1 else conv.out[1]


def is_gapless(conv: Conv) -> bool:
    """Decide if a line has just the pixels of the result, with nothing between the rows."""
    return pitch_of(conv) == conv.out[1]


def line_of(conv: Conv, block_h: int) -> int:
    """Return the number of pixels of the line that a block of rows forms."""
    return ((block_h or conv.out[0]) - 1) * pitch_of(conv) + conv.out[1]


def heights_of(c: KnobValues, conv: Conv) -> int:
    """Return the unit of blocks: rows of tiles; tiles, if all pixels are one line; rows, if lines have gaps."""
    rows, columns = conv.pixels
    if c["lanes"].val == PIXELS:
        return _pieces(rows * columns, _line_tile(c, conv)) if is_gapless(conv) else rows
    return _pieces(columns, c["tile_w"].val) if conv.flat else _pieces(rows, c["tile_h"].val)


def trips(c: KnobValues, conv: Conv) -> tuple[int, int]:
    """Return the iterations of the loops over a block's rows and columns of tiles; of one loop for a line."""
    block = c["block_h"].val
    height = block or heights_of(c, conv)
    if c["lanes"].val == PIXELS:
        return 1, height if is_gapless(conv) else _pieces(line_of(conv, block), _line_tile(c, conv))
    return (1, height) if conv.flat else (height, _pieces(conv.out[1], c["tile_w"].val))


def fetches_weights(c: KnobValues, conv: Conv) -> bool:
    """Decide if packed weights are prefetched, each of which is read for all pixels before others.

    The weights in use and the next ones must fit the second-level cache.
    """
    if conv.n * math.prod(conv.out) > weight_blocks.FEW_RESULTS or c["lanes"].val == PIXELS:
        return False
    is_once = c["order"].val == CHANNELS_OUTSIDE or c["block_h"].val == 0
    return is_once and bool(weight_blocks.next_fits(_bytes_at_once(c, conv), conv.target))


def weights_come_in_time(c: KnobValues, conv: Conv) -> bool:
    """Decide if nearly all packed weights are prefetched while others are multiplied."""
    is_small = weight_blocks.is_small(_bytes_at_once(c, conv), conv.vectors * _bytes_of_vector(conv))
    return is_small and fetches_weights(c, conv)


def reads_panels_alone(c: KnobValues) -> bool:
    """Decide if there is just one block, in which one panel of weights after the other is read for all pixels."""
    return bool(c["order_tiles"].val == OHW and c["block_h"].val == 0 and c["block_o"].val == 0)


def _bytes_at_once(c: KnobValues, conv: Conv) -> int:
    """Return the number of bytes of packed weights that are read for all pixels before others."""
    panels: int = 1 if reads_panels_alone(c) else c["block_o"].val or panels_of(c, conv)
    vectors: int = c["vectors"].val
    return panels * vectors * _bytes_of_vector(conv)


def _bytes_of_vector(conv: Conv) -> int:
    """Return the number of bytes of the weights of a vector of output channels."""
    return conv.c * math.prod(conv.kernel) * conv.lanes * nbytes(conv.dtype)


def _line_tile(c: KnobValues, conv: Conv) -> int:
    vectors: int = c["vectors"].val
    return vectors * conv.lanes


def _pieces(extent: int, size: int) -> int:
    return -(-extent // size)
