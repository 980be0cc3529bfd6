"""The knobs of attention, and their constraints.

Both products have register tiles of `mr` rows: `vectors` × lanes keys of the scores, `columns` × lanes columns of the
output. With keys="dot" lanes run along the reduction instead, for few rows, and a tile has `vectors` keys. A block has
`tiles` × `mr` query rows and `block` keys (0: all): its scores stay in the first caches.
"""

from __future__ import annotations

from dataclasses import dataclass

import pegbox as pb
from pegbox.codegen import LATENCY, fits_registers
from pegbox.task import KnobValues
from pegbox.templates import threads
from pegbox.templates.attention_shape import Attention
from pegbox.templates.register_tile import BODY, VECTORS, is_balanced, step_cost

PACKED, DOT = "packed", "dot"

_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14)
_TILES = (1, 2, 4, 8, 16)
_BLOCKS = (32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
_FEW_ROWS = 16  # the most rows for which packing the keys may not pay
_FIRST_BLOCK = 128
_WHOLE = 2048  # the most keys in a single block


@dataclass(frozen=True)
class Blocks:
    """The sizes of a configuration: of a block of rows and of keys, and of the register tiles."""

    mr: int
    rows: int
    keys: int
    width: int
    columns: int
    is_packed: bool

    def count(self, p: Attention) -> int:
        """Count the blocks of keys."""
        return -(-p.n_k // self.keys)


def declare(cfg: pb.TemplateConfig, p: Attention) -> None:
    """Declare the knobs; the first value of each is good without a search."""
    ways = [PACKED, DOT] if 1 < p.rows <= _FEW_ROWS else [DOT] if p.rows == 1 else [PACKED]
    if len(ways) > 1:
        cfg.define_knob("keys", ways)
    rows = [r for r in _ROWS if r <= p.rows and fits_registers(p.target, r, 1)]
    keys, columns = (_widths(-(-extent // p.lanes)) for extent in (p.n_k, p.d_v))
    mr, vectors = min(
        (
            (r, v)
            for r in rows
            for v in keys
            if v in columns and _FIRST_BLOCK % (v * p.lanes) == 0 and (fits_registers(p.target, r, v) or r * v == 1)
        ),
        key=lambda tile: (step_cost(*tile) / (tile[0] * tile[1]), -tile[0] * tile[1], tile[1]),
    )
    cfg.define_knob("mr", _from(mr, rows))
    cfg.define_knob("vectors", _from(vectors, keys))
    cfg.define_knob("columns", _from(vectors, columns))
    tiles = max(n for n in _TILES if n == 1 or (n <= 4 and (n - 1) * mr < p.rows))
    cfg.define_knob("tiles", _from(tiles, [n for n in _TILES if n == 1 or n < 2 * p.rows]))
    whole = [0] if p.n_k <= _WHOLE or p.n_k <= _BLOCKS[0] else []
    cfg.define_knob("block", _from(_FIRST_BLOCK, [*whole, *(n for n in _BLOCKS if n < p.n_k)]))
    cfg.define_knob("unroll", _from(4, [u for u in (1, 2, 4, 8) if u <= p.d]))
    threads.declare(cfg, p.flop)
    _constrain(cfg, p, ways)


def _widths(most: int) -> list[int]:
    return [v for v in VECTORS if v == 1 or v <= most]


def _from(first: int, values: list[int]) -> list[int]:
    """Put one of the values first, if it is among them."""
    return sorted(values, key=lambda value: value != first)


def _way(c: KnobValues, p: Attention) -> str:
    return DOT if p.rows == 1 else str(c["keys"].val) if p.rows <= _FEW_ROWS else PACKED


def _reads(ways: list[str], *names: str) -> tuple[str, ...]:
    return (*(("keys",) if len(ways) > 1 else ()), *names)


def blocks_of(c: KnobValues, p: Attention) -> Blocks:
    """Return the sizes that a configuration gives."""
    packed, mr = _way(c, p) == PACKED, c["mr"].val
    width = c["vectors"].val * (p.lanes if packed else 1)
    step = width if packed else max(width, p.lanes)
    keys = c["block"].val or -(-p.n_k // step) * step
    return Blocks(mr, mr * c["tiles"].val, keys, width, c["columns"].val * p.lanes, packed)


def _constrain(cfg: pb.TemplateConfig, p: Attention, ways: list[str]) -> None:
    def shape(c: pb.Config) -> tuple[int, int]:
        return c["mr"].val, c["vectors"].val

    def tile(c: pb.Config) -> tuple[int, int]:
        return c["mr"].val, c["columns"].val

    def fits(c: pb.Config) -> bool:
        return all(fits_registers(p.target, *s) or s == (1, 1) for s in (shape(c), tile(c)))

    cfg.add_constraint(
        fits,
        reads=_reads(ways, "mr", "vectors", "columns"),
        message=f"a register tile takes at most {p.target.vector_registers} vectors",
    )
    cfg.add_constraint(
        lambda c: blocks_of(c, p).keys % blocks_of(c, p).width == 0 and blocks_of(c, p).keys % p.lanes == 0,
        reads=_reads(ways, "mr", "vectors", "tiles", "columns", "block"),
        message="a block holds whole register tiles",
    )
    cfg.add_constraint(
        lambda c: max(shape(c)[0] * shape(c)[1], tile(c)[0] * tile(c)[1]) * c["unroll"].val <= BODY,
        reads=("mr", "vectors", "columns", "unroll"),
        message=f"the innermost body has at most {BODY} multiply-adds",
    )
    cfg.add_constraint(
        lambda c: c["tiles"].val == 1 or (c["tiles"].val - 1) * c["mr"].val < p.rows,
        reads=("mr", "tiles"),
        message="a block of rows is not longer than there are rows",
    )
    if p.rows >= 4 and -(-p.n_k // p.lanes) >= 2:
        cfg.add_constraint(
            lambda c: is_balanced(*shape(c)) and shape(c)[0] * shape(c)[1] >= min(LATENCY, p.rows),
            reads=("mr", "vectors"),
            message=f"the tile of scores has {LATENCY} accumulators, and more multiply-adds than loads",
        )

    def stays_in_cache(c: pb.Config) -> bool:
        sizes = blocks_of(c, p)
        return bool(c["tiles"].val == 1 or sizes.rows * sizes.keys * p.itemsize <= p.target.caches.l2 // 4)

    cfg.add_constraint(
        stays_in_cache,
        reads=_reads(ways, "mr", "vectors", "tiles", "columns", "block"),
        message="the scores of a block take a part of L2",
    )
