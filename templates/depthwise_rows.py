"""Depthwise convolutions whose vectors run along the rows of an image, channels first.

The last vector of a row may reach beyond its end. The image is read as it is, with zeros in place of the columns of the
border and without its rows, or (`copy`) the image of each channel is first copied with its border of zeros while it is
in the closest cache; with a stride, columns that a vector of results reads lie together in the copy ("phases"). Without
a copy, tiles of whole rows take every second column from a row of the input in registers, where each element is loaded
once. Vectors of half a register's width (`lanes`) waste less at the ends of rows, and fewer of their loads cross a line
of the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import pegbox as pb
from pegbox import te
from pegbox.templates import threads
from pegbox.templates.conv_shape import Conv
from pegbox.templates.conv_stages import inside, padded
from pegbox.templates.register_tile import write_out

_HALVING_BITS = 512
"""The bits of the narrowest registers whose halves are tried as vectors, too."""


@dataclass(frozen=True)
class RowStages:
    """The result and the tile that it is stored from; of NCHW also the copy of an image with its border, or the stages
    that hold a row of the input, the one that the tile reads first.
    """

    out: te.Tensor
    tile: te.Tensor
    copied: te.Tensor | None = None
    row: tuple[te.Tensor, ...] = ()


def vector_sizes(conv: Conv) -> list[int]:
    """Return the elements of a vector of pixels: a register of them, or half of it where that is wide."""
    half = conv.lanes // 2
    if conv.target.vector_bits < _HALVING_BITS:
        return [conv.lanes]
    return [conv.lanes, half] if half < conv.out[1] else [half]


def row_pieces(conv: Conv, lanes: int, room: int) -> list[int]:
    """Return widths of up to `room` vectors; only those that divide a row, if there are any: they need no masks."""
    pieces = [v * lanes for v in range(1, room + 1) if v == 1 or (v - 1) * lanes < conv.out[1]]
    return [w for w in pieces if conv.out[1] % w == 0] or pieces


def lanes_of_row(cfg: pb.TemplateConfig, conv: Conv) -> int:
    """Return the elements of a vector along a row: the knob `lanes`, or those of a register if there is no choice."""
    return int(cfg["lanes"].val) if "lanes" in cfg.space.knobs else conv.lanes


def reads_rows(cfg: pb.TemplateConfig, conv: Conv) -> bool:
    """Decide whether every second column is picked in registers: where a tile has whole rows, and is written out."""
    if cfg["copy"].val or not cfg["unroll_kh"].val:
        return False
    return conv.stride[1] == 2 and conv.dilation[0] == 1 and cfg["tile_w"].val >= conv.out[1]


def sums_by_rows(cfg: pb.TemplateConfig, conv: Conv, data: te.Tensor, weight: te.Tensor) -> RowStages:
    """Return stages that read the input row by row, the even and odd columns of a row as vectors in registers.

    The sum of a tile goes over the rows of the input that the tile reads, and leaves out those that a result does not.
    """
    height, (sy, sx), dx, zero = cfg["tile_h"].val, conv.stride, conv.dilation[1], te.const(0, "int64")
    row = te.reduce_axis((0, (height - 1) * sy + conv.reach[0] + 1), name="row")
    kw = te.reduce_axis((0, conv.kernel[1]), name="kw")
    rows, columns = (conv.out[0] - 1) * sy + conv.reach[0] + 1, conv.out[1] + conv.reach[1] // sx
    line = te.compute(
        (conv.n, conv.c, rows, columns * sx),
        lambda n, c, y, x: padded(conv, data, (rows - 1, columns * sx - 1), n, c, y, x),
        name="line",
    )
    phases = te.compute(
        (conv.n, conv.c, rows, sx, columns), lambda n, c, y, p, x: line(n, c, y, x * sx + p), name="phases"
    )

    def element(n: te.Expr, c: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
        at, kh = y // height * height * sy + row, row - y % height * sy
        tests = [kh >= 0, kh < conv.kernel[0], *inside(conv, 0, at - conv.padding[0])]
        value = phases(n, c, at, kw * dx % sx, x + kw * dx // sx)
        return te.sum(value * weight(*conv.weight_at(c, zero, kh, kw)), axis=[row, kw], where=te.all(*tests))

    tile = te.compute(conv.out_shape, element, name="tile")
    return RowStages(te.compute(conv.out_shape, lambda *at: tile(*at), name="C"), tile, None, (phases, line))


def copied_image(cfg: pb.TemplateConfig, conv: Conv, data: te.Tensor) -> te.Tensor:
    """Return the bordered input, [n][c][row][phase of columns][column], with room for whole vectors of results."""
    sx, dx = conv.stride[1], conv.dilation[1]
    phases = max(k * dx % sx for k in range(conv.kernel[1])) + 1
    width = cfg["tile_w"].val
    columns = -(-conv.out[1] // width) * width + conv.reach[1] // sx
    rows = (conv.out[0] - 1) * conv.stride[0] + conv.reach[0] + 1
    last = rows - 1, (columns - 1) * sx + phases - 1
    return te.compute(
        (conv.n, conv.c, rows, phases, columns),
        lambda n, c, y, px, x: padded(conv, data, last, n, c, y, x * sx + px),
        name="data_padded",
    )


def order_rows(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, stages: RowStages) -> te.IterVar:
    """Order the loops of the result for NCHW, and return the one that each tile is computed at."""
    out = s[stages.out]
    n, c, y, x = out.op.axis
    yt, yi = out.split(y, factor=cfg["tile_h"].val)
    xt, xi = out.split(x, factor=cfg["tile_w"].val)
    xv, xl = out.split(xi, factor=lanes_of_row(cfg, conv))
    out.reorder(n, c, yt, xt, yi, xv, xl)
    write_out(out, xl, [yi, xv])
    image = out.fuse(n, c)
    threads.share(cfg, out, image)
    if stages.copied is not None:
        copying = s[stages.copied]
        copying.compute_at(out, image)
        *_, column = copying.op.axis
        copying.vectorize(copying.split(column, factor=lanes_of_row(cfg, conv))[1])
    return xt


def place_row(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, stages: RowStages, row: te.IterVar) -> None:
    """Compute a row of the input where the tile reads it, in whole vectors."""
    for tensor in stages.row:
        stage = s[tensor]
        stage.set_scope("local")
        stage.compute_at(s[stages.tile], row)
        *outer, column = stage.op.axis
        stage.storage_align(outer[-1], lanes_of_row(cfg, conv), 0)
        vectors, lanes = stage.split(column, factor=lanes_of_row(cfg, conv))
        write_out(stage, lanes, [*outer, vectors])
