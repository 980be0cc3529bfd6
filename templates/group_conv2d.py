"""2-D convolution in groups: C[n, y, x, o] = Σ data[n, y·s + kh·d - p, x·s + kw·d - p, g(o) + c] · w[kh, kw, c, o].

The channels of the input and of the result form as many groups, and those of a group of the result are sums over the
input's group at the same place, from channel g(o) on (Krizhevsky et al., 2012; ResNeXt: Xie et al., 2017). Vectors run
along the channels of the result. In most of them all lanes are in one group, so that they have an element of the input
in common, as in a product of matrices; else lanes of several groups are picked out of a vector of the input. The
register tile is `tile_w` pixels of a row by `vectors` vectors. For narrow groups, an element is loaded once for all
columns of the filter. The image is copied first, with zeros at both ends of its rows; rows of the filter above or below
the image are left out.

Packed weights of a group end with a vector: channels with weights of zero are added to groups that do not fill their
last one (`group_outputs`). Then all sums are stored, and the result is copied from them without these.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pegbox as pb
from pegbox import te
from pegbox.compute import AHEAD, padded
from pegbox.errors import TemplateError
from pegbox.expr import nbytes
from pegbox.templates import threads
from pegbox.templates.conv_shape import PACKED, Conv, Steps, Window, check_layout, conv_shape, group_outputs
from pegbox.templates.conv_stages import inside, unpacked
from pegbox.templates.register_tile import BODY, is_first_name, write_out
from pegbox.templates.weights import packed

NAME = "group_conv2d"
LAYOUT, WEIGHTS = "NHWC", "HWIO"
_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14)
_VECTORS = (1, 2, 3, 4)
_ORDERS = ("yxc", "ycx", "cyx")
"""The orders of the loops over tiles, outermost first: rows, pixels of a row, channels."""

_LINE = 64
"""The bytes of a cache line."""

_FEWEST, _OTHERS = 4, 3
"""The fewest accumulators of a tile; the registers for an element of the input and for weights."""

_NARROW, _ROW_BODY = 16, 5 * BODY
"""The least number of outputs of a wide group; the most multiply-adds of a body with a row of the filter."""


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
    The layout is "NHWC", that of the weights "HWIO" (KH, KW, C / groups, O) or "packed", for which
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
    image = _bordered(conv, data, rows=False)
    tile = _sums(conv, groups, image, weight, "tile")
    sums = te.compute(tile.shape, lambda *at: tile(*at), name="C" if tile.shape == conv.out_shape else "groups")
    out = sums if tile.shape == conv.out_shape else _without_gaps(conv, groups, sums)
    s = te.create_schedule(out.op)
    _place_tiles(cfg, s, conv, groups, sums, tile)
    if image is not data:
        _place_border(cfg, s, conv, image)
    if out is not sums:
        n, y, _, o = s[out].op.axis
        threads.share(cfg, s[out], s[out].fuse(n, y))
        s[out].vectorize(s[out].split(o, factor=conv.o // groups)[1])
    return s, [data, weight, out]


group_conv2d.packs("weight", weights=PACKED)(packed)


def _inner(conv: Conv, groups: int) -> int:
    """Return the channels of the input that each output is a sum over.

    Raises:
        TemplateError: the groups do not divide the channels.
    """
    if groups < 1:
        raise TemplateError(f"{NAME}: groups={groups!r} is not a number of groups; give a whole number from 1 on")
    for letter, channels in (("C", conv.c), ("O", conv.o)):
        if channels % groups:
            raise TemplateError(f"{NAME}: groups={groups} does not divide {letter}={channels}; give a divisor of both")
    return conv.c // groups


# Space ---------------------------------------------------------------------------------------------------------------


def _declare(cfg: pb.TemplateConfig, conv: Conv, groups: int) -> None:
    """Declare the knobs: the tile, the elements of a vector, the order of tiles, and how far the sum is unrolled."""
    outputs, inner = group_outputs(conv, groups), conv.c // groups
    sizes = _vector_sizes(conv, outputs)
    is_wide = outputs * groups > conv.o
    cfg.define_knob("lanes", sizes)
    widths = [w for w in _WIDTHS if w <= conv.out[1]]
    vectors = [v for v in _VECTORS if v == 1 or (v - 1) * sizes[0] < conv.o]
    if is_wide:  # tiles end with their group
        vectors = [v for v in vectors if outputs // sizes[0] % v == 0]
    cfg.define_knob("tile_w", widths)
    cfg.define_knob("vectors", vectors)
    cfg.define_knob("unroll_c", [u for u in (1, 2, 4, 8, 16) if inner % u == 0])
    cfg.define_knob("order", _ORDERS)
    room = conv.target.vector_registers - _OTHERS
    fewest = min(_FEWEST, max(w * v for w, v in itertools.product(widths, vectors) if w * v <= room - v))
    cfg.add_constraint(
        lambda c: fewest <= c["tile_w"].val * c["vectors"].val <= room - c["vectors"].val,
        reads=("tile_w", "vectors"),
        message="accumulators fit the registers, and hide the latency",
    )
    cfg.add_constraint(
        lambda c: is_first_name(c["order"].val, _ORDERS, _loops(conv, c)),
        reads=("lanes", "tile_w", "vectors", "order"),
        message="an order of loops has one name",
    )
    cfg.add_constraint(
        lambda c: c["tile_w"].val * c["vectors"].val * c["unroll_c"].val <= BODY,
        reads=("tile_w", "vectors", "unroll_c"),
        message=f"the innermost body has at most {BODY} multiply-adds",
    )


def _loops(conv: Conv, c: pb.Config) -> str:
    """Return the letters of loops over tiles that have several iterations."""
    counts = {"y": conv.out[0], "x": conv.out[1] / c["tile_w"].val, "c": conv.o / (c["vectors"].val * c["lanes"].val)}
    return "".join(letter for letter, count in counts.items() if count > 1)


def _vector_sizes(conv: Conv, outputs: int) -> list[int]:
    """Return the possible numbers of lanes: those of a register, or of half of it, if they lie in one group.

    For narrow groups, either a register has lanes of several groups, or a vector has the most that lie in one group.
    """
    shared = [lanes for k in range(conv.lanes.bit_length() - 1) if outputs % (lanes := conv.lanes >> k) == 0]
    return shared[:1] if shared and 2 * shared[0] >= conv.lanes else [conv.lanes, *shared[:1]]


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
    return _sums(replace(conv, weights=WEIGHTS), groups, _bordered(conv, data), weight, "C")


def _bordered(conv: Conv, data: te.Tensor, *, rows: bool = True) -> te.Tensor:
    """Return the image with its border of zeros, or with zeros at both ends of its rows only."""
    (above, left), (below, right) = conv.padding, conv.padding_after
    return padded(data, (0, above * rows, left, 0), (0, below * rows, right, 0), name="data_padded")


def _sums(conv: Conv, groups: int, image: te.Tensor, weight: te.Tensor, name: str) -> te.Tensor:
    """Return the sums over an image that has its border, or only the columns of it."""
    inner, outputs = conv.c // groups, group_outputs(conv, groups)
    extents = zip((*conv.kernel, inner), ("kh", "kw", "c"), strict=True)
    kh, kw, c = (te.reduce_axis((0, extent), name=each) for extent, each in extents)
    (sy, sx), (dy, dx) = conv.stride, conv.dilation
    is_cut = image.shape[1] < conv.padded[0]

    def element(n: te.Expr, y: te.Expr, x: te.Expr, o: te.Expr) -> te.Expr:
        row = y * sy + kh * dy - conv.padding[0] * is_cut
        tests = inside(conv, 0, row) if is_cut else []
        value = image(n, row, x * sx + kw * dx, o // outputs * inner + c)
        at = (o // conv.lanes, kh, kw, c, o % conv.lanes) if conv.weights == PACKED else (kh, kw, c, o)
        return te.sum(value * weight(*at), axis=[kh, kw, c], where=te.all(*tests) if tests else None)

    return te.compute((*conv.out_shape[:3], groups * outputs), element, name=name)


def _without_gaps(conv: Conv, groups: int, sums: te.Tensor) -> te.Tensor:
    """Return the sums of the result's channels, without those of channels that were added to fill vectors."""
    outputs, wide = conv.o // groups, group_outputs(conv, groups)

    def element(n: te.Expr, y: te.Expr, x: te.Expr, o: te.Expr) -> te.Expr:
        return sums(n, y, x, o // outputs * wide + o % outputs)

    return te.compute(conv.out_shape, element, name="C")


# Schedule ------------------------------------------------------------------------------------------------------------


def _place_tiles(
    cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, groups: int, c: te.Tensor, tile: te.Tensor
) -> None:
    """Order the loops over tiles, and sum up each of them in registers."""
    out, sums, lanes = s[c], s[tile], cfg["lanes"].val
    n, y, x, o = out.op.axis
    ot, oi = out.split(o, factor=cfg["vectors"].val * lanes)
    ov, ol = out.split(oi, factor=lanes)
    xt, xi = out.split(x, factor=cfg["tile_w"].val)
    by_name = {"y": y, "x": xt, "c": ot}
    loops = [by_name[letter] for letter in cfg["order"].val]
    out.reorder(n, *loops, xi, ov, ol)
    write_out(out, ol, (xi, ov))
    threads.share(cfg, out, out.fuse(n, loops[0]))
    sums.set_scope("local")
    sums.compute_at(out, loops[-1])
    *outer, last = sums.op.axis
    kh, kw, channel = sums.op.reduce_axis
    vectors, inside = sums.split(last, factor=lanes)
    co, ci = sums.split(channel, factor=cfg["unroll_c"].val)
    if _keeps_elements(cfg, conv, groups):
        sums.reorder(kh, co, ci, kw, *outer, vectors, inside)
        write_out(sums, inside, (ci, kw, *outer, vectors))
    else:
        sums.reorder(kh, kw, co, ci, *outer, vectors, inside)
        write_out(sums, inside, (ci, *outer, vectors))


def _keeps_elements(cfg: pb.TemplateConfig, conv: Conv, groups: int) -> bool:
    """Decide whether a row of the filter is written out, so that an element is loaded once for all columns of it.

    In narrow groups, to broadcast an element, or to pick it out of a vector, takes as long as a multiply-add. In wider
    groups, the multiply-add itself loads and broadcasts its element.
    """
    body = cfg["tile_w"].val * cfg["vectors"].val * cfg["unroll_c"].val * conv.kernel[1]
    return group_outputs(conv, groups) < _NARROW and body <= _ROW_BODY


def _place_border(cfg: pb.TemplateConfig, s: te.TESchedule, conv: Conv, border: te.Tensor) -> None:
    """Copy the image in vectors, and pad its pixels against conflicts in the caches."""
    copying = s[border]
    n, y, x, channels = copying.op.axis
    threads.share(cfg, copying, copying.fuse(n, y))
    copying.vectorize(copying.split(channels, factor=cfg["lanes"].val)[1])
    # An odd number of lines: else a tile's channels of all pixels lie in few sets of the caches.
    line = _LINE // nbytes(conv.dtype)
    copying.storage_align(x, 2 * line, line)
