"""Attention with the whole matrix of scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pegbox.compute.head_layout import HeadLayout
from pegbox.compute.ops import compute, max, reduce_axis, sum
from pegbox.compute.tensor import Tensor
from pegbox.expr.build import const, maximum, select
from pegbox.expr.math import exp
from pegbox.expr.nodes import Expr

HIGHEST_SCORE = {"float32": 3e38, "float64": 1e308}
"""A finite number above all scores, by type: `origin` of those that are all -inf."""


def attention(
    arrays: Sequence[Tensor],
    *,
    layout: HeadLayout,
    scale: float,
    causal: bool = False,
    bias: Tensor | None = None,
    name: str = "attention",
) -> Tensor:
    """Compute softmax(Q · Kᵀ · scale + bias) · V, with the whole matrix of scores.

    A query whose scores are all -inf gets zeros, as from PyTorch's `scaled_dot_product_attention`.

    Args:
        arrays: Q, K and V, or one array of all, in a layout; a head of K and V may serve several of Q.
        causal: True if the last query sees all keys, and each earlier one sees one key fewer.
        bias: the summand of the scores [batch, heads, queries, keys], broadcast along axes of one element.

    Raises:
        ComputeError: the shapes do not fit.
    """
    p = layout.sizes([array.shape for array in arrays])
    dtype, group = arrays[0].dtype, p.heads // p.kv_heads
    r, (j1, j2, j3) = reduce_axis((0, p.d), name="r"), (reduce_axis((0, p.n_k), name=f"j{n}") for n in (1, 2, 3))
    shape, hidden = (p.batch, p.heads, p.n_q, p.n_k), const(-math.inf, dtype)

    def product(b: Expr, h: Expr, i: Expr, j: Expr) -> Expr:
        q, k = layout.element(arrays, 0, b, h, i, r), layout.element(arrays, 1, b, h // group, j, r)
        return sum(q * k, axis=r)

    s = compute(shape, product, name="S")

    def seen(b: Expr, h: Expr, i: Expr, j: Expr) -> Expr:
        score = biased(s(b, h, i, j) * const(scale, dtype), bias, (b, h, i, j))
        return select(j <= i + (p.n_k - p.n_q), score, hidden) if causal else score

    scores = compute(shape, seen, name="scaled")
    top = compute(shape[:3], lambda *at: max(scores(*at, j1), axis=j1), name="top")
    weight = compute(shape, lambda *at: exp(scores(*at) - origin(top(*at[:3]))), name="weight")
    total = compute(shape[:3], lambda *at: sum(weight(*at, j2), axis=j2), name="total")

    def weighted(b: Expr, h: Expr, i: Expr, c: Expr) -> Expr:
        return sum(weight(b, h, i, j3) * layout.element(arrays, 2, b, h // group, j3, c), axis=j3)

    sums = compute((*shape[:3], p.d_v), weighted, name="sums")
    axes = layout.of_output

    def element(*at: Expr) -> Expr:
        place = dict(zip(axes.axes, at, strict=True))
        b, h, i, c = (place[axis] for axis in "BHND")
        return sums(b, h, i, c) / maximum(total(b, h, i), 0.5)  # the largest weight is 1, unless all are zeros

    return compute(axes.shape(p.batch, p.heads, p.n_q, p.d_v), element, name=name)


def origin(top: Expr) -> Expr:
    """Return the number that is subtracted from scores with this maximum; a high one if all are -inf.

    Differences from -inf would be NaN. Those from a high number have exponentials of zero, also where a schedule
    computes them from leftovers.
    """
    return select(top > -math.inf, top, HIGHEST_SCORE[top.dtype])


def biased(score: Expr, bias: Tensor | None, at: Sequence[Expr]) -> Expr:
    """Add the bias of a place, broadcast along axes of one element, to a score; None is no bias."""
    if bias is None:
        return score
    return score + bias(*(const(0, "int64") if extent == 1 else i for extent, i in zip(bias.shape, at, strict=True)))
