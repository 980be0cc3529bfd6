"""The schedule space that the matrix products share.

Three ways to multiply, of which the tuner picks one (`layout`):

- "packed": B, and A if that pays, are first copied into panels that the innermost loops read contiguously (Goto and
  van de Geijn, "Anatomy of high-performance matrix multiplication", 2008). For products with reuse.
- "direct": the same register tile on B as it lies. For products so small that packing costs more than it gives.
- "stream": the reduction outermost, rows of B streamed once, C accumulated in place. For vector × matrix, where
  memory is the limit.

A register tile is `mr` rows of `nr` columns, nr a multiple of the vector length. It is accumulated in registers over
`k_block` steps of the reduction (0: all of them) and then written, or added, to C. Tiles need not divide the matrices:
panels are padded with zeros, and what is left of A's rows is peeled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pegbox import te
from pegbox.compute.tensor import Tensor
from pegbox.expr.dtypes import nbytes

_VECTOR_BYTES = 64  # panels are laid out for the widest vectors; narrower ones take two or four of them
_REGISTERS = 32  # of the widest vectors; on most machines the best tile leaves some for a row of B and an element of A
_LATENCY = 4  # vectors, of which a machine with narrow ones makes two or four; how many hide the latency is its affair
_BATCH = 8  # products in a batch from which on each thread takes whole ones
_BODY = 128  # multiply-adds in the innermost loop's body; more only costs compile time and instruction cache
_STREAM_ROWS = 8  # with more rows than that, memory is not the limit
_REUSE = 256  # rows from which on packing B costs next to nothing
_CACHED = 1 << 18  # bytes of B that stay close to the core even unpacked


def declare(cfg: Any, m: int, k: int, n: int, dtype: str) -> None:
    """The knobs of a product of (m × k) and (k × n)."""
    lanes = _VECTOR_BYTES // nbytes(dtype)
    vectors = -(-n // lanes)
    layouts = _layouts(m, k * n * nbytes(dtype))
    tiled = {"layout": [x for x in layouts if x != "stream"]}
    widths = (1, 2, 3, 4, 6, 8, 16) if "stream" in layouts else (1, 2, 3, 4, 6)
    cfg.define_knob("layout", layouts)
    cfg.define_knob("mr", [r for r in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28) if r <= m])
    cfg.define_knob("nr", [v * lanes for v in widths if v == 1 or v <= vectors])
    cfg.define_knob("unroll_k", [u for u in ((1, 2, 4, 8, 16) if "stream" in layouts else (1, 2, 4, 8)) if u <= k])
    cfg.define_knob("k_block", [0, *_divisors_near(k, (128, 256, 512, 1024))], when=tiled)
    cfg.define_knob("order", ["yx", "xy"], when=tiled)
    cfg.define_knob("y_tiles", _powers(m), when={**tiled, "order": "yx"})
    cfg.define_knob("x_tiles", _powers(vectors), when={**tiled, "order": "xy"})
    cfg.define_knob("panel", [0, *(p for p in (8, 32) if 2 * p < max(m // 4, vectors))], when=tiled)
    if "stream" in layouts:
        cfg.define_knob("stretch", _powers(vectors), when={"layout": "stream"})
    if "packed" in layouts:
        cfg.define_knob("pack_a", [False, True], when={"layout": "packed"})
    _constrain(cfg, m, vectors, lanes)


def _layouts(m: int, b_bytes: int) -> list[str]:
    """The ways to multiply that can be the best one for m rows and a matrix B of that many bytes."""
    packed = ["packed"] if m > 1 else []
    direct = ["direct"] if m < _REUSE or b_bytes <= _CACHED else []
    stream = ["stream"] if m <= _STREAM_ROWS else []
    return packed + direct + stream


def _constrain(cfg: Any, m: int, vectors: int, lanes: int) -> None:
    """Leave out tiles that cannot be fast, whatever the rest of the configuration."""

    def shape(c: Any) -> tuple[int, int]:
        return c["mr"].val, c["nr"].val // lanes

    def size(c: Any) -> int:
        rows, columns = shape(c)
        return rows * columns

    def is_balanced(c: Any) -> bool:
        rows, columns = shape(c)
        return 4 * (rows + columns) <= 5 * rows * columns

    cfg.add_constraint(
        lambda c: size(c) <= _REGISTERS,
        reads=("mr", "nr"),
        message=f"the register tile takes at most {_REGISTERS} vectors",
    )
    cfg.add_constraint(
        lambda c: size(c) >= min(_LATENCY, m * vectors) or c["layout"].val == "stream",
        reads=("layout", "mr", "nr"),
        message=f"a tile that stays in registers takes at least {_LATENCY} vectors, to hide the latency of additions",
    )
    if m >= 4 and vectors >= 2:
        cfg.add_constraint(
            is_balanced,
            reads=("mr", "nr"),
            message="the register tile loads at most five vectors or elements for four multiply-adds",
        )
    cfg.add_constraint(
        lambda c: size(c) * c["unroll_k"].val <= _BODY,
        reads=("mr", "nr", "unroll_k"),
        message=f"the innermost body has at most {_BODY} multiply-adds",
    )


def _powers(extent: int) -> list[int]:
    """Block sizes, in tiles."""
    return [p for p in (1, 2, 4, 8, 16, 32, 64) if p == 1 or p < extent]


def _divisors_near(extent: int, wanted: Sequence[int]) -> list[int]:
    """For each wanted block the divisor of `extent` within a third of it, or the block itself for large extents.

    Blocks that divide need no second copy of the kernel for what is left over.
    """
    found = []
    for block in wanted:
        near = [d for d in range(block * 2 // 3, block * 4 // 3 + 1) if extent % d == 0 and d < extent]
        if near:
            found.append(min(near, key=lambda d: abs(d - block)))
        elif extent > 4 * block:
            found.append(block)
    return list(dict.fromkeys(found))


def product(cfg: Any, a: Tensor, b: Tensor) -> tuple[Any, list[Tensor]]:
    """Compute and schedule C = A · B over the leading axes, as the configuration says."""
    *lead, m, k = a.shape
    n = b.shape[-1]
    layout, mr, nr = cfg["layout"].val, cfg["mr"].val, cfg["nr"].val
    packed_a = packed_b = None
    if layout == "packed":
        packed_b = _pack_b(b, lead, k, n, nr)
        if cfg["pack_a"].val:
            packed_a = _pack_a(a, lead, m, k, mr)

    def term(batch: Sequence[Any], i: Any, j: Any, kk: Any) -> Any:
        left = a(*batch, i, kk) if packed_a is None else packed_a(*batch, i // mr, kk, i % mr)
        right = b(*batch, kk, j) if packed_b is None else packed_b(*batch, j // nr, kk, j % nr)
        return left * right

    if layout == "stream":
        c = _whole_reduction(term, lead, m, k, n)
        s = te.create_schedule(c.op)
        _schedule_stream(cfg, s, c)
    elif cfg["k_block"].val:
        part, c = _blocked_reduction(term, lead, m, k, n, cfg["k_block"].val)
        s = te.create_schedule(c.op)
        _schedule_tiled(cfg, s, c, part, packed_a, packed_b)
    else:
        c = _whole_reduction(term, lead, m, k, n)
        s = te.create_schedule(c.op)
        _schedule_tiled(cfg, s, c, s.cache_write(c, "local"), packed_a, packed_b)
    return s, [a, b, c]


def _whole_reduction(term: Any, lead: Sequence[int], m: int, k: int, n: int) -> Tensor:
    kk = te.reduce_axis((0, k), name="k")
    c: Tensor = te.compute((*lead, m, n), lambda *at: te.sum(term(at[:-2], *at[-2:], kk), axis=kk), name="C")
    return c


def _blocked_reduction(term: Any, lead: Sequence[int], m: int, k: int, n: int, block: int) -> tuple[Tensor, Tensor]:
    """Sums over blocks of the reduction, and their sum."""
    kk = te.reduce_axis((0, block), name="k")

    def partial(*at: Any) -> Any:
        *batch, kb, i, j = at
        inside = None if k % block == 0 else kb * block + kk < k
        return te.sum(term(batch, i, j, kb * block + kk), axis=kk, where=inside)

    blocks = -(-k // block)
    part: Tensor = te.compute((*lead, blocks, m, n), partial, name="C_part")
    kb = te.reduce_axis((0, blocks), name="kb")
    c: Tensor = te.compute((*lead, m, n), lambda *at: te.sum(part(*at[:-2], kb, *at[-2:]), axis=kb), name="C")
    return part, c


def _pack_b(b: Tensor, lead: Sequence[int], k: int, n: int, nr: int) -> Tensor:
    """Panels of nr columns: [n / nr][k][nr], zeros beyond the last column."""
    zero = te.const(0, b.dtype)

    def element(*at: Any) -> Any:
        *batch, x, row, z = at
        return te.if_then_else(x * nr + z < n, b(*batch, row, x * nr + z), zero)

    packed: Tensor = te.compute((*lead, -(-n // nr), k, nr), element, name="B_packed")
    return packed


def _pack_a(a: Tensor, lead: Sequence[int], m: int, k: int, mr: int) -> Tensor:
    """Panels of mr rows: [m / mr][k][mr], zeros beyond the last row."""
    zero = te.const(0, a.dtype)

    def element(*at: Any) -> Any:
        *batch, y, column, z = at
        return te.if_then_else(y * mr + z < m, a(*batch, y * mr + z, column), zero)

    packed: Tensor = te.compute((*lead, -(-m // mr), k, mr), element, name="A_packed")
    return packed


def _schedule_tiled(
    cfg: Any, s: Any, c: Tensor, tile: Tensor, packed_a: Tensor | None, packed_b: Tensor | None
) -> None:
    """Tiles of registers in blocks: (k block, batch, panel, block, tiles, tiles of the block); `tile` sums them."""
    mr, nr, lanes = cfg["mr"].val, cfg["nr"].val, _VECTOR_BYTES // nbytes(c.dtype)
    *lead, y, x = s[c].op.axis
    yt, yi = s[c].split(y, factor=mr)
    xt, xi = s[c].split(x, factor=nr)
    # A block of one operand's panels stays in cache while those of the other one stream past: `panel` of them, or all.
    by_rows = cfg["order"].val == "yx"
    blocked, streamed = (yt, xt) if by_rows else (xt, yt)
    block, blocked = s[c].split(blocked, factor=cfg["y_tiles" if by_rows else "x_tiles"].val)
    outer = []
    if cfg["panel"].val:
        panel, streamed = s[c].split(streamed, factor=cfg["panel"].val)
        outer = [panel]
    xv, xl = s[c].split(xi, factor=lanes)
    s[c].reorder(*s[c].op.reduce_axis, *lead, *outer, block, streamed, blocked, yi, xv, xl)
    s[c].vectorize(xl)
    s[c].unroll(xv)
    s[c].unroll(yi)
    threads = _threads(c, lead, [*outer, block][0])
    s[c].parallel(threads)
    s[tile].compute_at(s[c], blocked)
    _schedule_tile(cfg, s, tile, lanes)
    # What stays with a block is packed there, in cache; what every block reads is packed before, for a panel or whole.
    at_block = (s[c], threads if threads in lead else block)
    at_panel = (s[c], outer[0]) if outer else None
    if packed_b is not None:
        _schedule_pack(s, packed_b, at_panel if by_rows else at_block, lanes)
    if packed_a is not None:
        _schedule_pack(s, packed_a, at_block if by_rows else at_panel, 1)


def _schedule_tile(cfg: Any, s: Any, tile: Tensor, lanes: int) -> None:
    *lead, y, x = s[tile].op.axis
    (k,) = s[tile].op.reduce_axis
    xv, xl = s[tile].split(x, factor=lanes)
    ko, ki = s[tile].split(k, factor=cfg["unroll_k"].val)
    s[tile].reorder(*lead, ko, ki, y, xv, xl)
    s[tile].vectorize(xl)
    for loop in (ki, y, xv):
        s[tile].unroll(loop)


def _schedule_pack(s: Any, packed: Tensor, at: tuple[Any, Any] | None, lanes: int) -> None:
    """Copy row by row through all panels at hand, so that the source is read in long runs; lanes > 1 copies vectors."""
    *lead, panel, row, z = s[packed].op.axis
    s[packed].reorder(*lead, row, panel, z)
    if at is not None:
        s[packed].compute_at(*at)
    else:
        s[packed].parallel(row)
    if lanes > 1:
        zv, zl = s[packed].split(z, factor=lanes)
        s[packed].unroll(zv)
        s[packed].vectorize(zl)
    else:
        s[packed].unroll(z)


def _schedule_stream(cfg: Any, s: Any, c: Tensor) -> None:
    """Few rows of B at a time pass through a stretch of C: (batch, y, x block, k block, x, k, rows, lanes)."""
    mr, nr, lanes = cfg["mr"].val, cfg["nr"].val, _VECTOR_BYTES // nbytes(c.dtype)
    *lead, y, x = s[c].op.axis
    (k,) = s[c].op.reduce_axis
    yo, yi = s[c].split(y, factor=mr)
    xt, xi = s[c].split(x, factor=nr)
    xo, xm = s[c].split(xt, factor=cfg["stretch"].val)
    xv, xl = s[c].split(xi, factor=lanes)
    ko, ki = s[c].split(k, factor=cfg["unroll_k"].val)
    s[c].reorder(*lead, yo, xo, ko, xm, ki, yi, xv, xl)
    s[c].vectorize(xl)
    for loop in (ki, yi, xv):
        s[c].unroll(loop)
    s[c].parallel(_threads(c, lead, xo))


def _threads(c: Tensor, lead: Sequence[Any], block: Any) -> Any:
    """The loop that threads share: the batch where it is long enough to go round, else blocks of each product."""
    return lead[0] if lead and c.shape[0] >= _BATCH else block
