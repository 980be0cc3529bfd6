"""Winograd convolutions: the computation and the schedule.

A block of tiles is the outer loop. It contains, while the data are in the second cache:

- `data_transformed`: Bᵀ d B of all channels, n × n matrices [tile][channel], from a copy of each tile's inputs, or of
  the whole input, with its border of zeros;
- for each block of output channels `products`, n × n products of matrices, in register tiles of `rows` tiles of the
  image × `vectors` vectors of output channels;
- Aᵀ M A, stored at the places of the outputs, with any epilogue.

Transforms are two passes of sums, along rows and along columns. Vectors run along channels; the loop that selects a row
of a matrix is unrolled, so that its constants are in the code.
"""

from __future__ import annotations

from dataclasses import dataclass

import pegbox as pb
from pegbox import te
from pegbox.codegen import LINE
from pegbox.expr import nbytes
from pegbox.templates import bilinear_products, threads
from pegbox.templates.conv_shape import PACKED
from pegbox.templates.conv_stages import Place
from pegbox.templates.linear_sums import chosen, matrix_rows
from pegbox.templates.register_tile import write_out
from pegbox.templates.winograd_shape import Winograd

TILE, IMAGE = "tile", "image"
"""Values of `copy`: what is copied first, the inputs of a tile when it is transformed, or the whole input."""


@dataclass(frozen=True)
class Filters:
    """The transformed filters, and the stages that compute them: none if they were packed ahead."""

    transformed: te.Tensor
    half: te.Tensor | None = None
    panels: te.Tensor | None = None


@dataclass(frozen=True)
class WinogradStages:
    """The stages from the copy of the inputs to the result; a half is the result of one of the two passes."""

    copied: te.Tensor
    data_half: te.Tensor
    data: te.Tensor
    filters: Filters
    products: te.Tensor
    out_half: te.Tensor
    tiles: te.Tensor
    out: te.Tensor


# Computation -------------------------------------------------------------------------------------------------------


def compute(cfg: pb.TemplateConfig, w: Winograd, data: te.Tensor, weight: te.Tensor) -> WinogradStages:
    """Return the result from sums of products of transformed inputs and filters."""
    conv, n, dtype = w.conv, w.size, w.conv.dtype
    t = w.transforms
    copied = _copied(cfg, w, data)
    rows, columns = w.tiles

    def element(p: te.Expr, i: te.Expr | int, j: te.Expr, c: te.Expr) -> te.Expr:
        if cfg["copy"].val == TILE:
            return copied(p, i, j, c)
        return copied(p // (rows * columns), p // columns % rows * w.m + i, p % columns * w.m + j, c)

    data_half = te.compute(
        (w.count, n, n, w.channels),
        lambda p, j, a, c: chosen(a, matrix_rows(t.data, [element(p, i, j, c) for i in range(n)], dtype)),
        name="data_half",
    )
    transformed = te.compute(
        (n, n, w.count, w.channels),
        lambda a, b, p, c: chosen(b, matrix_rows(t.data, [data_half(p, j, a, c) for j in range(n)], dtype)),
        name="data_transformed",
    )
    filters = Filters(weight) if conv.weights == PACKED else _filters(w, weight)
    k = te.reduce_axis((0, conv.c), name="k")
    products = te.compute(
        (n, n, w.count, conv.vectors, conv.lanes),
        lambda a, b, p, v, z: te.sum(transformed(a, b, p, k) * filters.transformed(a, b, v, k, z), axis=k),
        name="products",
    )
    out_half = te.compute(
        (w.count, conv.vectors, n, w.m, conv.lanes),
        lambda p, v, j, a, z: chosen(a, matrix_rows(t.outputs, [products(i, j, p, v, z) for i in range(n)], dtype)),
        name="out_half",
    )

    def pixel(image: te.Expr, v: te.Expr, y: te.Expr, x: te.Expr, z: te.Expr) -> te.Expr:
        p = (image * rows + y // w.m) * columns + x // w.m
        return chosen(x % w.m, matrix_rows(t.outputs, [out_half(p, v, j, y % w.m, z) for j in range(n)], dtype))

    tiles = te.compute((conv.n, conv.vectors, rows * w.m, columns * w.m, conv.lanes), pixel, name="tiles")

    def output(*index: te.Expr) -> te.Expr:
        image, o, y, x = conv.named(index)
        return tiles(image, o // conv.lanes, y, x, o % conv.lanes)

    out = te.compute(conv.out_shape, output, name="C")
    return WinogradStages(copied, data_half, transformed, filters, products, out_half, tiles, out)


def _copied(cfg: pb.TemplateConfig, w: Winograd, data: te.Tensor) -> te.Tensor:
    """Return the inputs with zeros around them: of each tile, or of the whole image, with the channels as last axis."""
    conv, (rows, columns) = w.conv, w.tiles

    def element(n: te.Expr, y: te.Expr, x: te.Expr, c: te.Expr) -> te.Expr:
        tests: list[te.Expr] = [] if w.channels == conv.c else [c < conv.c]
        for at, pad, size, end in zip((y, x), conv.padding, conv.size, w.image, strict=True):
            tests += [at >= pad] if pad else []
            tests += [at < pad + size] if end > pad + size else []
        value = data(*conv.at(n, c, y - conv.padding[0], x - conv.padding[1]))
        return te.if_then_else(te.all(*tests), value, te.const(0, conv.dtype)) if tests else value

    if cfg["copy"].val == IMAGE:
        return te.compute((conv.n, *w.image, w.channels), element, name="data_padded")
    return te.compute(
        (w.count, w.size, w.size, w.channels),
        lambda p, i, j, c: element(
            p // (rows * columns), p // columns % rows * w.m + i, p % columns * w.m + j, c
        ),
        name="data_tile",
    )  # fmt: skip


def _filters(w: Winograd, weight: te.Tensor) -> Filters:
    """Return G g Gᵀ from filters in the user's layout, which are first copied into panels of a vector."""
    conv, (n, r), zero = w.conv, (w.size, w.conv.kernel[0]), te.const(0, w.conv.dtype)

    def element(v: te.Expr, c: te.Expr, i: te.Expr, j: te.Expr, z: te.Expr) -> te.Expr:
        value = weight(*conv.weight_at(v * conv.lanes + z, c, i, j))
        is_full = conv.o % conv.lanes == 0
        return value if is_full else te.if_then_else(v * conv.lanes + z < conv.o, value, zero)

    def rows(values: list[te.Expr]) -> list[te.Expr]:
        return matrix_rows(w.transforms.filters, values, conv.dtype)

    panels = te.compute((conv.vectors, conv.c, r, r, conv.lanes), element, name="weight_packed")
    half = te.compute(
        (conv.vectors, conv.c, r, n, conv.lanes),
        lambda v, c, j, a, z: chosen(a, rows([panels(v, c, i, j, z) for i in range(r)])),
        name="weight_half",
    )
    transformed = te.compute(
        w.weight_shape,
        lambda a, b, v, c, z: chosen(b, rows([half(v, c, j, a, z) for j in range(r)])),
        name="weight_transformed",
    )
    return Filters(transformed, half, panels)


# Schedule ----------------------------------------------------------------------------------------------------------


def schedule(cfg: pb.TemplateConfig, w: Winograd, stages: WinogradStages) -> te.TESchedule:
    """Return the schedule that the configuration describes."""
    s = te.create_schedule(stages.out.op)
    sums = s.cache_write(stages.products, "local")
    block, channels = _schedule_out(cfg, s, w, stages)
    s[stages.products].compute_at(s[stages.out], channels)
    bilinear_products.schedule(cfg, s, stages.products, sums, stages.filters.transformed)
    s[stages.data].compute_at(s[stages.out], block)
    _schedule_data(cfg, s, w, stages)
    _schedule_filters(cfg, s, w, stages.filters)
    return s


def _schedule_out(
    cfg: pb.TemplateConfig, s: te.TESchedule, w: Winograd, stages: WinogradStages
) -> tuple[te.IterVar, te.IterVar]:
    """Store the output transform tile by tile; return the loops over blocks of tiles and of channels."""
    conv, out = w.conv, s[stages.out]
    n, o, y, x = conv.named(out.op.axis)
    yt, yi = out.split(y, factor=w.m)
    xt, xi = out.split(x, factor=w.m * w.run)
    ov, ol = out.split(o, factor=conv.lanes)
    blocks, vector = out.split(ov, factor=cfg["block_o"].val * cfg["vectors"].val)
    out.reorder(n, yt, xt, blocks, vector, yi, xi, ol)
    block, run = out.split(out.fuse(n, yt, xt), factor=-(-cfg["tiles"].val // w.run))
    out.reorder(block, blocks, run, vector, yi)
    threads.share(cfg, out, block)
    at = out, vector
    if conv.layout == "NHWC":
        s[stages.tiles].compute_inline()
        write_out(out, ol, [*([yi] if cfg["unroll_out"].val else []), xi])
    else:
        # Lanes along the row that is stored: vector after vector is turned around in registers.
        out.reorder(ol, xi)
        write_out(out, xi, [ol])
        s[stages.tiles].compute_at(*at)
        at = _schedule_tiles(cfg, s[stages.tiles], w)
    s[stages.out_half].compute_at(*at)
    *_, j, a, z = s[stages.out_half].op.axis
    write_out(s[stages.out_half], z, [a, *([j] if cfg["unroll_out"].val else [])])
    return block, blocks


def _schedule_tiles(cfg: pb.TemplateConfig, tiles: te.Stage, w: Winograd) -> Place:
    """Write tiles next to each other, to store a row of them; return the loop over tiles."""
    n, v, y, x, z = tiles.op.axis
    xt, xi = tiles.split(x, factor=w.m)
    tiles.reorder(n, v, xt, y, xi, z)
    write_out(tiles, z, [xi, *([y] if cfg["unroll_out"].val else [])])
    return tiles, xt


def _schedule_data(cfg: pb.TemplateConfig, s: te.TESchedule, w: Winograd, stages: WinogradStages) -> None:
    """Transform tile by tile, a block of channels at a time."""
    lanes, data = w.conv.lanes, s[stages.data]
    a, b, p, c = data.op.axis
    co, ci = data.split(c, factor=cfg["block_c"].val * lanes)
    cv, cl = data.split(ci, factor=lanes)
    data.reorder(p, co, cv, a, b, cl)
    unrolled = cfg["unroll_in"].val
    write_out(data, cl, [b, *([a] if unrolled else [])])
    # Rows of products, which are read side by side, and matrices, which are written so, lie in different cache sets.
    line = LINE // nbytes(w.conv.dtype)
    data.storage_align(p, 4 * line, line)
    _, j, a, z = s[stages.data_half].op.axis
    s[stages.data_half].compute_at(data, cv)
    write_out(s[stages.data_half], z, [a, *([j] if unrolled else [])])
    copied = s[stages.copied]
    *outer, c = copied.op.axis
    if cfg["copy"].val == TILE:
        copied.compute_at(data, co)
        copied.vectorize(copied.split(c, factor=lanes)[1])
        return
    n, y, x = outer
    threads.share(cfg, copied, copied.fuse(n, y))
    cv, cl = copied.split(c, factor=lanes)
    copied.vectorize(cl)
    if w.conv.layout == "NCHW":  # vectors along rows of pixels are read and turned around
        xo, xi = copied.split(x, factor=lanes)
        copied.reorder(cv, xo, xi, cl)
        copied.unroll(xi)


def _schedule_filters(cfg: pb.TemplateConfig, s: te.TESchedule, w: Winograd, filters: Filters) -> None:
    """Transform one panel of filters after the other; neighbours in the user's layout are read and turned around."""
    if filters.half is None or filters.panels is None:
        return
    stage = s[filters.transformed]
    a, b, v, c, z = stage.op.axis
    stage.reorder(v, c, a, b, z)
    write_out(stage, z, (a, b))
    threads.share(cfg, stage, v)
    _, _, j, a, z = s[filters.half].op.axis
    s[filters.half].compute_at(stage, c)
    write_out(s[filters.half], z, (j, a))
    packing, lanes = s[filters.panels], w.conv.lanes
    packing.compute_at(stage, v)
    v, c, i, j, z = packing.op.axis
    packing.vectorize(z)
    if w.conv.weights == "HWIO":
        packing.reorder(v, i, j, c, z)
        return
    if w.conv.weights == "OIHW":
        outer, near = packing.split(packing.fuse(c, i, j), factor=lanes)
        packing.reorder(v, outer, near, z)
    else:
        outer, near = packing.split(c, factor=lanes)
        packing.reorder(v, i, j, outer, near, z)
    packing.unroll(near)
