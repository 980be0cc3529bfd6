"""Depthwise convolutions whose vectors run along the rows of an image, channels first.

The last vector of a row may reach beyond its end. The image is read as it is, with zeros in place of the border's
columns and without the border's rows, or (`copy`) each channel's image is first copied with its border of zeros while
it is in the first-level cache; with a stride, columns that a vector of results reads are contiguous in the copy
("phases"). Without a copy, tiles of whole rows pick every second column from a row of the input in registers, so each
element is loaded once; the products with a row are summed up before they are moved to their columns. Vectors of half a
register's width (`lanes`) waste less at the ends of rows, and fewer of their loads cross a line of the cache.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import NamedTuple

import pegbox as pb
from pegbox import te
from pegbox.expr import nbytes
from pegbox.task import KnobValues
from pegbox.templates.conv_shape import Conv
from pegbox.templates.conv_stages import inside, padded
from pegbox.templates.register_tile import WIDE_BITS, write_out

_BLOCK = 16
"""The number of bytes within which a shuffle of two vectors is cheap."""


@dataclass(frozen=True)
class RowStages:
    """The result and the tile that it is stored from.

    For NCHW, also the copy of an image with its border, or the sums that form the tile and the stages that hold a row
    of the input, the one that is read last at the front.
    """

    out: te.Tensor
    tile: te.Tensor
    copied: te.Tensor | None = None
    row: tuple[te.Tensor, ...] = ()


class Loops(NamedTuple):
    """Loops of the result: the outermost one, and the one at which each tile is computed."""

    first: te.IterVar
    place: te.IterVar


def vector_sizes(conv: Conv) -> list[int]:
    """Return the possible numbers of elements in a vector of pixels: a whole register or, of a wide one, half."""
    half = conv.lanes // 2
    if conv.target.vector_bits < WIDE_BITS:
        return [conv.lanes]
    return [conv.lanes, half] if half < conv.out[1] else [half]


def row_pieces(conv: Conv, lanes: int, room: int) -> list[int]:
    """Return widths of up to `room` vectors; if some divide a row, only these, as they need no masks."""
    pieces = [v * lanes for v in range(1, room + 1) if v == 1 or (v - 1) * lanes < conv.out[1]]
    return [w for w in pieces if conv.out[1] % w == 0] or pieces


def lanes_of_row(cfg: KnobValues, conv: Conv) -> int:
    """Return the number of elements of a vector along a row: the knob `lanes`, or the only size."""
    return int(cfg["lanes"].val) if "lanes" in cfg.space.knobs else vector_sizes(conv)[0]


def rows_read(conv: Conv, height: int) -> int:
    """Count the rows of the input that `height` rows of the result read, with those of the border."""
    return (height - 1) * conv.stride[0] + conv.reach[0] + 1


def reads_rows(cfg: KnobValues, conv: Conv) -> bool:
    """Decide if every second column is picked in registers, which needs tiles of whole rows that are written out."""
    is_direct = cfg["unroll_kh"].val and not cfg["copy"].val
    return bool(is_direct and sums_of_result(conv) > 0 and cfg["tile_w"].val >= conv.out[1])


def sums_of_result(conv: Conv) -> int:
    """Return the number of sums for a result if every second column is picked in registers; 0 if none is picked."""
    if conv.stride[1] != 2 or conv.dilation[0] > 1:
        return 0
    return (conv.reach[1] + conv.padding[1] % 2) // 2 + 1


def sums_by_rows(cfg: pb.TemplateConfig, conv: Conv, data: te.Tensor, weight: te.Tensor) -> RowStages:
    """Return stages that read the input row by row, the even and odd columns of a row as vectors in registers.

    The sums of a tile go over the rows of the input that it reads, and skip those that a result does not read. Columns
    of the filter with the same distance from a result to its elements, in vectors of a phase, share a sum. These sums
    are moved to their results and added at the end; until then, lanes are in the order of the cheapest shuffles.
    """
    height, (sy, sx), dx, zero = cfg["tile_h"].val, conv.stride, conv.dilation[1], te.const(0, "int64")
    lanes, row_lanes = lanes_of_row(cfg, conv), _RowLanes(conv, lanes_of_row(cfg, conv))
    row = te.reduce_axis((0, rows_read(conv, height)), name="row")
    kw = te.reduce_axis((0, conv.kernel[1]), name="kw")
    rows, (edge, last) = rows_read(conv, conv.out[0]), (conv.padding[1], row_lanes.count * sx - 1)
    line = te.compute(
        (conv.n, conv.c, rows, row_lanes.vectors * sx, lanes),
        lambda n, c, y, v, z: padded(conv, data, (rows - 1, last + edge), n, c, y, v * lanes + z + edge),
        name="line",
    )

    def phase(n: te.Expr, c: te.Expr, y: te.Expr, p: te.Expr, v: te.Expr, z: te.Expr) -> te.Expr:
        column = row_lanes.column(z) * sx + p
        return line(n, c, y, v * sx + column // lanes, column % lanes)

    phases = te.compute((conv.n, conv.c, rows, sx, row_lanes.vectors, lanes), phase, name="phases")

    def element(n: te.Expr, c: te.Expr, y: te.Expr, d: te.Expr, v: te.Expr, z: te.Expr) -> te.Expr:
        at, kh, column = y // height * height * sy + row, row - y % height * sy, kw * dx + row_lanes.first
        tests = [kh >= 0, kh < conv.kernel[0], column // sx >= d, column // sx < d + 1]
        tests += inside(conv, 0, at - conv.padding[0])
        value = phases(n, c, at, column % sx, v, z)
        return te.sum(value * weight(*conv.weight_at(c, zero, kh, kw)), axis=[row, kw], where=te.all(*tests))

    shape = conv.n, conv.c, conv.out[0], row_lanes.distances, row_lanes.vectors, lanes
    sums = te.compute(shape, element, name="sums")

    def total(n: te.Expr, c: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
        moved = (sums(n, c, y, d, *row_lanes.place(x, d)) for d in range(row_lanes.distances))
        return functools.reduce(operator.add, moved)

    tile = te.compute(conv.out_shape, total, name="tile")
    return RowStages(te.compute(conv.out_shape, lambda *at: tile(*at), name="C"), tile, None, (sums, phases, line))


class _RowLanes:
    """The vectors of every second column of a row, without the border; after the last column there are zeros.

    Columns of the border read one of these zeros, so that vectors begin where the row does.

    Attributes:
        vectors, count: the number of vectors of a phase, and of their lanes.
        first: the offset of a column of the filter that keeps its distance and its phase from being negative.
        distances: the number of distances from a result to its elements.
    """

    def __init__(self, conv: Conv, lanes: int) -> None:
        sx, block = conv.stride[1], _BLOCK // nbytes(conv.dtype)
        self._before = -(-conv.padding[1] // sx)
        self.first, self.distances = self._before * sx - conv.padding[1], sums_of_result(conv)
        columns = max(-(-conv.size[1] // sx) + self._before, conv.out[1] - self._before + self.distances - 1)
        self.vectors = -(-columns // lanes)
        self.count, self._lanes, self._block, self._half = self.vectors * lanes, lanes, block, block // 2

    def column(self, lane: te.Expr) -> te.Expr:
        """Return the column of a lane: in each block, elements of the first vector precede those of the second."""
        inside = lane % self._half + lane % self._block // self._half * (self._lanes // 2)
        return lane // self._block * self._half + inside if self._lanes > self._block else lane

    def place(self, x: te.Expr, distance: int) -> tuple[te.Expr, te.Expr]:
        """Return the vector and the lane of the element at a distance from a result."""
        moved = x + (distance - self._before) % self.count
        column, half = moved % self._lanes, self._lanes // 2
        lane = column % half // self._half * self._block + column % self._half + column // half * self._half
        return moved % self.count // self._lanes, lane if self._lanes > self._block else column


def copied_image(cfg: pb.TemplateConfig, conv: Conv, data: te.Tensor) -> te.Tensor:
    """Return the bordered input, [n][c][row][phase of columns][column], with room for whole vectors of results."""
    sx, dx = conv.stride[1], conv.dilation[1]
    phases = max(k * dx % sx for k in range(conv.kernel[1])) + 1
    width = cfg["tile_w"].val
    columns = -(-conv.out[1] // width) * width + conv.reach[1] // sx
    rows = rows_read(conv, conv.out[0])
    last = rows - 1, (columns - 1) * sx + phases - 1
    return te.compute(
        (conv.n, conv.c, rows, phases, columns),
        lambda n, c, y, px, x: padded(conv, data, last, n, c, y, x * sx + px),
        name="data_padded",
    )


def order_rows(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, stages: RowStages) -> Loops:
    """Order the loops of an NCHW result."""
    out = s[stages.out]
    n, c, y, x = out.op.axis
    yt, yi = out.split(y, factor=cfg["tile_h"].val)
    xt, xi = out.split(x, factor=cfg["tile_w"].val)
    xv, xl = out.split(xi, factor=lanes_of_row(cfg, conv))
    out.reorder(n, c, yt, xt, yi, xv, xl)
    write_out(out, xl, [yi, xv])
    image = out.fuse(n, c)
    if stages.copied is not None:
        copying = s[stages.copied]
        copying.compute_at(out, image)
        *_, column = copying.op.axis
        copying.vectorize(copying.split(column, factor=lanes_of_row(cfg, conv))[1])
    return Loops(image, xt)


def place_rows(s: te.TESchedule, stages: RowStages, place: te.IterVar) -> None:
    """Place the sums of a tile at a loop of the result, and the rows of the input where the sums read them."""
    sums, *read = stages.row
    s[sums].set_scope("local")
    s[sums].compute_at(s[stages.out], place)
    *outer, lanes = s[sums].op.axis
    row, kw = s[sums].op.reduce_axis
    s[sums].reorder(row, kw, *outer, lanes)
    write_out(s[sums], lanes, [row, kw, *outer])
    for tensor in read:
        s[tensor].set_scope("local")
        s[tensor].compute_at(s[sums], row)
        *outer, lanes = s[tensor].op.axis
        write_out(s[tensor], lanes, outer)


def prefetch_rows(s: te.TESchedule, stages: RowStages) -> None:
    """Fetch the lines of each tile of the result while it is computed.

    Most rows begin inside a line, so that stores span two lines, and wait for both.
    """
    out = s[stages.out]
    image, rows, columns, *_ = out.leaf_iter_vars
    tiles = next((loop for loop in (columns, rows) if loop.extent > 1), image)
    steps = next(loop for loop in s[stages.tile].leaf_iter_vars if loop.kind == "reduce")
    out.prefetch(stages.out, tiles, 0, among=steps)
