"""The knobs of Winograd convolutions besides those of their products: the size of tiles, copies, and transforms."""

from __future__ import annotations

from collections.abc import Iterable

import pegbox as pb
from pegbox.templates import bilinear_products
from pegbox.templates.winograd_shape import Winograd
from pegbox.templates.winograd_stages import IMAGE, TILE

_CHANNELS = (2, 4, 8, 16)  # vectors of input channels
_FEW_REGISTERS, _SMALL = 16, 4  # with few registers, only small matrices are written out whole
_MATRIX = 6  # with many, those of at most this many rows


def declare(cfg: pb.TemplateConfig, sizes: Iterable[Winograd]) -> None:
    """Declare the knobs of a convolution, for the tiles of all sizes m."""
    by_m = {w.m: w for w in sizes}
    products = {m: w.products for m, w in by_m.items()}
    any_w = next(iter(by_m.values()))
    conv = any_w.conv
    cfg.define_knob("m", list(by_m))
    bilinear_products.declare(cfg, products.values(), lambda c: products[int(c["m"].val)], ("m",))
    copies = [TILE, IMAGE] if conv.layout == "NHWC" else [IMAGE]
    cfg.define_knob("copy", copies)
    vectors = any_w.channels // conv.lanes
    blocks = [b for b in _CHANNELS if b < vectors] or [vectors]
    cfg.define_knob("block_c", blocks, when={"copy": [TILE]} if len(copies) > 1 and len(blocks) > 1 else {})
    whole = [False, True] if any(_is_written_out(w) for w in by_m.values()) else [False]
    cfg.define_knob("unroll_in", whole)
    cfg.define_knob("unroll_out", whole)
    cfg.add_constraint(
        lambda c: _is_written_out(by_m[int(c["m"].val)]) or not (c["unroll_in"].val or c["unroll_out"].val),
        reads=("m", "unroll_in", "unroll_out"),
        message="large matrices are not written out whole",
    )


def _is_written_out(w: Winograd) -> bool:
    return w.size <= (_SMALL if w.conv.target.vector_registers <= _FEW_REGISTERS else _MATRIX)
