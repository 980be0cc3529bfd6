"""Matrix products of any shape: the computation and the schedules of `matmul` and `batch_matmul`.

There are three ways to multiply, of which the tuner picks one (`layout`):

- "packed": B, and A if that pays, are first copied into panels that the innermost loops read contiguously (Goto and van
  de Geijn, "Anatomy of high-performance matrix multiplication", 2008). For products with reuse.
- "direct": the same register tile on B as it is. For products so small that packing costs more than it saves.
- "stream": the reduction outermost, rows of B streamed once, C accumulated in place. For vector × matrix, where
  memory is the limit.

A register tile is `mr` rows of `nr` columns, nr a multiple of the vector length. It is accumulated in registers over
`k_block` steps of the reduction (0: all of them) and then written, or added, to C. Tiles need not divide the matrices:
panels are padded with zeros, and the rest of A's rows is peeled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pegbox as pb
from pegbox import te
from pegbox.templates import gemm_space, narrow_matmul, threads
from pegbox.templates.gemm_space import PACKED, ROWS_STAY, STREAM, layout_of
from pegbox.templates.matmul_arguments import Product, plain, product_of, unpacked
from pegbox.templates.register_tile import computed_extent, write_out

_BATCH = 8  # the batch size from which on each thread computes whole products


def multiply(cfg: pb.TemplateConfig, a: te.Tensor, b: te.Tensor, weights: str) -> tuple[te.TESchedule, list[te.Tensor]]:
    """Compute C = A · B over the leading axes, for a B that is "plain" or packed, as a template returns it.

    Raises:
        TemplateError: `weights` has another value.
    """
    p = product_of(a, b, weights, cfg.target)
    b = p.weights(b)
    cfg.define_plain(lambda: [plain(p, a, unpacked(p, b))])
    (narrow_matmul if p.is_narrow else gemm_space).declare(cfg, p)
    if not p.is_narrow or max(p.shape[:-1]) > 1:  # otherwise, threads have nothing to share
        threads.declare(cfg, p.flop)
        if not p.is_narrow and not _batch_is_shared(p):
            gemm_space.constrain_threads(cfg, p)
    if p.is_narrow:
        c = narrow_matmul.compute(p, a, b)
        return narrow_matmul.schedule(cfg, p, c), [a, b, c]
    tensors = compute(cfg, p, a, b)
    s = te.create_schedule(tensors.c.op)
    if layout_of(cfg, p) == STREAM:
        _schedule_stream(cfg, p, s, tensors.c)
    else:
        _schedule_tiled(cfg, p, s, b, tensors)
    return s, [a, b, tensors.c]


# Computation -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tensors:
    """C and the tensors before it: sums over blocks of the reduction, and panels of A and of B.

    Attributes:
        weights: B, if it was packed ahead.
    """

    c: te.Tensor
    partial: te.Tensor | None
    panels_a: te.Tensor | None
    panels_b: te.Tensor | None
    weights: te.Tensor | None


def compute(cfg: pb.TemplateConfig, p: Product, a: te.Tensor, b: te.Tensor) -> Tensors:
    """Compute C = A · B from the operands or from panels of them, by the configuration."""
    layout, mr, nr = layout_of(cfg, p), cfg["mr"].val, cfg["nr"].val
    panels_a = panels_b = None
    if layout == PACKED:
        panels_b = None if p.packed else _panels(p, p.n, nr, b, "B_packed")
        if cfg["pack_a"].val:
            panels_a = _panels(p, p.m, mr, lambda *at: a(*at[:-2], at[-1], at[-2]), "A_packed")
    weights = b if p.packed else None
    packed, width = (weights, p.lanes) if p.packed else (panels_b, nr)

    def term(batch: Sequence[te.Expr], i: te.Expr, j: te.Expr, k: te.Expr) -> te.Expr:
        left = a(*batch, i, k) if panels_a is None else panels_a(*batch, i // mr, k, i % mr)
        right = b(*batch, k, j) if packed is None else packed(*batch, j // width, k, j % width)
        return left * right

    if layout == STREAM or not cfg["k_block"].val:
        k = te.reduce_axis((0, p.k), name="k")

        def whole_sum(*at: te.Expr) -> te.Expr:
            tests = _columns(p, at[-1]) if layout != STREAM else []
            return te.sum(term(at[:-2], at[-2], at[-1], k), axis=k, where=_all(tests))

        c = te.compute(p.shape, whole_sum, name="C")
        return Tensors(c, None, panels_a, panels_b, weights)
    block = cfg["k_block"].val
    blocks = -(-p.k // block)
    k = te.reduce_axis((0, block), name="k")
    kb = te.reduce_axis((0, blocks), name="kb")

    def sum_of_block(*at: te.Expr) -> te.Expr:
        *batch, kb, i, j = at
        inside = [] if p.k % block == 0 else [kb * block + k < p.k]
        return te.sum(term(batch, i, j, kb * block + k), axis=k, where=_all([*inside, *_columns(p, j)]))

    partial = te.compute((*p.lead, blocks, p.m, p.n), sum_of_block, name="C_part")
    c = te.compute(p.shape, lambda *at: te.sum(partial(*at[:-2], kb, *at[-2:]), axis=kb), name="C")
    return Tensors(c, partial, panels_a, panels_b, weights)


def _columns(p: Product, j: te.Expr) -> list[te.Expr]:
    """Return the condition for computing a tile's column, if the last vector of a row is half of a wide one."""
    end = computed_extent(p.target, p.lanes, p.n)
    return [j < end] if end < p.vectors * p.lanes else []


def _all(tests: list[te.Expr]) -> te.Expr | None:
    return te.all(*tests) if tests else None


def _panels(p: Product, extent: int, size: int, source: Callable[..., te.Expr], name: str) -> te.Tensor:
    """Copy `source(*batch, k, i)` into panels [extent / size][k][size], with zeros beyond the extent."""
    zero = te.const(0, p.dtype)

    def element(*at: te.Expr) -> te.Expr:
        *batch, panel, k, z = at
        return te.if_then_else(panel * size + z < extent, source(*batch, k, panel * size + z), zero)

    return te.compute((*p.lead, -(-extent // size), p.k, size), element, name=name)


# Schedule ----------------------------------------------------------------------------------------------------------


def _schedule_tiled(cfg: pb.TemplateConfig, p: Product, s: te.TESchedule, b: te.Tensor, tensors: Tensors) -> None:
    """Schedule register tiles in blocks: (k block, batch, panel, block, tiles, tiles of the block)."""
    c = tensors.c
    if tensors.partial is None:
        tile = s.cache_write(c, "local")
    else:
        tile = tensors.partial
        s[tile].set_scope("local")
    *lead, y, x = s[c].op.axis
    yt, yi = s[c].split(y, factor=cfg["mr"].val)
    xt, xi = s[c].split(x, factor=cfg["nr"].val)
    # A block of one operand's panels stays in cache while panels of the other one stream past: `panel` of them, or all.
    rows_stay = cfg["order"].val == ROWS_STAY
    blocked, streamed = (yt, xt) if rows_stay else (xt, yt)
    block, blocked = s[c].split(blocked, factor=cfg["y_tiles" if rows_stay else "x_tiles"].val)
    outer = []
    if layout_of(cfg, p) == PACKED and cfg["panel"].val:
        panel, streamed = s[c].split(streamed, factor=cfg["panel"].val)
        outer = [panel]
    xv, xl = s[c].split(xi, factor=p.lanes)
    s[c].reorder(*s[c].op.reduce_axis, *lead, *outer, block, streamed, blocked, yi, xv, xl)
    write_out(s[c], xl, (xv, yi))
    shared = _shared(c, lead, [*outer, block][0])
    threads.share(cfg, s[c], shared)
    s[tile].compute_at(s[c], blocked)
    steps = _schedule_tile(cfg, s, tile, p.lanes)
    if gemm_space.fetches_panels(p, cfg):
        # The next panels are fetched from beyond L2 while these are multiplied. In a model, weights are not in a near
        # cache.
        panels = streamed if rows_stay else block
        is_one = tensors.partial is not None and not rows_stay and gemm_space.is_one_block(p, cfg)
        s[c].prefetch(b, s[c].op.reduce_axis[0] if is_one else panels, among=steps)
    # The operand that stays with a block is packed there, in cache; the other one is packed before, by panels or whole.
    at_block = (s[c], shared if shared in lead else block)
    at_panel = (s[c], outer[0]) if outer else None
    if tensors.panels_b is not None:
        # Row by row through all present panels, in vectors, so that B is read in long runs.
        packing = s[tensors.panels_b]
        *_, panel, row, z = packing.op.axis
        packing.reorder(row, panel, z)
        _place(cfg, packing, at_panel if rows_stay else at_block, row)
        zv, zl = packing.split(z, factor=p.lanes)
        write_out(packing, zl, [zv])
    if tensors.panels_a is not None:
        # Panel by panel: A is read in as many runs as a panel has rows, and the panel is written in one run.
        packing = s[tensors.panels_a]
        *_, panel, _, z = packing.op.axis
        _place(cfg, packing, at_block if rows_stay else at_panel, panel)
        packing.unroll(z)


def _schedule_tile(cfg: pb.TemplateConfig, s: te.TESchedule, tile: te.Tensor, lanes: int) -> te.IterVar:
    """Schedule a register tile; return the loop over its steps."""
    *lead, y, x = s[tile].op.axis
    (k,) = s[tile].op.reduce_axis
    xv, xl = s[tile].split(x, factor=lanes)
    ko, ki = s[tile].split(k, factor=cfg["unroll_k"].val)
    s[tile].reorder(*lead, ko, ki, y, xv, xl)
    write_out(s[tile], xl, (ki, y, xv))
    return ko


def _place(
    cfg: pb.TemplateConfig, packing: te.Stage, at: tuple[te.Stage, te.IterVar] | None, shared: te.IterVar
) -> None:
    """Pack at a loop, or pack everything beforehand in a loop that threads share."""
    if at is not None:
        packing.compute_at(*at)
    else:
        threads.share(cfg, packing, shared)


def _schedule_stream(cfg: pb.TemplateConfig, p: Product, s: te.TESchedule, c: te.Tensor) -> None:
    """Stream a few rows of B at a time through a stretch of C: (batch, y, x block, k block, x, k, rows, lanes)."""
    *lead, y, x = s[c].op.axis
    (k,) = s[c].op.reduce_axis
    yo, yi = s[c].split(y, factor=cfg["mr"].val)
    xt, xi = s[c].split(x, factor=cfg["nr"].val)
    xo, xm = s[c].split(xt, factor=cfg["stretch"].val)
    xv, xl = s[c].split(xi, factor=p.lanes)
    ko, ki = s[c].split(k, factor=cfg["unroll_k"].val)
    s[c].reorder(*lead, yo, xo, ko, xm, ki, yi, xv, xl)
    write_out(s[c], xl, (ki, yi, xv))
    threads.share(cfg, s[c], _shared(c, lead, xo))


def _shared(c: te.Tensor, lead: Sequence[te.IterVar], block: te.IterVar) -> te.IterVar:
    """Return the loop that threads share: the batch if it is long enough for all, else blocks of each product."""
    return lead[0] if lead and c.shape[0] >= _BATCH else block


def _batch_is_shared(p: Product) -> bool:
    return bool(p.lead) and p.shape[0] >= _BATCH
