"""The knobs of attention, and their constraints.

Both products have register tiles of `mr` rows: `vectors` × lanes keys of the scores, `columns` × lanes columns of the
output. With keys="dot" lanes run along the reduction instead, for few rows, and a tile has `vectors` keys. A block has
`tiles` × `mr` query rows and at most `block` keys (0: all), rounded up to tiles: its scores stay in the first caches.
Blocks share the keys evenly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import pegbox as pb
from pegbox.codegen import LATENCY, fits_registers
from pegbox.task import KnobValues
from pegbox.templates import threads
from pegbox.templates.attention_shape import Attention
from pegbox.templates.register_tile import BODY, VECTORS, is_balanced, step_cost

PACKED, DOT, PLAIN = "packed", "dot", "plain"

_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14)
_TILES = (1, 2, 3, 4, 6, 8, 12, 16)
_BLOCKS = (32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
_FEW_ROWS = 16  # the most rows for which packing the keys may not pay
_WHOLE = 2048  # the most keys in a single block
_PARTIAL = 1.1  # the time of tiles, the last of which has fewer columns
_SOFTMAX, _RESCALING = 30.0, 16.0  # half cycles for a vector of scores, and for one of the output after each block


@dataclass(frozen=True)
class Blocks:
    """The sizes of a configuration: of a block of rows and of keys, and of the register tiles.

    `scales_keys` says that packed keys are scaled, instead of the queries of each block of rows.
    """

    mr: int
    rows: int
    keys: int
    width: int
    columns: int
    is_packed: bool
    packs_values: bool
    scales_keys: bool

    def count(self, p: Attention) -> int:
        """Count the blocks of keys."""
        return -(-p.n_k // self.keys)


def declare(cfg: pb.TemplateConfig, p: Attention) -> None:
    """Declare the knobs; the first value of each is good without a search."""
    ways = [DOT, PACKED] if 1 < p.rows <= _FEW_ROWS else [DOT] if p.rows == 1 else [PACKED]
    if len(ways) > 1:
        cfg.define_knob("keys", ways)
    if p.rows > _FEW_ROWS:
        cfg.define_knob("values", [PACKED, PLAIN])
    first = _first(p, ways[0] == PACKED)
    rows = [r for r in _ROWS if r <= p.rows and fits_registers(p.target, r, 1)]
    keys, columns = (_widths(-(-extent // p.lanes)) for extent in (p.n_k, p.d_v))
    cfg.define_knob("mr", _from(first.mr, rows))
    cfg.define_knob("vectors", _from(first.vectors, keys))
    cfg.define_knob("columns", _from(first.columns, columns))
    cfg.define_knob("tiles", _from(first.tiles, [n for n in _TILES if n == 1 or n < 2 * p.rows]))
    cfg.define_knob("block", _from(first.block, _blocks(p)))
    cfg.define_knob("unroll", _from(1 if ways[0] == DOT and first.mr > 1 else 4, [u for u in (1, 2, 4, 8) if u <= p.d]))
    threads.declare(cfg, p.flop)
    cfg.prefer_first()
    _constrain(cfg, p, ways)


class _First(NamedTuple):
    """The values that a search begins with."""

    mr: int
    vectors: int
    columns: int
    tiles: int
    block: int


@cache
def _first(p: Attention, packed: bool) -> _First:
    """Choose the values with the least estimated time of a row, rows and keys beyond the last included."""
    found = []
    keys, columns = (_widths(-(-extent // p.lanes)) for extent in (p.n_k, p.d_v))
    for mr in _ROWS:
        if mr > p.rows or not fits_registers(p.target, mr, 1):
            continue
        fitting = [v for v in VECTORS if fits_registers(p.target, mr, v) or mr * v == 1]
        made, c = min((_products(p, mr, c), c) for c in columns if c in fitting)
        scores = [
            (_scores(p, mr, v, block, packed=packed), v, block)
            for v in keys
            for block in _blocks(p)
            if v in fitting and (not _needs_balance(p) or (is_balanced(mr, v) and mr * v >= min(LATENCY, p.rows)))
        ]
        if not scores:
            continue
        least, v, block = min(scores)
        room = _room(p) // (2 * mr * _keys(p, block, v * (p.lanes if packed else 1)))
        tiles = min(
            (n for n in _TILES if n == 1 or (n <= room and (n - 1) * mr < p.rows)),
            key=lambda n: (-(-p.rows // (mr * n)) * n * (1 + 0.02 / n), n),
        )
        total = (made + least) * -(-p.rows // (mr * tiles)) * tiles * mr
        found.append((total, _First(mr, v, c, tiles, block)))
    return min(found)[1]


def _room(p: Attention) -> int:
    """Return the elements that half of the first cache holds: a panel of values; scores and their exponentials."""
    return p.target.caches.l1 // (2 * p.itemsize)


def _products(p: Attention, mr: int, columns: int) -> float:
    """Estimate the time of a row's products with the values."""
    whole = -(-p.d_v // (columns * p.lanes))
    partial = 1.0 if p.d_v % (columns * p.lanes) == 0 else _PARTIAL
    return partial * p.n_k * whole * step_cost(mr, columns) / mr


def _scores(p: Attention, mr: int, vectors: int, block: int, *, packed: bool) -> float:
    """Estimate the time of a row's scores, their exponentials, and the rescaling after each block."""
    width = vectors * p.lanes if packed else vectors
    keys = _keys(p, block, width if packed else math.lcm(width, p.lanes))
    count: float = -(-p.n_k // keys)
    if p.causal and not p.is_folded:  # blocks beyond the diagonal are left out
        count = min(count, (p.n_k - p.n_q / 2) / keys + 0.5)
    rescaling = _RESCALING * -(-p.d_v // p.lanes) * (count if count > 1 else 0.5)
    depth = p.d if packed else -(-p.d // p.lanes) + 4  # the lanes are added up at the end
    whole = keys * count
    spilled = 1.06 if keys * max(2 * mr, 2 * p.lanes) > _room(p) else 1.0
    products = whole / width * depth * step_cost(mr, vectors) / mr
    return (products + whole / p.lanes * _SOFTMAX) * spilled + rescaling


def _blocks(p: Attention) -> list[int]:
    """List the values of the knob `block`, each of which cuts the keys into another number of blocks."""
    counts = {-(-p.n_k // block): block for block in _BLOCKS if block < p.n_k}
    whole = [0] if p.n_k <= _WHOLE or not counts else []
    return [*whole, *sorted(counts.values())]


def _keys(p: Attention, block: int, step: int) -> int:
    """Return the keys of a block, a multiple of `step`."""
    count = -(-p.n_k // block) if block else 1
    return -(-p.n_k // (count * step)) * step


def _needs_balance(p: Attention) -> bool:
    """Decide whether there are enough rows and keys for tiles that keep the multipliers busy."""
    return p.rows >= 4 and -(-p.n_k // p.lanes) >= 2


def _widths(most: int) -> list[int]:
    return [v for v in VECTORS if v == 1 or v <= most]


def _from(first: int, values: list[int]) -> list[int]:
    """Put one of the values first, if it is among them."""
    return sorted(values, key=lambda value: value != first)


def _way(c: KnobValues, p: Attention) -> str:
    return DOT if p.rows == 1 else str(c["keys"].val) if p.rows <= _FEW_ROWS else PACKED


def _reads(p: Attention, ways: list[str], *names: str) -> tuple[str, ...]:
    return (*(("keys",) if len(ways) > 1 else ()), *(("values",) if p.rows > _FEW_ROWS else ()), *names)


def blocks_of(c: KnobValues, p: Attention) -> Blocks:
    """Return the sizes that a configuration gives."""
    packed, mr = _way(c, p) == PACKED, c["mr"].val
    width = c["vectors"].val * (p.lanes if packed else 1)
    keys = _keys(p, c["block"].val, width if packed else math.lcm(width, p.lanes))
    columns, packs_values = c["columns"].val * p.lanes, p.rows > _FEW_ROWS and c["values"].val == PACKED
    return Blocks(mr, mr * c["tiles"].val, keys, width, columns, packed, packs_values, packed and not p.is_folded)


def _constrain(cfg: pb.TemplateConfig, p: Attention, ways: list[str]) -> None:
    def shape(c: pb.Config) -> tuple[int, int]:
        return c["mr"].val, c["vectors"].val

    def tile(c: pb.Config) -> tuple[int, int]:
        return c["mr"].val, c["columns"].val

    def fits(c: pb.Config) -> bool:
        return all(fits_registers(p.target, *s) or s == (1, 1) for s in (shape(c), tile(c)))

    cfg.add_constraint(
        fits,
        reads=_reads(p, ways, "mr", "vectors", "columns"),
        message=f"a register tile takes at most {p.target.vector_registers} vectors",
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
    if _needs_balance(p):
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
        reads=_reads(p, ways, "mr", "vectors", "tiles", "columns", "block"),
        message="the scores of a block take a part of L2",
    )
