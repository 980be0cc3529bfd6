"""The knobs of convolutions, and which of their values go together.

A register tile is rows × vectors: vectors of 16 lanes (of float32) along one dimension, as many rows of them along
another one, accumulated over the whole reduction.

| lanes | vectors along | rows along | broadcast, element by element |
| --- | --- | --- | --- |
| channels | output channels | `tile_h` × `tile_w` pixels of the result | the input |
| pixels | pixels of the result, line after line | `tile_o` output channels | the weights |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegbox.expr.dtypes import nbytes
from pegbox.templates.conv_shape import Conv

_VECTOR_BYTES = 64  # as in the matrix products: narrower vectors take two or four for one of these
_REGISTERS = 32
_LATENCY = 4  # vectors; fewer cannot hide the latency of additions on any machine
_BODY = 256  # multiply-adds in the innermost loop's body
_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28)
_VECTORS = (1, 2, 3, 4, 6)


def lanes_of(conv: Conv) -> int:
    """Elements of the widest vectors."""
    return _VECTOR_BYTES // nbytes(conv.dtype)


def declare(cfg: Any, conv: Conv) -> None:
    """The knobs of a convolution."""
    channels, pixels = {"lanes": "channels"}, {"lanes": "pixels"}
    both = conv.layout == "NCHW"
    oh, ow = conv.out
    widest = -(-max(conv.o, oh * ow if both else 1) // lanes_of(conv))
    cfg.define_knob("lanes", ["channels", "pixels"] if both else ["channels"])
    cfg.define_knob("vectors", [v for v in _VECTORS if v == 1 or v <= widest])
    cfg.define_knob("tile_w", [r for r in _ROWS if r <= ow], when=channels)
    cfg.define_knob("tile_h", [r for r in (1, 2, 3, 4, 7) if r <= oh], when=channels)
    if both:
        cfg.define_knob("tile_o", [r for r in _ROWS if r <= conv.o], when=pixels)
    _declare_reduction(cfg, conv)
    _declare_blocks(cfg, conv)
    _declare_copies(cfg, conv)
    _constrain(cfg, conv)


def _declare_reduction(cfg: Any, conv: Conv) -> None:
    """How the sums run: blocks of channels, filter positions inside or outside of the channels of a block."""
    window = conv.kernel[0] * conv.kernel[1] > 1
    cfg.define_split("tile_c", conv.c, num_outputs=2)
    cfg.define_knob("inner", ["c", "k"] if window else ["c"])
    cfg.define_knob("unroll_c", [u for u in (1, 2, 4, 8) if conv.c % u == 0], when={"inner": "c"})
    if window:
        cfg.define_knob("unroll_k", ["none", "kw", "kh_kw"], when={"inner": "k"})


def _declare_blocks(cfg: Any, conv: Conv) -> None:
    """Blocks of rows and output channels, and the order of the loops: over blocks, and over tiles in a block."""
    cfg.define_knob("block_h", _sizes(conv.out[0], (1, 2, 4, 8, 16, 32)))
    cfg.define_knob("block_o", _sizes(conv.o, (16, 32, 64, 128, 256)))
    cfg.define_knob("order", ["oh", "ho"])
    cfg.define_knob("order_tiles", ["ohw", "how", "hwo"])


def _sizes(extent: int, sizes: tuple[int, ...]) -> list[int]:
    """Those that are less than the whole, and the whole."""
    return [*(size for size in sizes if size < extent), extent]


def _declare_copies(cfg: Any, conv: Conv) -> None:
    """What is copied first, into which layout, and whether all of it beforehand or for each block what it needs."""
    both = conv.layout == "NCHW"
    cfg.define_knob("pack_data", [*([] if any(conv.padding) else ["no"]), "plain", "blocked"])
    cfg.define_knob("data_at", ["root", "block"], when={"pack_data": ("plain", "blocked")})
    if both:
        cfg.define_knob("pack_weights", [True, False])
    cfg.define_knob("weights_at", ["root", "block"], **({"when": {"pack_weights": True}} if both else {}))


def _constrain(cfg: Any, conv: Conv) -> None:
    """Leave out what cannot be fast, whatever the rest of the configuration, and what has no meaning."""
    _constrain_tile(cfg, conv)
    cfg.add_constraint(
        lambda c: c["inner"].val != "c" or c["tile_c"].size[-1] % c["unroll_c"].val == 0,
        reads=("inner", "tile_c", "unroll_c"),
        message="unroll_c divides the block of channels",
    )
    if conv.layout == "NCHW":
        cfg.add_constraint(
            lambda c: c["pack_weights"].val or c["lanes"].val == "pixels",
            reads=("lanes", "pack_weights"),
            message="vectors of weights are read from panels",
        )
        cfg.add_constraint(
            lambda c: c["lanes"].val != "pixels" or c["order_tiles"].val != "how",
            reads=("lanes", "order_tiles"),
            message="lines of pixels have two orders of tiles: channels outside (ohw) or inside (hwo)",
        )
        flat = ("no", "plain") if conv.stride == (1, 1) else ("plain",)
        cfg.add_constraint(
            lambda c: c["lanes"].val != "pixels" or c["pack_data"].val in flat,
            reads=("lanes", "pack_data"),
            message="lanes along pixels read the input plainly, with strides from a copy",
        )


def _rows(c: Any) -> int:
    """Rows of the register tile."""
    if c["lanes"].val == "pixels":
        return int(c["tile_o"].val)
    return int(c["tile_w"].val * c["tile_h"].val)


def _constrain_tile(cfg: Any, conv: Conv) -> None:
    oh, ow = conv.out
    reads = ("lanes", "vectors", "tile_w", "tile_h", *(["tile_o"] if conv.layout == "NCHW" else []))
    lanes = lanes_of(conv)
    vectors = {"channels": -(-conv.o // lanes), "pixels": -(-oh * ow // lanes)}
    most = {"channels": oh * ow, "pixels": conv.o}

    def add(predicate: Callable[[Any], bool], message: str, *more: str) -> None:
        cfg.add_constraint(predicate, reads=(*reads, *more), message=message)

    add(lambda c: c["vectors"].val <= max(vectors[c["lanes"].val], 1), "no vector of the tile is always empty")
    add(lambda c: _rows(c) * c["vectors"].val <= _REGISTERS, f"the register tile takes at most {_REGISTERS} vectors")
    add(
        lambda c: _rows(c) * c["vectors"].val >= min(_LATENCY, most[c["lanes"].val] * vectors[c["lanes"].val]),
        f"the register tile takes at least {_LATENCY} vectors, to hide the latency of additions",
    )
    add(
        lambda c: (
            4 * (_rows(c) + c["vectors"].val) <= 5 * _rows(c) * c["vectors"].val
            or min(vectors[c["lanes"].val], most[c["lanes"].val]) < 2
            or most[c["lanes"].val] < 4
        ),
        "the register tile loads at most five vectors or elements for four multiply-adds",
    )
    unrolled = {"none": 1, "kw": conv.kernel[1], "kh_kw": conv.kernel[0] * conv.kernel[1]}
    add(
        lambda c: c["inner"].val != "c" or _rows(c) * c["vectors"].val * c["unroll_c"].val <= _BODY,
        f"the innermost body has at most {_BODY} multiply-adds",
        "inner",
        "unroll_c",
    )
    if conv.kernel != (1, 1):
        add(
            lambda c: c["inner"].val != "k" or _rows(c) * c["vectors"].val * unrolled[c["unroll_k"].val] <= _BODY,
            f"the innermost body has at most {_BODY} multiply-adds",
            "inner",
            "unroll_k",
        )
