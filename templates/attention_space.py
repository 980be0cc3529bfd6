"""The knobs of attention, and their constraints.

Both products have register tiles of `mr` rows: `vectors` × lanes keys of the scores, `columns` × lanes columns of the
output. With keys="dot", for few rows, lanes run along the reduction instead, and a tile has `vectors` keys. A block has
`tiles` × `mr` query rows and at most `block` keys (0: all), rounded up to tiles, so that its scores stay in the closest
caches. Blocks share the keys evenly.

With enough registers, the first tile of a row of tiles of the output computes the weights of its keys itself
(`Blocks.streams`), unless blocks are so short that the factors after each block would cost more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

import pegbox as pb
from pegbox.codegen import LATENCY, LINE, fits_registers
from pegbox.task import KnobValues
from pegbox.templates import threads
from pegbox.templates.attention_shape import Attention
from pegbox.templates.register_tile import BODY, VECTORS, is_balanced, step_cost

PACKED, DOT, PLAIN = "packed", "dot", "plain"

_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14)
_TILES = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256)
_BLOCKS = (32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
_FEW_ROWS = 16  # the largest number of rows for which packing the keys may not pay
_WHOLE = 2048  # the largest number of keys in a single block
_ROOMY = 32  # the smallest number of registers that hold a tile and the values of an exponential
_LONG = 512  # the smallest number of keys in a block for which the factors of a few rows at a time cost little
_UNEVEN = 1.05  # the relative cost of two tiles if the second one is narrower
_TALL = 8  # the largest number of rows of a tile whose accumulators leave registers for exponentials
_PARTIAL = 1.1  # the relative time of tiles if the last one has fewer vectors

# Times, in units of a multiply-add of vectors:
_SOFTMAX = 16.0  # for a vector of scores
_STREAMED = 7.0  # for the same between the steps of the products with the values
_KEEPING = 2.0  # additionally, if further tiles need the weights
_SPILLED = 1.2  # additionally, if the scores have left the first-level cache
_SPILLED_FAR = 4.0  # the same if weights are streamed, and the second-level cache does not keep keys and values
_WAITING = 24.0  # additionally, shared by the rows of a tile, if these are few and wait for each step
_FEW_CHAINS = 4  # the number of rows of a tile from which on they do not wait
_RESCALING = 8.0  # for rescaling a vector of the output after a block of keys
_RECURRENCE = 60.0  # for computing the factors of that
_PACKING = 6.0  # for packing a vector of keys or values
_TILE = 1.0  # for the ends of a register tile
_ADDING_LANES = 4  # for adding up the lanes of a score
_STEP = 0.02 * LATENCY  # for a step's own instructions: large tiles have fewer steps
_SCARCE = 0.8  # additionally, if a step has few accumulators: on a Zen 4, 10 accumulators of AVX2 reach 92% of the peak
_CROWDING = 0.0006  # cycles per square of the accumulators, so that tiles that leave some registers are preferred
_LOAD = 0.1  # for a load, for each line after the first that is multiplied in a cycle: loads are no faster then
_OVERLAP = 0.75  # the part of a narrow tile's waiting during which its neighbours compute

# The cycles for fetching a line of keys or values, and the cycles of multiply-adds with it that hide them all:
_NEAR = (0.25, 3)  # from the second-level cache
_CROSSING = (0.7, 3)  # for values in the caller's layout, whose vectors may span two lines
_FAR = (2.0, 24)  # from beyond the second-level cache


@dataclass(frozen=True)
class Blocks:
    """The sizes in a configuration: blocks of rows and of keys, and register tiles.

    If `scales_keys`, packed keys are scaled instead of the queries of each block of rows.
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

    def streams(self, p: Attention) -> bool:
        """Decide if the weights of some keys are computed between the steps of the products with the values."""
        return _streams(p, self.keys)

    def goes_by_tiles(self, p: Attention) -> bool:
        """Decide if each row of tiles goes through all stages before the next one, as a block has many scores.

        With a causal mask it never does, because the mask hides blocks of keys from whole blocks of rows.
        """
        return _goes_by_tiles(p, self.mr, self.rows, self.keys)

    def keeps_weights(self, p: Attention) -> bool:
        """Decide if further tiles need the weights that the first tile of the output computes."""
        return self.streams(p) and self.columns < p.d_v


def declare(cfg: pb.TemplateConfig, p: Attention) -> None:
    """Declare the knobs, each with a first value that is good without a search."""
    ways = [DOT, PACKED] if 1 < p.rows <= _FEW_ROWS else [DOT] if p.rows == 1 else [PACKED]
    ways.sort(key=lambda way: _first(p, way == PACKED).time)
    if len(ways) > 1:
        cfg.define_knob("keys", ways)
    first = _first(p, ways[0] == PACKED)
    if p.rows > _FEW_ROWS:
        packed, plain = _products(p, first.mr, first.columns)
        cfg.define_knob("values", [PACKED, PLAIN] if packed < plain else [PLAIN, PACKED])
    rows = [r for r in _ROWS if r <= p.rows and _fits(p, r, 1)]
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
    """The first values of a search, and their estimated time."""

    time: float
    mr: int
    vectors: int
    columns: int
    tiles: int
    block: int


@cache
def _first(p: Attention, packed: bool) -> _First:
    """Choose the values with the least estimated time; among equals, small blocks of wide tiles."""
    found = []
    packing = _packing(p, -(-p.n_k // p.lanes) * p.lanes, p.d) if packed else 0.0
    keys, columns = (_widths(-(-extent // p.lanes)) for extent in (p.n_k, p.d_v))
    for mr in _ROWS:
        if mr > p.rows or not _fits(p, mr, 1):
            continue
        tiles = [n for n in _TILES if (n == 1 or (n - 1) * mr < p.rows) and _ends_with_heads(p, mr, mr * n)]
        if not tiles:
            continue
        for c, v, block in product(_best_columns(p, mr, columns), keys, _blocks(p)):
            if _fits(p, mr, v) and (not _needs_balance(p) or (is_balanced(mr, v) and mr * v >= min(LATENCY, p.rows))):
                size = _keys(p, block, _step(p, v, packed=packed))
                near = [n for n in tiles if n == 1 or _is_near(p, mr * n, size) or _shares_block(p, mr * n, size)]
                keeps = c * p.lanes < p.d_v
                rest, n = min((_softmax(p, mr, n, size, keeps=keeps) + _far(p, mr * n), n) for n in near)
                total = packing + min(_products(p, mr, c)) + _scores(p, mr, v, size, packed=packed) + rest
                found.append((total, mr * n, -v, -c, mr, n, block))
    time, _, v, c, mr, n, block = min(found)
    return _First(time, mr, -v, -c, n, block)


def _best_columns(p: Attention, mr: int, columns: list[int]) -> set[int]:
    """Return the fastest width of an output tile, and the fastest width with which one tile has all columns."""
    fitting = [c for c in columns if _fits(p, mr, c)]
    whole = [c for c in fitting if c * p.lanes >= p.d_v]
    return {min(some, key=lambda c: (min(_products(p, mr, c)), -c)) for some in (fitting, whole) if some}


def _fits(p: Attention, rows: int, vectors: int) -> bool:
    return fits_registers(p.target, rows, vectors) or rows == vectors == 1


def _streams(p: Attention, keys: int) -> bool:
    return p.target.vector_registers >= _ROOMY and (keys >= p.n_k or keys >= _LONG)


def _goes_by_tiles(p: Attention, mr: int, rows: int, keys: int) -> bool:
    return rows > mr and not p.causal and not _is_near(p, rows, keys)


def _step_cost(p: Attention, rows: int, vectors: int, lines: tuple[float, int] = _NEAR) -> float:
    """Prefer tiles that leave some registers, and have a few accumulators more than needed."""
    waiting = _SCARCE if rows * vectors < 1.5 * LATENCY else 0.0
    of_vector = p.lanes * p.itemsize / LINE
    waiting += vectors * _line(p, rows, lines) * of_vector
    waiting += _LOAD * (rows + vectors) * max(0.0, p.target.multiply_adds * of_vector - 1)
    return step_cost(rows, vectors) + waiting + _STEP + _CROWDING * (rows * vectors) ** 2 / p.target.multiply_adds


def _line(p: Attention, rows: int, times: tuple[float, int]) -> float:
    """Estimate the time of fetching a line that is not hidden by the multiply-adds of the given number of rows."""
    cycles, hidden = times
    used = rows * LINE / (p.lanes * p.itemsize) / p.target.multiply_adds
    return cycles * p.target.multiply_adds * max(0.0, 1 - used / hidden)


def _far(p: Attention, rows: int) -> float:
    """Estimate the time of fetching keys and values for each block of the given number of rows."""
    if p.is_kept:
        return 0.0
    of_keys = (p.d + p.d_v) * p.itemsize
    return -(-p.rows // rows) * _seen(p, 1, rows) * of_keys / LINE * _line(p, rows, _FAR)


def _row_tiles(p: Attention, mr: int) -> list[tuple[int, int]]:
    """List the heights of register tiles, and the number of tiles of each height."""
    whole, rest = divmod(p.rows, mr)
    return [(mr, whole), *([(rest, 1)] if rest else [])]


def _products(p: Attention, mr: int, columns: int) -> tuple[float, float]:
    """Estimate the time of the products with packed values, and with values as they are (infinite if not possible)."""
    vectors = -(-p.d_v // p.lanes)
    whole = -(-vectors // columns)
    partial = 1.0 if vectors % columns == 0 else _PARTIAL
    if whole == 2 and partial > 1 and p.target.vector_registers >= _ROOMY:
        # The second tile has at most the remaining vectors.
        partial = _UNEVEN * vectors / (2 * columns)
    steps = partial * _seen(p, 1) * whole
    packed, plain = (
        sum(count * (steps * _step_cost(p, rows, columns, each) + whole * _TILE) for rows, count in _row_tiles(p, mr))
        for each in (_NEAR, _CROSSING)
    )
    return packed + _packing(p, p.n_k, p.d_v), plain if p.reads_values(columns) else math.inf


def _packing(p: Attention, count: int, width: int) -> float:
    """Estimate the time of packing keys or values of `width` elements, which all products with them share."""
    return _PACKING * count * -(-width // p.lanes) / (1 if p.is_folded else p.group)


def _scores(p: Attention, mr: int, vectors: int, keys: int, *, packed: bool) -> float:
    """Estimate the time of the scores for blocks of `keys` keys; the last tile of a block may be narrower."""
    whole, rest = divmod(-(-keys // p.lanes) if packed else keys, vectors)
    depth = p.d if packed else -(-p.d // p.lanes) + _ADDING_LANES
    total = 0.0
    for rows, count in _row_tiles(p, mr):
        # A narrow tile has few accumulators, but overlaps with its neighbours.
        last = _step_cost(p, rows, rest) - _OVERLAP * (step_cost(rows, rest) - rows * rest) if rest else 0.0
        total += count * (depth * (whole * _step_cost(p, rows, vectors) + last) + (whole + (rest > 0)) * _TILE)
    seen = _seen(p, keys) if packed else min(_seen(p, keys), p.n_k)  # no lanes of keys to fill
    return total * seen / keys


def _softmax(p: Attention, mr: int, tiles: int, keys: int, *, keeps: bool) -> float:
    """Estimate the time of exponentials, and of rescaling after each block of keys.

    Args:
        keeps: True if the first tile of the output computes the weights and further tiles need them.
    """
    rows, streams = mr * tiles, _streams(p, keys)
    seen = _seen(p, keys, rows)
    by_tiles = _goes_by_tiles(p, mr, rows, keys)
    buffers, each = (1 + keeps, _STREAMED + keeps * _KEEPING) if streams and mr <= _TALL else (2, _SOFTMAX)
    is_spilled = buffers * (mr if by_tiles else rows) * keys * p.itemsize > p.target.caches.l1
    spilled = (_SPILLED if p.is_kept or not streams else _SPILLED_FAR) if is_spilled else 0.0
    waiting = _WAITING / mr if mr < _FEW_CHAINS and not streams else 0.0
    of_row = seen / p.lanes * (each + spilled + waiting)
    if keys < p.n_k:  # the recurrence is computed in vectors of rows, if a block has as many
        together = mr if streams or by_tiles else rows
        steps = -(-together // p.lanes) / together if streams or rows >= p.lanes else 1.0
        of_row += (_RESCALING * -(-p.d_v // p.lanes) + _RECURRENCE * steps) * seen / keys
    return -(-p.rows // rows) * rows * of_row


def _seen(p: Attention, keys: int, rows: int = 1) -> float:
    """Return the average number of keys for a row, in blocks of `keys` keys without those beyond the diagonal."""
    whole = -(-p.n_k // keys) * keys
    return min(whole, p.n_k - p.n_q / 2 + (keys + rows) / 2) if p.causal and not p.is_folded else whole


def _step(p: Attention, vectors: int, *, packed: bool) -> int:
    """Return the number of which the keys of a block are a multiple."""
    return vectors * p.lanes if packed else math.lcm(vectors, p.lanes)


def _is_near(p: Attention, rows: int, keys: int) -> bool:
    """Decide if the scores of a block stay in the second-level cache."""
    return rows * keys * p.itemsize <= p.target.caches.l2 // 4


def _shares_block(p: Attention, rows: int, keys: int) -> bool:
    """Decide if many rows share a block of keys and values that L2 holds, together with the next block.

    With a causal mask they do not, because some of the rows may not see the block.
    """
    used = 2 * keys * (p.d + p.d_v) + rows * (p.d + 2 * p.d_v)
    return not p.is_kept and not p.causal and keys < p.n_k and used * p.itemsize <= p.target.caches.l2


def _ends_with_heads(p: Attention, mr: int, rows: int) -> bool:
    """Decide if tiles and blocks of the queries of several whole heads end where a group of heads ends.

    Else a schedule does not see that they contain nothing of the next group, and computes its scores, too.
    """
    unit = mr if mr % p.n_q == 0 else rows
    return p.n_q == 1 or unit % p.n_q > 0 or unit >= p.rows or p.rows % unit == 0


def _blocks(p: Attention) -> list[int]:
    """List the values of the knob `block`, each with a different number of blocks of keys."""
    counts = {-(-p.n_k // block): block for block in _BLOCKS if block < p.n_k}
    whole = [0] if p.n_k <= _WHOLE or not counts else []
    return [*whole, *sorted(counts.values())]


def _keys(p: Attention, block: int, step: int) -> int:
    """Return the number of keys of a block: a multiple of `step`, or of a vector if there is a single block."""
    count = -(-p.n_k // block) if block else 1
    step = step if count > 1 else p.lanes
    return -(-p.n_k // (count * step)) * step


def _needs_balance(p: Attention) -> bool:
    """Decide if there are enough rows and keys for tiles that keep the multipliers busy."""
    return p.rows >= 4 and -(-p.n_k // p.lanes) >= 2


def _widths(most: int) -> list[int]:
    return [v for v in VECTORS if v == 1 or v <= most]


def _from(first: int, values: list[int]) -> list[int]:
    """Move a value to the front, if it is among the others."""
    return sorted(values, key=lambda value: value != first)


def _way(c: KnobValues, p: Attention) -> str:
    return DOT if p.rows == 1 else str(c["keys"].val) if p.rows <= _FEW_ROWS else PACKED


def _reads(p: Attention, ways: list[str], *names: str) -> tuple[str, ...]:
    return (*(("keys",) if len(ways) > 1 else ()), *(("values",) if p.rows > _FEW_ROWS else ()), *names)


def blocks_of(c: KnobValues, p: Attention) -> Blocks:
    """Return the sizes in a configuration."""
    packed, mr = _way(c, p) == PACKED, c["mr"].val
    width = c["vectors"].val * (p.lanes if packed else 1)
    keys = _keys(p, c["block"].val, _step(p, c["vectors"].val, packed=packed))
    columns, packs_values = c["columns"].val * p.lanes, p.rows > _FEW_ROWS and c["values"].val == PACKED
    return Blocks(mr, mr * c["tiles"].val, keys, width, columns, packed, packs_values, packed and not p.is_folded)


def _constrain(cfg: pb.TemplateConfig, p: Attention, ways: list[str]) -> None:
    def shape(c: pb.Config) -> tuple[int, int]:
        return c["mr"].val, c["vectors"].val

    def tile(c: pb.Config) -> tuple[int, int]:
        return c["mr"].val, c["columns"].val

    def fits(c: pb.Config) -> bool:
        return all(_fits(p, *s) for s in (shape(c), tile(c)))

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
    if p.is_folded:
        cfg.add_constraint(
            lambda c: _ends_with_heads(p, c["mr"].val, c["mr"].val * c["tiles"].val),
            reads=("mr", "tiles"),
            message="tiles and blocks of whole heads end with a group of heads",
        )
    if p.causal:
        cfg.add_constraint(
            lambda c: bool(c["tiles"].val == 1 or _is_near(p, (sizes := blocks_of(c, p)).rows, sizes.keys)),
            reads=_reads(p, ways, "mr", "vectors", "tiles", "columns", "block"),
            message="the scores of a block take a part of L2",
        )
    if _needs_balance(p):
        cfg.add_constraint(
            lambda c: is_balanced(*shape(c)) and shape(c)[0] * shape(c)[1] >= min(LATENCY, p.rows),
            reads=("mr", "vectors"),
            message=f"the tile of scores has {LATENCY} accumulators, and more multiply-adds than loads",
        )
