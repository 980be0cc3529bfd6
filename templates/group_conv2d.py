"""2-D convolution in groups: C[n, y, x, o] = Σ data[n, y·s + kh·d - p, x·s + kw·d - p, g(o) + c] · w[kh, kw, c, o].

The channels of the input and of the result form as many groups, and those of a group of the result are sums over the
input's group at the same place, from channel g(o) on (Krizhevsky et al., 2012; ResNeXt: Xie et al., 2017). Vectors run
along the channels of the result. If all lanes are in one group, they have an element of the input in common, as in a
product of matrices; otherwise, the lanes of several groups are picked from a vector of the input. The register tile is
`tile_w` pixels of a row by `vectors` vectors. For narrow groups, an element is loaded once for all columns of the
filter. The image is not copied: the filter's rows and columns in the border are skipped, for which loops are cut there
(`where`).

Packed weights of a group end with a vector: channels with weights of zero are added to groups that do not fill their
last one (`group_outputs`). If registers are wide, the last vector of a group is stored partially, and its second half
is not computed if none of it is stored. Otherwise all sums are stored, and the result is copied from their rows. Tiles
do not reach into the next group: the last one may have fewer vectors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pegbox as pb
from pegbox import te
from pegbox.compute import AHEAD, padded
from pegbox.errors import TemplateError
from pegbox.expr import nbytes
from pegbox.templates import threads
from pegbox.templates.conv_shape import PACKED, Conv, Steps, Window, check_layout, conv_shape, group_outputs
from pegbox.templates.conv_stages import inside, unpacked
from pegbox.templates.register_tile import BODY, WIDE_BITS, computed_extent, is_first_name, write_out
from pegbox.templates.weights import packed

NAME = "group_conv2d"
LAYOUT, WEIGHTS = "NHWC", "HWIO"
_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14)
_VECTORS, _MOST_VECTORS = (1, 2, 3, 4), 7
"""The numbers of vectors of a tile, and the largest number in a tile that has whole groups or all channels."""

_CHANNELS_OUTSIDE = "cyx"
_ORDERS = ("yxc", "ycx", _CHANNELS_OUTSIDE)
"""The orders of the loops over tiles, outermost first: rows, pixels of a row, channels."""

_FEWEST, _OTHERS = 4, 3
"""The fewest accumulators of a tile, and the number of registers for an element of the input and for weights."""

_FEW = 4
"""The largest number of channels of a group whose sum is always unrolled."""

_NARROW, _ROW_BODY = 16, 5 * BODY
"""The smallest number of outputs of a wide group, and the most multiply-adds of a body with a row of the filter."""


@pb.template(NAME)
def group_conv2d(
    cfg: pb.TemplateConfig,
    N: int,
    C: int,
    H: int,
    W: int,
    O: int,  # noqa: E741 - the name of output channels in the layouts
    KH: int,
    KW: int,
    groups: int,
    stride: Steps = 1,
    padding: Steps = 0,
    dilation: Steps = 1,
    layout: str = LAYOUT,
    weights: str = WEIGHTS,
    dtype: str = "float32",
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """Convolve N images (N, H, W, C) with O filters of KH × KW × C / groups each, with zeros around them.

    stride, padding and dilation are a number or a pair (rows, columns), and padding may be (top, left, bottom, right).
    The layout is "NHWC", and that of the weights "HWIO" (KH, KW, C / groups, O) or "packed", for which
    `pegbox.templates.pack_weights` packs them. float32 or float64; other types run, untuned.
    """
    check_layout("layout", layout, (LAYOUT,), NAME)
    check_layout("weights", weights, (WEIGHTS, PACKED), NAME)
    window = Window(stride, padding, dilation)
    conv = conv_shape((N, C, H, W), (O, KH, KW), window, layout, weights, dtype, cfg.target, name=NAME)
    filters = replace(conv, c=_inner(conv, groups), o=groups * group_outputs(conv, groups))
    data = te.placeholder(conv.data_shape, name="data", dtype=dtype)
    weight = te.placeholder(filters.weight_shape, name="weight", dtype=dtype)
    flop = conv.flop / groups
    cfg.add_flop(flop)
    cfg.define_plain(lambda: [_plain(conv, groups, data, weight)])
    _declare(cfg, conv, groups)
    threads.declare(cfg, flop)
    tile = _tile(conv, groups, data, weight)
    is_copied = _is_copied(conv, groups)
    sums = te.compute(tile.shape, lambda *at: tile(*at), name="groups") if is_copied else tile
    out = _result(conv, groups, sums)
    s = te.create_schedule(out.op)
    if is_copied:
        first = _place_tiles(cfg, s, conv, groups, sums, tile)
        _place_rows(cfg, s, first, sums, out, conv.o // groups)
    else:
        threads.share(cfg, s[out], _place_tiles(cfg, s, conv, groups, out, tile))
    return s, [data, weight, out]


group_conv2d.packs("weight", weights=PACKED)(packed)


def _inner(conv: Conv, groups: int) -> int:
    """Return the number of input channels over which each output is a sum.

    Raises:
        TemplateError: the groups do not divide the channels.
    """
    if groups < 1:
        raise TemplateError(f"{NAME}: groups={groups!r} is not a number of groups; give a whole number from 1 on")
    for letter, channels in (("C", conv.c), ("O", conv.o)):
        if channels % groups:
            raise TemplateError(f"{NAME}: groups={groups} does not divide {letter}={channels}; give a divisor of both")
    return conv.c // groups


def _has_gaps(conv: Conv, groups: int) -> bool:
    """Decide if channels are added to each group so that it ends with a vector."""
    return group_outputs(conv, groups) > conv.o // groups


def _end_with_group(conv: Conv, groups: int) -> bool:
    """Decide if tiles end with their group, where the last tile may have fewer vectors.

    Vectors that a group does not fill are stored partially only from wide registers. A part of a single vector would be
    computed in pieces, which takes longer than the whole.
    """
    count, rest = divmod(group_outputs(conv, groups), conv.lanes)
    can_store = not _has_gaps(conv, groups) or conv.target.vector_bits >= WIDE_BITS
    return count > 1 and rest == 0 and can_store


def _is_copied(conv: Conv, groups: int) -> bool:
    """Decide if the result is copied from rows of sums, without the channels that were added."""
    return _has_gaps(conv, groups) and not _end_with_group(conv, groups)


def _area(conv: Conv, groups: int) -> tuple[int, int]:
    """Return the rows and columns of the sums: all pixels of a single flat image that L2 holds are one row.

    Rows of a larger image stay separate, so that the first-level cache keeps a row, or the weights for a row.
    """
    arrays = math.prod(conv.data_shape) + math.prod(conv.out_shape)
    is_held = arrays * nbytes(conv.dtype) <= conv.target.caches.l2
    return conv.pixels if is_held and conv.n == 1 and not _is_copied(conv, groups) else conv.out


# Space ---------------------------------------------------------------------------------------------------------------


def _declare(cfg: pb.TemplateConfig, conv: Conv, groups: int) -> None:
    """Declare the knobs: the tile, the elements of a vector, the order of tiles, and the unrolling of the sum."""
    outputs, inner = group_outputs(conv, groups), conv.c // groups
    sizes = _vector_sizes(conv, groups)
    cfg.define_knob("lanes", sizes)
    area = _area(conv, groups)
    widths = [w for w in _WIDTHS if w <= area[1]]
    vectors = [v for v in _VECTORS if v == 1 or (v - 1) * sizes[0] < conv.o]
    fixed = _fixed_vectors(conv, outputs)
    vectors = sorted({*vectors, *fixed[:1]})
    count, rest = divmod(outputs, conv.lanes)
    if _is_copied(conv, groups):
        vectors = [v for v in vectors if count % v == 0]
    elif _has_gaps(conv, groups):
        vectors = [count] if count <= _VECTORS[-1] else [v for v in vectors if v > 1]
    if _end_with_group(conv, groups) and conv.flat and area == conv.pixels:
        # A last tile of one vector would load nearly as many elements as it has multiply-adds. Where rows end with a
        # tile, the width of tiles matters more.
        even = [v for v in vectors if v > 1 and count % v != 1]
        vectors = [v for v in vectors if v == 1] + even if even else vectors
    cfg.define_knob("tile_w", widths)
    cfg.define_knob("vectors", vectors)
    if rest == 0:
        cfg.add_constraint(
            lambda c: c["vectors"].val <= count, reads=("vectors",), message="vectors of a tile are in one group"
        )
        vectors = [v for v in vectors if v <= count]
    if fixed:
        cfg.add_constraint(
            lambda c: c["lanes"].val < conv.lanes or c["vectors"].val in fixed,
            reads=("lanes", "vectors"),
            message="each lane of a tile has a fixed place in its group",
        )
    # A few channels are picked from a vector by constants, not by a loop's variable.
    unrolls = [inner] if inner <= _FEW else [u for u in (1, 2, 4, 8, 16) if inner % u == 0]
    cfg.define_knob("unroll_c", unrolls)
    cfg.define_knob("order", _ORDERS)
    if _reads_weights_once(conv, groups):
        cfg.prefer(lambda c: _loops(conv, area, c).startswith("c"))
    room = conv.target.vector_registers - _OTHERS
    fewest = min(_FEWEST, max(w * v for w, v in itertools.product(widths, vectors) if w * v <= room - v))
    cfg.add_constraint(
        lambda c: fewest <= c["tile_w"].val * c["vectors"].val <= room - c["vectors"].val,
        reads=("tile_w", "vectors"),
        message="accumulators fit the registers, and hide the latency",
    )
    cfg.add_constraint(
        lambda c: is_first_name(c["order"].val, _ORDERS, _loops(conv, area, c)),
        reads=("lanes", "tile_w", "vectors", "order"),
        message="an order of loops has one name",
    )
    cfg.add_constraint(
        lambda c: c["tile_w"].val * c["vectors"].val * c["unroll_c"].val <= BODY,
        reads=("tile_w", "vectors", "unroll_c"),
        message=f"the innermost body has at most {BODY} multiply-adds",
    )
    cfg.add_constraint(
        lambda c: c["unroll_c"].val == unrolls[0] or _holds_border(conv, groups, c),
        reads=("tile_w", "vectors", "unroll_c"),
        message="registers hold the elements of a step at the border",
    )


def _holds_border(conv: Conv, groups: int, c: pb.Config) -> bool:
    """Decide if registers hold a step's elements of all pixels, together with the sums, where branches skip columns.

    If several columns of the filter reach beyond the same edge of the image, their loop has branches, before which LLVM
    loads all elements. That matters if a row has few tiles. Rows of the filter that are written out have no branches.
    """
    columns = max(conv.padding[1], conv.padding_after[1]) / conv.dilation[1]
    width = c["tile_w"].val
    if columns <= 1 or group_outputs(conv, groups) < _NARROW or 2 * width < conv.out[1]:
        return True
    return bool(width * (c["vectors"].val + c["unroll_c"].val) <= conv.target.vector_registers)


def _reads_weights_once(conv: Conv, groups: int) -> bool:
    """Decide if weights should be read once, for all pixels: rows would read them from beyond the second cache."""
    size = nbytes(conv.dtype)
    weights = math.prod(conv.kernel) * conv.c * group_outputs(conv, groups) * size
    is_shared = conv.n * groups % conv.target.num_cores == 0
    return is_shared and weights > max(conv.target.caches.l2, math.prod(conv.data_shape) * size)


def _loops(conv: Conv, area: tuple[int, int], c: pb.Config) -> str:
    """Return the letters of those loops over tiles that have several iterations, outermost first."""
    counts = {"y": area[0], "x": area[1] / c["tile_w"].val, "c": conv.o / (c["vectors"].val * c["lanes"].val)}
    return "".join(letter for letter in c["order"].val if counts[letter] > 1)


def _vector_sizes(conv: Conv, groups: int) -> list[int]:
    """Return the possible numbers of lanes: those of a register, or of half of it, if they lie in one group.

    For narrow groups, either a register has lanes of several groups, or a vector has the most lanes that lie in one
    group. Halves of wide registers, in one group, take less time if an element is picked for one column of the filter
    alone. Other vectors in one group take more time if they have very few lanes, unless elements would be gathered.
    """
    outputs, inner = group_outputs(conv, groups), conv.c // groups
    shared = [lanes for k in range(conv.lanes.bit_length() - 1) if outputs % (lanes := conv.lanes >> k) == 0][:1]
    is_half = bool(shared) and 2 * shared[0] >= conv.lanes
    is_used_once = conv.kernel[1] == 1 and conv.target.vector_bits >= WIDE_BITS
    if is_half and (2 * outputs > conv.lanes or is_used_once):
        return shared
    is_few = bool(shared) and 4 * shared[0] < conv.lanes
    if not _picks(conv, outputs, inner):
        return [conv.lanes, *shared] if is_few or not shared else shared
    return [conv.lanes] if is_few and _fixed_vectors(conv, outputs) else [conv.lanes, *shared]


def _picks(conv: Conv, outputs: int, inner: int) -> bool:
    """Decide if the elements for the lanes of several groups are so close together that two vectors have them."""
    starts = range(0, math.lcm(outputs, conv.lanes), conv.lanes)
    distance = max((start + conv.lanes - 1) // outputs - start // outputs for start in starts)
    return distance * inner < 2 * conv.lanes


def _fixed_vectors(conv: Conv, outputs: int) -> list[int]:
    """Return the numbers of vectors for which each lane of a tile has a fixed place in its group.

    Such a tile has whole groups or all channels. In others, the elements for lanes of several groups are gathered one
    by one. The list is empty if all lanes of a vector are in one group, or if no such tile fits the registers.
    """
    if outputs % conv.lanes == 0:
        return []
    most = min(_MOST_VECTORS, (conv.target.vector_registers - _OTHERS) // 2)
    ends = range(conv.lanes, most * conv.lanes + 1, conv.lanes)
    return [end // conv.lanes for end in ends if end % outputs == 0 or end - conv.lanes < conv.o <= end]


# Computation ---------------------------------------------------------------------------------------------------------


def _plain(conv: Conv, groups: int, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    """Return the result without the layouts of a schedule."""
    if conv.weights == PACKED:
        outputs, wide = conv.o // groups, group_outputs(conv, groups)
        filters = unpacked(replace(conv, o=groups * wide), weight)
        weight = te.compute(
            (*conv.kernel, weight.shape[3], conv.o),
            lambda kh, kw, c, o: filters(o // outputs * wide + o % outputs, c, kh, kw),
            name="weight_last",
            attrs={AHEAD: True},
        )
    border = padded(data, (0, *conv.padding, 0), (0, *conv.padding_after, 0))
    return te.compute(conv.out_shape, _sums(replace(conv, weights=WEIGHTS), groups, border, weight), name="C")


def _tile(conv: Conv, groups: int, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    """Return the sums; if tiles end with their group, as [n][y][x][group][vector][lane]."""
    sums, outputs, wide = _sums(conv, groups, data, weight), conv.o // groups, group_outputs(conv, groups)
    pixels = conv.n, *_area(conv, groups)
    if not _end_with_group(conv, groups):
        return te.compute((*pixels, groups * wide), sums, name="tile")
    used = computed_extent(conv.target, conv.lanes, outputs)

    def lane(n: te.Expr, y: te.Expr, x: te.Expr, g: te.Expr, v: te.Expr, z: te.Expr) -> te.Expr:
        at = v * conv.lanes + z
        return sums(n, y, x, g * wide + at, g, [at < used] if used < wide else [])

    return te.compute((*pixels, groups, wide // conv.lanes, conv.lanes), lane, name="tile")


def _result(conv: Conv, groups: int, tile: te.Tensor) -> te.Tensor:
    """Return the result, without the channels that were added to fill vectors."""
    outputs, wide = conv.o // groups, group_outputs(conv, groups)
    is_flat = tile.shape[1] != conv.out[0]

    def element(n: te.Expr, y: te.Expr, x: te.Expr, o: te.Expr) -> te.Expr:
        group, at = o // outputs, o % outputs
        pixel = (te.const(0, "int64"), y * conv.out[1] + x) if is_flat else (y, x)
        if tile.ndim == 4:
            return tile(n, *pixel, group * wide + at)
        return tile(n, *pixel, group, at // conv.lanes, at % conv.lanes)

    return te.compute(conv.out_shape, element, name="C")


def _sums(conv: Conv, groups: int, image: te.Tensor, weight: te.Tensor) -> Callable[..., te.Expr]:
    """Return a function that returns the sum for (n, y, x, o), over an image with or without its border of zeros."""
    inner, outputs = conv.c // groups, group_outputs(conv, groups)
    extents = zip((*conv.kernel, inner), ("kh", "kw", "c"), strict=True)
    kh, kw, c = (te.reduce_axis((0, extent), name=each) for extent, each in extents)
    (sy, sx), (dy, dx) = conv.stride, conv.dilation
    is_cut = image.shape[1:3] != conv.padded

    def element(
        n: te.Expr, y: te.Expr, x: te.Expr, o: te.Expr, group: te.Expr | None = None, tests: Sequence[te.Expr] = ()
    ) -> te.Expr:
        if conv.flat:
            row, column = y + x // conv.out[1], x % conv.out[1]
        else:
            row, column = y * sy + kh * dy, x * sx + kw * dx
        if is_cut:  # loops are cut where the filter reaches into the border
            row, column = row - conv.padding[0], column - conv.padding[1]
            tests = [*inside(conv, 0, row), *inside(conv, 1, column), *tests]
        value = image(n, row, column, (o // outputs if group is None else group) * inner + c)
        at = (o // conv.lanes, kh, kw, c, o % conv.lanes) if conv.weights == PACKED else (kh, kw, c, o)
        return te.sum(value * weight(*at), axis=[kh, kw, c], where=te.all(*tests) if tests else None)

    return element


# Schedule ------------------------------------------------------------------------------------------------------------


def _place_tiles(
    cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, groups: int, c: te.Tensor, tile: te.Tensor
) -> te.IterVar:
    """Order the loops over tiles, and sum up each of them in registers; return the outermost loop."""
    out, sums, lanes = s[c], s[tile], cfg["lanes"].val
    n, y, x, o = out.op.axis
    rows = [y]
    if tile.shape[1:3] != c.shape[1:3]:
        rows, x = [], out.fuse(y, x)
    channels = []
    if tile.ndim > c.ndim:
        group, o = out.split(o, factor=conv.o // groups)
        channels = [group]
    ot, oi = out.split(o, factor=cfg["vectors"].val * lanes)
    ov, ol = out.split(oi, factor=lanes)
    xt, xi = out.split(x, factor=cfg["tile_w"].val)
    by_name = {"y": rows, "x": [xt], "c": [*channels, ot]}
    loops = [loop for letter in cfg["order"].val for loop in by_name[letter]]
    out.reorder(n, *loops, xi, ov, ol)
    write_out(out, ol, (xi, ov))
    first = out.fuse(n, loops[0])
    sums.set_scope("local")
    sums.compute_at(out, loops[-1])
    *outer, vectors, inside = sums.op.axis
    if not channels:
        outer, (vectors, inside) = [*outer, vectors], sums.split(inside, factor=lanes)
    kh, kw, channel = sums.op.reduce_axis
    co, ci = sums.split(channel, factor=cfg["unroll_c"].val)
    if _keeps_elements(cfg, conv, groups):
        sums.reorder(kh, co, ci, kw, *outer, vectors, inside)
        write_out(sums, inside, (ci, kw, *outer, vectors))
    else:
        sums.reorder(kh, kw, co, ci, *outer, vectors, inside)
        write_out(sums, inside, (ci, *outer, vectors))
    return first


def _place_rows(
    cfg: pb.TemplateConfig, s: te.TESchedule, first: te.IterVar, sums: te.Tensor, out: te.Tensor, outputs: int
) -> None:
    """Copy the result from sums with gaps: if rows are outermost, row by row while they are in the closest caches.

    Args:
        first: the outermost loop of the sums.
    """
    n, y, _, o = s[out].op.axis
    s[out].vectorize(s[out].split(o, factor=outputs)[1])
    rows = s[out].fuse(n, y)
    threads.share(cfg, s[out], rows)
    if cfg["order"].val.startswith("y"):
        s[sums].compute_at(s[out], rows)
    else:
        threads.share(cfg, s[sums], first)


def _keeps_elements(cfg: pb.TemplateConfig, conv: Conv, groups: int) -> bool:
    """Decide if a row of the filter is written out, so that an element is loaded once for all of its columns.

    In narrow groups, broadcasting an element, or picking it from a vector, takes as long as a multiply-add. In wider
    groups, the multiply-add itself loads and broadcasts its element.
    """
    body = cfg["tile_w"].val * cfg["vectors"].val * cfg["unroll_c"].val * conv.kernel[1]
    return group_outputs(conv, groups) < _NARROW and body <= _ROW_BODY
