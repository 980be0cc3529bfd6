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
from pegbox.templates import narrow
from pegbox.templates.gemm_space import declare, layout_of
from pegbox.templates.product import Product, product_of

_BATCH = 8  # products in a batch from which on each thread takes whole ones


def multiply(cfg: Any, a: Tensor, b: Tensor, weights: str) -> tuple[Any, list[Tensor]]:
    """Declare, compute and schedule C = A · B over the leading axes, for B as it is ("plain") or packed ahead.

    Raises:
        TemplateError: another value of `weights`.
    """
    p = product_of(a, b, weights, cfg.target)
    if p.is_narrow:
        narrow.declare(cfg, p)
        return narrow.product(cfg, p, a, p.weights(b))
    declare(cfg, p)
    return product(cfg, p, a, p.weights(b))


def product(cfg: Any, p: Product, a: Tensor, b: Tensor) -> tuple[Any, list[Tensor]]:
    """Compute and schedule C = A · B, as the configuration says; `b` as the product says that it is given."""
    lead, m, k, n = p.lead, p.m, p.k, p.n
    layout, mr, nr = layout_of(cfg, p), cfg["mr"].val, cfg["nr"].val
    panels_a = panels_b = None
    if layout == "packed":
        panels_b = None if p.packed else _pack_b(b, lead, k, n, nr)
        panels_a = _pack_a(a, lead, m, k, mr) if cfg["pack_a"].val else None
    given, width = (b, p.lanes) if p.packed else (panels_b, nr)

    def term(batch: Sequence[Any], i: Any, j: Any, kk: Any) -> Any:
        left = a(*batch, i, kk) if panels_a is None else panels_a(*batch, i // mr, kk, i % mr)
        right = b(*batch, kk, j) if given is None else given(*batch, j // width, kk, j % width)
        return left * right

    if layout == "stream":
        c = _whole_reduction(term, lead, m, k, n)
        s = te.create_schedule(c.op)
        _schedule_stream(cfg, p, s, c)
    elif cfg["k_block"].val:
        part, c = _blocked_reduction(term, lead, m, k, n, cfg["k_block"].val)
        s = te.create_schedule(c.op)
        _schedule_tiled(cfg, p, s, (c, part), panels_a, panels_b)
    else:
        c = _whole_reduction(term, lead, m, k, n)
        s = te.create_schedule(c.op)
        _schedule_tiled(cfg, p, s, (c, s.cache_write(c, "local")), panels_a, panels_b)
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
    cfg: Any, p: Product, s: Any, result: tuple[Tensor, Tensor], packed_a: Tensor | None, packed_b: Tensor | None
) -> None:
    """Tiles of registers in blocks: (k block, batch, panel, block, tiles, tiles of the block).

    `result` is C and what sums its tiles.
    """
    c, tile = result
    mr, nr, lanes = cfg["mr"].val, cfg["nr"].val, p.lanes
    *lead, y, x = s[c].op.axis
    yt, yi = s[c].split(y, factor=mr)
    xt, xi = s[c].split(x, factor=nr)
    # A block of one operand's panels stays in cache while those of the other one stream past: `panel` of them, or all.
    by_rows = cfg["order"].val == "yx"
    blocked, streamed = (yt, xt) if by_rows else (xt, yt)
    block, blocked = s[c].split(blocked, factor=cfg["y_tiles" if by_rows else "x_tiles"].val)
    outer = []
    if layout_of(cfg, p) == "packed" and cfg["panel"].val:
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
        _schedule_pack_b(s, packed_b, at_panel if by_rows else at_block, lanes)
    if packed_a is not None:
        _schedule_pack_a(s, packed_a, at_block if by_rows else at_panel)


def _schedule_tile(cfg: Any, s: Any, tile: Tensor, lanes: int) -> None:
    *lead, y, x = s[tile].op.axis
    (k,) = s[tile].op.reduce_axis
    xv, xl = s[tile].split(x, factor=lanes)
    ko, ki = s[tile].split(k, factor=cfg["unroll_k"].val)
    s[tile].reorder(*lead, ko, ki, y, xv, xl)
    s[tile].vectorize(xl)
    for loop in (ki, y, xv):
        s[tile].unroll(loop)


def _schedule_pack_b(s: Any, packed: Tensor, at: tuple[Any, Any] | None, lanes: int) -> None:
    """Copy row by row through all panels at hand, in vectors, so that B is read in long runs."""
    *_, panel, row, z = s[packed].op.axis
    s[packed].reorder(row, panel, z)
    if at is not None:
        s[packed].compute_at(*at)
    else:
        s[packed].parallel(row)
    zv, zl = s[packed].split(z, factor=lanes)
    s[packed].unroll(zv)
    s[packed].vectorize(zl)


def _schedule_pack_a(s: Any, packed: Tensor, at: tuple[Any, Any] | None) -> None:
    """Copy panel by panel, so that A is read in as many runs as a panel has rows, and the panel written in one."""
    *_, panel, _, z = s[packed].op.axis
    if at is not None:
        s[packed].compute_at(*at)
    else:
        s[packed].parallel(panel)
    s[packed].unroll(z)


def _schedule_stream(cfg: Any, p: Product, s: Any, c: Tensor) -> None:
    """Few rows of B at a time pass through a stretch of C: (batch, y, x block, k block, x, k, rows, lanes)."""
    mr, nr, lanes = cfg["mr"].val, cfg["nr"].val, p.lanes
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
