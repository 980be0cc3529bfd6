"""Attention, softmax(Q · Kᵀ · scale) · V, in blocks, without storing the whole matrix of scores.

Keys and values are processed in blocks. For each block, the scores of a few query rows, their maximum, their
exponentials and the sums of these are computed; a recurrence over the blocks keeps the maximum and the sum so far, and
computes two factors that weight the output so far and the block's part of it (Rabe and Staats, "Self-attention does not
need O(n²) memory", 2021; Dao et al., "FlashAttention", NeurIPS 2022):

    m' = max(m, top)    s' = s exp(m - m') + total exp(top - m')
    keep = s exp(m - m') / s'    take = exp(top - m') / s'    O' = O keep + (P · V) take

The recurrence is a `te.scan` over the blocks; the output is an ordered reduction of the maps O -> O keep + part. Scores
without a bias are multiplied by log2(e) together with their scale; exponentials are powers of two, which take fewer
operations.
"""

from __future__ import annotations

import pegbox as pb
from pegbox import te
from pegbox.compute import attention as plain
from pegbox.templates import attention_schedule, attention_space, attention_stages
from pegbox.templates.attention_shape import attention_of


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

    The inputs are Q[batch, heads, n_q, d], K[batch, kv_heads, n_k, d] and V[batch, kv_heads, n_k, d_v]. `layout` gives
    other orders of the axes, such as "BNHD"; with "BN3HD" all three are parts of one array. A bias is the last input:
    its shape is those of the axes batch, heads and queries that `bias` names, such as "HN", followed by `n_k`.

    Each of the `kv_heads` (`heads` by default) serves the same number of query heads. With `causal`, the last query
    sees all keys and each one before it one key less, so there are at least as many keys as queries. A query whose keys
    are all hidden by a bias of -inf gets zeros. The default of `scale` is 1/√d. The types are float32 and float64: sums
    of exponentials in narrower types are not accurate.

    Raises:
        TemplateError: the template cannot compute these sizes or this type.
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
    stages = attention_stages.compute(p, blocks, arrays, added)
    return attention_schedule.schedule(cfg, p, blocks, stages), [*inputs, stages.out]
