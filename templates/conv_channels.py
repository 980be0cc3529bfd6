"""Convolutions with vector lanes along output channels, in either layout.

The register tile is `tile_h` × `tile_w` pixels of the result by `vectors` vectors of channels. Each step of the
reduction multiplies one element of the input for each pixel, broadcast, with vectors of weights that were packed for
it: a panel [filter position][input channel][output channel] for each tile of output channels, with zeros beyond the
last. Weights that were packed ahead have such a panel for each vector; a tile reads several of them side by side.

Tiles and blocks that exceed the result read zeros beyond the copy of the input; if the last tiles of a row are cut
(`conv_register_tiles.py`), nothing is computed there. In small images the columns of a filter in the border are
skipped, and its rows by tiles of one row: for a 3×3 filter on 7×7, either is a tenth of the work.
"""

from __future__ import annotations

from collections.abc import Sequence

import pegbox as pb
from pegbox import te
from pegbox.templates import conv_tiles as tiles
from pegbox.templates import threads
from pegbox.templates.conv_choices import AS_IT_LIES, BLOCKED, CHANNELS_INSIDE, FILTER_INSIDE, PLAIN, ROWS_OUTSIDE
from pegbox.templates.conv_register_tiles import channel_tiles, streams_vectors
from pegbox.templates.conv_shape import PACKED, Conv
from pegbox.templates.conv_stages import ConvStages, Place, padded, place_copy, reduction_axes, reduction_loops
from pegbox.templates.register_tile import write_out

# Computation -------------------------------------------------------------------------------------------------------


def compute(cfg: pb.TemplateConfig, conv: Conv, data: te.Tensor, weight: te.Tensor) -> ConvStages:
    """Compute the result from tiles of sums, and these from copies of the operands, by the configuration."""
    (rows, columns), lanes = conv.pixels, conv.lanes
    if cfg["pack_data"].val != AS_IT_LIES:  # the copy has room for whole tiles
        height, width = cfg["tile_h"].val, cfg["tile_w"].val
        rows, columns = -(-rows // height) * height, -(-columns // width) * width
    area = rows, columns
    copied = _copied_data(cfg, conv, data, area)
    packed = None if conv.weights == PACKED else _packed_weights(cfg, conv, weight)
    tile = _tiles(cfg, conv, data, copied, weight if packed is None else packed, area)

    def element(*index: te.Expr) -> te.Expr:
        n, o, y, x = conv.named(index)
        at = (0, y * conv.out[1] + x) if conv.flat else (y, x)
        return tile(n, o // lanes, *at, o % lanes)

    out = te.compute(conv.out_shape, element, name="C")
    return ConvStages(out, tile, copied, packed, ahead=weight if packed is None else None)


def _copied_data(cfg: pb.TemplateConfig, conv: Conv, data: te.Tensor, area: tuple[int, int]) -> te.Tensor | None:
    """Return the input with its border of zeros, in the user's layout or with channels in blocks of `tile_c`."""
    if cfg["pack_data"].val == AS_IT_LIES:
        return None
    spans = [tiles.copy_of(cfg, conv, axis, area[axis]) for axis in range(2)]
    size = [extent for _, extent in spans]
    if cfg["pack_data"].val == PLAIN:
        shape = conv.at(conv.n, conv.c, *size)
        return te.compute(shape, lambda *i: _read(conv, data, spans, *conv.named(i)), name="data_padded")
    block = cfg["tile_c"].size[-1]
    return te.compute(
        (conv.n, conv.c // block, *size, block),
        lambda n, co, y, x, ci: _read(conv, data, spans, n, co * block + ci, y, x),
        name="data_blocked",
    )


def _read(
    conv: Conv, data: te.Tensor, spans: Sequence[tuple[int, int]], n: te.Expr, c: te.Expr, y: te.Expr, x: te.Expr
) -> te.Expr:
    """Return an element of the input by its place in a copy.

    Args:
        spans: the first row of the padded input that is copied, and the number of copied rows; the same for columns.
    """
    if conv.flat:
        value, pixels = data(*conv.at(n, c, x // conv.out[1], x % conv.out[1])), conv.pixels[1]
        return value if spans[1][1] <= pixels else te.if_then_else(x < pixels, value, te.const(0, conv.dtype))
    at, last = list[te.Expr](), list[int]()
    for i, (start, extent), stride, step in zip((y, x), spans, conv.stride, conv.steps, strict=True):
        distance = stride // step
        at.append(i * distance + start)
        last.append(start + (extent - 1) * distance)
    return padded(conv, data, last, n, c, *at)


def _packed_weights(cfg: pb.TemplateConfig, conv: Conv, weight: te.Tensor) -> te.Tensor:
    """Pack weights: [panel][block of channels][kh][kw][channel][output channel], or channels before kh and kw."""
    block, panel = cfg["tile_c"].size[-1], cfg["vectors"].val * conv.lanes
    zero = te.const(0, conv.dtype)
    inner_k = cfg["inner"].val == FILTER_INSIDE
    panels = tiles.panels_of(cfg, conv)

    def element(p: te.Expr, co: te.Expr, a: te.Expr, b: te.Expr, c: te.Expr, z: te.Expr) -> te.Expr:
        ci, kh, kw = (a, b, c) if inner_k else (c, a, b)
        value = weight(*conv.weight_at(p * panel + z, co * block + ci, kh, kw))
        return value if conv.o == panels * panel else te.if_then_else(p * panel + z < conv.o, value, zero)

    inside = (block, *conv.kernel) if inner_k else (*conv.kernel, block)
    return te.compute((panels, conv.c // block, *inside, panel), element, name="weight_packed")


def _tiles(
    cfg: pb.TemplateConfig,
    conv: Conv,
    data: te.Tensor,
    copied: te.Tensor | None,
    weight: te.Tensor,
    area: tuple[int, int],
) -> te.Tensor:
    """Return the sums as [n][vector of output channels][y][x][output channel of the vector]."""
    block, lanes = cfg["tile_c"].size[-1], conv.lanes
    blocked = cfg["pack_data"].val == BLOCKED
    inner_k = cfg["inner"].val == FILTER_INSIDE
    vectors = cfg["vectors"].val
    is_cut = channel_tiles(conv).are_cut and area[1] > conv.pixels[1]
    starts = [0 if copied is None else tiles.copy_of(cfg, conv, axis, area[axis])[0] for axis in range(2)]
    co, kh, kw, ci = reduction_axes(conv, block)

    def pixel(n: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
        if copied is None and conv.flat:
            return data(*conv.at(n, co * block + ci, x // conv.out[1], x % conv.out[1]))
        steps = conv.stride if copied is None else conv.steps
        at = [
            i * step + k * d - start
            for i, step, k, d, start in zip((y, x), steps, (kh, kw), conv.dilation, starts, strict=True)
        ]
        if blocked and copied is not None:
            return copied(n, co, *at, ci)
        return (data if copied is None else copied)(*conv.at(n, co * block + ci, *at))

    def factor(v: te.Expr, z: te.Expr) -> te.Expr:
        if conv.weights == PACKED:
            return weight(v, kh, kw, co * block + ci, z)
        p, of_panel = v // vectors, v % vectors * lanes + z
        return weight(p, co, ci, kh, kw, of_panel) if inner_k else weight(p, co, kh, kw, ci, of_panel)

    def element(n: te.Expr, v: te.Expr, y: te.Expr, x: te.Expr, z: te.Expr) -> te.Expr:
        tests = _inside(cfg, conv, (y, x), (kh, kw)) + ([x < conv.pixels[1]] if is_cut else [])
        if conv.lanes_used < conv.vectors * lanes:
            tests.append(v * lanes + z < conv.lanes_used)
        where = te.all(*tests) if tests else None
        return te.sum(pixel(n, y, x) * factor(v, z), axis=(co, kh, kw, ci), where=where)

    return te.compute((conv.n, conv.vectors, *area, lanes), element, name="tile")


def _inside(cfg: pb.TemplateConfig, conv: Conv, at: Sequence[te.Expr], filter_at: Sequence[te.Expr]) -> list[te.Expr]:
    """Return tests that a row and a column of the filter lie in the image; loops around channels are cut for them.

    With a dilated filter, whole tiles in the border are skipped, and the innermost loop tests no pixel.
    """
    if cfg["inner"].val != CHANNELS_INSIDE:
        return []
    tests = []
    for axis, name in enumerate(("tile_h", "tile_w")):
        stride, first, last = conv.stride[axis], at[axis], at[axis]
        if tiles.border_read(cfg, conv, axis) is not None:
            first = at[axis] // cfg[name].val * cfg[name].val
            last = first + (cfg[name].val - 1)
        elif not (tiles.leaves_border_out(conv, axis) and (axis == 1 or cfg["tile_h"].val == 1)):
            continue
        offset = filter_at[axis] * conv.dilation[axis]
        tests += [last * stride + offset >= conv.padding[axis]]
        tests += [first * stride + offset < conv.padding[axis] + conv.size[axis]]
    return tests


# Schedule ----------------------------------------------------------------------------------------------------------


def schedule(cfg: pb.TemplateConfig, conv: Conv, stages: ConvStages) -> te.TESchedule:
    """Schedule the stages by the configuration."""
    s = te.create_schedule(stages.out.op)
    tile = sums = stages.sums
    # A tile of NCHW passes through memory before a loop over its parts transposes it.
    if conv.layout == "NCHW" and cfg["vectors"].val * cfg["tile_h"].val > 1:
        sums = s.cache_write(tile, "local")
    first, panels = _schedule_out(cfg, s, conv, stages)
    block = s[stages.out], first
    if sums is not tile:
        n, v, y, x, z = s[tile].op.axis
        write_out(s[tile], z, (v, y, x))
        s[sums].compute_at(s[tile], n)
    steps = _schedule_tile(cfg, s, sums)
    if stages.ahead is not None and steps is not None and tiles.fetches_weights(cfg, conv):
        # In a model, weights are not in a near cache at a call: the next panels are fetched while these are multiplied.
        s[stages.out].prefetch(stages.ahead, panels, among=steps)
    if stages.copied is not None:
        copying = s[stages.copied]
        *outer, last = copying.op.axis
        shared = 3 if outer[1].extent == 1 else 2  # the pixels of a flat image are one row
        place_copy(cfg, copying, cfg["data_at"].val, block, outer[:shared])
        if last.extent >= conv.lanes and (cfg["pack_data"].val == PLAIN or conv.layout == "NHWC"):
            copying.vectorize(copying.split(last, factor=conv.lanes)[1])
    if stages.packed is not None:
        _schedule_weights(cfg, s, conv, stages.packed, block)
    return s


def _schedule_out(
    cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, stages: ConvStages
) -> tuple[te.IterVar, te.IterVar]:
    """Schedule blocks of rows and of channels, and tiles in them, each written when it is done.

    Returns:
        The outermost loop, and the one whose iterations all read the same weights.
    """
    out, lanes = stages.out, conv.lanes
    n, o, y, x = conv.named(s[out].op.axis)
    ot, oi = s[out].split(o, factor=cfg["vectors"].val * lanes)
    oo, om = s[out].split(ot, factor=cfg["block_o"].val or tiles.panels_of(cfg, conv))
    xt, xi = s[out].split(s[out].fuse(y, x) if conv.flat else x, factor=cfg["tile_w"].val)
    height = cfg["block_h"].val or tiles.heights_of(cfg, conv)
    rows, loops = list[te.IterVar](), {"o": om}
    if conv.flat:
        yo, xt = s[out].split(xt, factor=height)
    else:
        yt, yi = s[out].split(y, factor=cfg["tile_h"].val)
        yo, loops["h"] = s[out].split(yt, factor=height)
        rows = [yi]
    loops["w"] = xt
    outer = [oo, yo] if cfg["order"].val != ROWS_OUTSIDE else [yo, oo]
    inner = [loops[letter] for letter in cfg["order_tiles"].val if letter in loops]
    ov, ol = s[out].split(oi, factor=lanes)
    if conv.layout == "NHWC":
        last, parts, unrolled = ol, list[te.IterVar](), [*rows, xi, ov]
    else:
        # Lanes run along the stored row: vector after vector is transposed in registers.
        last, parts, unrolled = xi, [*rows, ov], [ol]
    s[out].reorder(n, *outer, *inner, *parts, *unrolled, last)
    write_out(s[out], last, unrolled)
    first = s[out].fuse(n, outer[0])
    threads.share(cfg, s[out], first)
    s[stages.sums].compute_at(s[out], inner[-1])
    blocks = first if outer[0] is oo else oo
    return first, om if tiles.reads_panels_alone(cfg) else blocks


def _schedule_tile(cfg: pb.TemplateConfig, s: te.TESchedule, tile: te.Tensor) -> te.IterVar | None:
    """Schedule a register tile; return the innermost loop over its steps, if there is one."""
    n, v, y, x, z = s[tile].op.axis
    reduction, unrolled = reduction_loops(cfg, s[tile])
    rows, vectors = cfg["tile_h"].val * cfg["tile_w"].val, cfg["vectors"].val
    inside = (v, y, x) if streams_vectors(cfg.target, rows, vectors) else (y, x, v)
    s[tile].reorder(n, *reduction, *inside, z)
    write_out(s[tile], z, (*unrolled, *inside))
    return next((loop for loop in reversed(reduction) if loop not in unrolled), None)


def _schedule_weights(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, packed: te.Tensor, block: Place) -> None:
    """Pack vectors of output channels; in the user's layout, neighbours are read as vectors and transposed."""
    panel, co, *middle, z = s[packed].op.axis
    ci, kh, kw = middle if cfg["inner"].val == FILTER_INSIDE else (middle[2], *middle[:2])
    lanes = conv.lanes
    zv, zl = s[packed].split(z, factor=lanes)
    if conv.weights == "OIHW":
        s[packed].reorder(panel, co, zv, ci, kh, kw, zl)
        outer, near = s[packed].split(s[packed].fuse(ci, kh, kw), factor=lanes)
        outside = [zv, outer]
    else:
        outer, near = s[packed].split(ci, factor=lanes)
        outside = [kh, kw, outer, zv]
    s[packed].reorder(panel, co, *outside, near, zl)
    write_out(s[packed], zl, [near] if conv.weights != "HWIO" else [])
    place_copy(cfg, s[packed], cfg["weights_at"].val, block, [panel])
