"""Attention, softmax(Q · Kᵀ · scale) · V, in blocks: the whole matrix of scores never exists.

Keys and values go by in blocks. For each block, the scores of a few query rows, their maximum, their exponentials and
the sums of these are computed; a recurrence over the blocks keeps the maximum and the sum so far, and gives the two
factors with which the output so far and the block's part of it are weighted (Rabe and Staats, "Self-attention does not
need O(n²) memory", 2021; Dao et al., "FlashAttention", NeurIPS 2022):

    m' = max(m, top)    s' = s exp(m - m') + total exp(top - m')
    keep = s exp(m - m') / s'    take = exp(top - m') / s'    O' = O keep + (P · V) take

The recurrence is a `te.scan` over the blocks, the output an ordered reduction of the maps O -> O keep + part. Scores
are multiplied by log2(e) together with their scale, and exponentials are powers of two, which take fewer operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pegbox as pb
from pegbox import te
from pegbox.compute import attention as plain
from pegbox.compute import biased
from pegbox.templates import attention_schedule, attention_space
from pegbox.templates.attention_shape import Attention, attention_of

_LOG2_E = math.log2(math.e)


@pb.template("attention")
def attention(
    cfg: pb.TemplateConfig,
    batch: int,
    heads: int,
    n_q: int,
    n_k: int,
    d: int,
    kv_heads: int | None = None,
    causal: bool = False,
    scale: float | None = None,
    d_v: int | None = None,
    dtype: str = "float32",
    layout: str = "BHND",
    bias: str | None = None,
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """Compute O[batch, heads, n_q, d_v] = softmax(Q · Kᵀ · scale + bias) · V, over the leading axes.

    The inputs are Q[batch, heads, n_q, d], K[batch, kv_heads, n_k, d] and V[batch, kv_heads, n_k, d_v]. Other orders of
    the axes are given by `layout`, as "BNHD"; with "BN3HD" all three are parts of one array. A bias is the last input:
    its shape is `n_k` behind those axes of batch, heads and queries which `bias` names, as "HN".

    Each of the `kv_heads` (`heads` by default) serves the same number of query heads. With `causal`, the last query
    sees all keys and each one before it one key less, so there are at least as many keys as queries. The default of
    `scale` is 1/√d.
    The types are float32 and float64: sums of exponentials in narrower ones are not accurate.

    Raises:
        TemplateError: sizes or a type that this cannot compute.
    """
    p = attention_of(batch, heads, n_q, n_k, d, kv_heads, causal, scale, d_v, dtype, layout, bias, cfg.target)
    names = ["QKV"] if p.layout.is_joined else ["Q", "K", "V"]
    arrays = [te.placeholder(shape, dtype, name) for shape, name in zip(p.layout.shapes(p), names, strict=True)]
    added = None if p.bias is None else te.placeholder(p.bias_shape, dtype, "bias")
    inputs = [*arrays, *([] if added is None else [added])]
    cfg.add_flop(p.flop)
    cfg.define_plain(lambda: [plain(arrays, layout=p.layout, scale=p.scale, causal=p.causal, bias=added, name="O")])
    attention_space.declare(cfg, p)
    blocks = attention_space.blocks_of(cfg, p)
    stages = _compute(p, blocks, arrays, added)
    return attention_schedule.schedule(cfg, p, blocks, stages), [*inputs, stages.out]


def _compute(
    p: Attention, blocks: attention_space.Blocks, arrays: list[te.Tensor], bias: te.Tensor | None
) -> attention_schedule.Stages:
    """Compute the output through blocks of keys; rows are queries, of all heads of a group if they are few."""
    lead, count, size, width = p.lead, blocks.count(p), blocks.keys, blocks.width
    scale, zero, lowest = (te.const(x, p.dtype) for x in (p.scale * _LOG2_E, 0, p.lowest))
    q, k, v = (partial(p.layout.element, arrays, part) for part in range(3))
    panels = scaled = None
    if blocks.is_packed:

        def packed_key(b: te.Expr, x: te.Expr, j: te.Expr, r: te.Expr) -> te.Expr:
            return k(b, x, j, r) * scale if blocks.scales_keys else k(b, x, j, r)

        panels = te.compute(
            (p.batch, p.kv_heads, -(-count * size // width), p.d, width),
            lambda b, x, j, r, z: te.if_then_else(j * width + z < p.n_k, packed_key(b, x, j * width + z, r), zero),
            name="K_packed",
        )

    def query(b: te.Expr, x: te.Expr, i: te.Expr, r: te.Expr) -> Any:
        return q(b, *p.query(x, i), r)

    if not blocks.scales_keys:
        scaled = te.compute((*lead, p.rows, p.d), lambda b, x, i, r: query(b, x, i, r) * scale, name="Q_scaled")
    left = query if scaled is None else scaled
    across, columns = None, blocks.columns
    if blocks.packs_values:
        across = te.compute(
            (p.batch, p.kv_heads, -(-p.d_v // columns), p.n_k, columns),
            lambda b, x, o, j, z: te.if_then_else(o * columns + z < p.d_v, v(b, x, j, o * columns + z), zero),
            name="V_packed",
        )
    r = te.reduce_axis((0, p.d), name="r")

    def product(b: te.Expr, x: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        if panels is not None:
            return te.sum(left(b, x, i, r) * panels(b, p.kv_head(x), j // width, r, j % width), axis=r)
        inside = None if count * size == p.n_k else j < p.n_k
        return te.sum(left(b, x, i, r) * k(b, p.kv_head(x), j, r), axis=r, where=inside)

    raw = te.compute((*lead, p.rows, count * size), product, name="S_tile")

    def masked(b: te.Expr, x: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        head, query = p.query(x, i)
        value = biased(raw(b, x, i, j), bias, (b, head, query, j), factor=_LOG2_E)
        if bias is not None and count * size > p.n_k:
            value = te.if_then_else(j < p.n_k, value, lowest)  # the bias ends there
        seen = [j <= p.last_key(i)] if p.causal else [j < p.n_k] if count * size > p.n_k and bias is None else []
        return te.select(seen[0], value, lowest) if seen else value

    s = te.compute(raw.shape, masked, name="S")
    by_block = (count, *lead, p.rows)

    def over_keys(name: str, tensor: te.Tensor, of_vectors: Any, of_lanes: Any) -> tuple[te.Tensor, te.Tensor]:
        j, z = te.reduce_axis((0, size // p.lanes), name=f"j_{name}"), te.reduce_axis((0, p.lanes), name=f"z_{name}")

        def lane(t: te.Expr, b: te.Expr, x: te.Expr, i: te.Expr, z: te.Expr) -> Any:
            return of_vectors(tensor(b, x, i, t * size + j * p.lanes + z), axis=j)

        vector = te.compute((*by_block, p.lanes), lane, name=f"{name}_lanes")
        return vector, te.compute(by_block, lambda *at: of_lanes(vector(*at, z), axis=z), name=name)

    tops, top = over_keys("top", s, _largest, te.max)
    weight = te.compute(raw.shape, lambda b, x, i, j: te.exp2(s(b, x, i, j) - top(j // size, b, x, i)), name="P")
    totals, total = over_keys("total", weight, te.sum, te.sum)
    jv = te.reduce_axis((0, size), name="jv")

    def part(t: te.Expr, b: te.Expr, x: te.Expr, i: te.Expr, c: te.Expr) -> te.Expr:
        j = t * size + jv
        inside = None if count * size == p.n_k else j < p.n_k
        at = b, p.kv_head(x)
        value = v(*at, j, c) if across is None else across(*at, c // columns, j, c % columns)
        return te.sum(weight(b, x, i, j) * value, axis=jv, where=inside)

    parts = te.compute((*by_block, p.d_v), part, name="PV")
    one = te.const(1, p.dtype)
    keep, take = (
        _weights(top, total) if count > 1 else (None, te.compute(by_block, lambda *at: one / total(*at), name="take"))
    )
    made = _combined(p, blocks, keep, take, parts)

    axes = p.layout.of_output

    def element(*at: te.Expr) -> te.Expr:
        place = dict(zip(axes.axes, at, strict=True))
        return made(place["B"], *p.row(place["H"], place["N"]), place["D"])

    out = te.compute(axes.shape(p.batch, p.heads, p.n_q, p.d_v), element, name="O")
    return attention_schedule.Stages(
        out, made, scaled, panels, across, raw, s, tops, top, weight, totals, total, parts, take
    )


# A maximum that may lose NaN, which the exponentials of the scores still have, is one instruction instead of three.
_largest = te.comm_reducer(lambda a, b: te.select(a > b, a, b), te.min_value, name="largest")


def _weights(top: te.Tensor, total: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """Return the factors of the output so far, and of the part of a block, for each block and row."""
    shape, first, dtype = top.shape, (1, *top.shape[1:]), top.dtype
    one, zero = te.const(1, dtype), te.const(0, dtype)
    most, sums, keep, take = (te.placeholder(shape, dtype, name) for name in ("m", "s", "keep_so_far", "take_so_far"))
    starts = [
        te.compute(first, lambda *at: top(*at), name="m_first"),
        te.compute(first, lambda *at: total(*at), name="s_first"),
        te.compute(first, lambda *at: total(*at) * zero, name="keep_first"),
        te.compute(first, lambda *at: one / total(*at), name="take_first"),
    ]

    def high(t: te.Expr, *at: te.Expr) -> te.Expr:
        return te.maximum(most(t - 1, *at), top(t, *at))

    def old(t: te.Expr, *at: te.Expr) -> te.Expr:
        return sums(t - 1, *at) * te.exp2(most(t - 1, *at) - high(t, *at))

    def new(t: te.Expr, *at: te.Expr) -> te.Expr:
        return te.exp2(top(t, *at) - high(t, *at))

    def sum_of(t: te.Expr, *at: te.Expr) -> te.Expr:
        return old(t, *at) + total(t, *at) * new(t, *at)

    steps = [
        te.compute(shape, high, name="m_next"),
        te.compute(shape, sum_of, name="s_next"),
        te.compute(shape, lambda *at: old(*at) / sum_of(*at), name="keep_next"),
        te.compute(shape, lambda *at: new(*at) / sum_of(*at), name="take_next"),
    ]
    made = te.scan(starts, steps, [most, sums, keep, take], name="weights")
    return made[2], made[3]


def _follow(a: Sequence[te.Expr], b: Sequence[te.Expr]) -> tuple[te.Expr, te.Expr]:
    return a[0] * b[0], a[1] * b[0] + b[1]


_in_order = te.comm_reducer(_follow, lambda f, y: (te.const(1, f), te.const(0, y)), name="rescaled_sum", ordered=True)


def _combined(
    p: Attention, blocks: attention_space.Blocks, keep: te.Tensor | None, take: te.Tensor, parts: te.Tensor
) -> te.Tensor:
    """Compute the output from its parts, without the blocks that no query of a block of rows sees.

    Args:
        keep: the factor of the output so far; None for one block.
    """
    count, *rows = parts.shape
    if keep is None:
        return te.compute(tuple(rows), lambda *at: parts(0, *at) * take(0, *at[:-1]), name="R")
    t = te.reduce_axis((0, count), name="t")

    def element(b: te.Expr, x: te.Expr, i: te.Expr, c: te.Expr) -> Any:
        last = i // blocks.rows * blocks.rows + (blocks.rows - 1 + p.n_k - p.n_q)
        where = t * blocks.keys <= last if p.causal and not p.is_folded else None
        return _in_order((keep(t, b, x, i), parts(t, b, x, i, c) * take(t, b, x, i)), axis=t, where=where)

    made: te.Tensor = te.compute(tuple(rows), element, name="R")[1]
    return made
