"""Attention, and the rotation of its queries and keys by their positions."""

from __future__ import annotations

import math
from typing import Any

from pegbox import te
from pegbox.compute import elementwise, reshaped
from pegbox.expr import is_float
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.casts import converted, dtype_of, sum_type
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.reductions import reduced, row_sums
from pegbox.plugins.onnx.operators.shapes import Index
from pegbox.plugins.onnx.operators.slices import joined


def _heads(node: OperatorNode, x: te.Tensor, name: str) -> te.Tensor:
    """Bring [batch, steps, heads * size] into the order [batch, heads, steps, size].

    Args:
        name: the name of the attribute with the number of heads.
    """
    heads = node.get(name)
    if x.ndim == 4 or heads is None:
        return x
    b, t, width = x.shape
    if heads < 1 or width % heads:
        raise node.refuse(f"{name}={heads} does not divide the width {width} of its input", f"correct {name}")
    size = width // heads
    return computed((b, heads, t, size), lambda i, h, t, e: x(i, t, h * size + e), name="heads")


def _masked(mask: te.Tensor, at: tuple[Index, ...], dtype: str) -> Any:
    """Return the mask's part of the bias, which excludes elements beyond the mask."""
    own = at[4 - mask.ndim :]
    last = mask.shape[-1]
    places = [
        0 if extent == 1 and d < mask.ndim - 1 else i for d, (extent, i) in enumerate(zip(mask.shape, own, strict=True))
    ]
    value = mask(*places[:-1], te.minimum(places[-1], last - 1))
    low, zero = te.min_value(dtype), te.const(0, dtype)
    bias = te.cast(dtype, value) if is_float(mask.dtype) else te.if_then_else(value, zero, low)
    return te.if_then_else(at[-1] < last, bias, low)


@operator("Attention")
def attention(
    node: OperatorNode, q: te.Tensor, k: te.Tensor, v: te.Tensor, mask: te.Tensor | None = None,
    past_k: te.Tensor | None = None, past_v: te.Tensor | None = None, lengths: te.Tensor | None = None,
) -> list[te.Tensor]:  # fmt: skip
    flat = q.ndim == 3
    q, k, v = (_heads(node, x, f"{name}_num_heads") for x, name in ((q, "q"), (k, "kv"), (v, "kv")))
    past = 0 if past_k is None else past_k.shape[2]
    k = k if past_k is None else joined([past_k, k], 2)
    v = v if past_v is None else joined([past_v, v], 2)
    raw = logits = _scores(q, k, node.get("scale") or 1 / math.sqrt(q.shape[3]))
    if (cap := node.get("softcap", 0.0)) > 0:
        logits = elementwise(lambda e: cap * te.tanh(e / cap), raw, name="capped")
    bias = _bias(node, logits, mask, lengths, past)
    shifted = logits if bias is None else elementwise(lambda e, x: e + x, logits, bias, name="biased")
    weights = _weights(shifted, bias, dtype_of(node, "softmax_precision", q.dtype))
    made = _values(weights, v)
    # A kernel cannot return the caller's arrays.
    k, v = (x if past_k is not None else reshaped(x, x.shape, name="present") for x in (k, v))
    asked = [raw, logits, shifted, weights][node.get("qk_matmul_output_mode", 0)]
    return [_side_by_side(made) if flat else made, k, v, asked]


def _scores(q: te.Tensor, k: te.Tensor, scale: float) -> te.Tensor:
    """Multiply queries by keys, both scaled before, so that products stay small."""
    batch, heads, steps, size = q.shape
    group, wide, root = heads // k.shape[1], sum_type(q.dtype), te.const(math.sqrt(scale), q.dtype)
    d = te.reduce_axis((0, size), name="d")
    small_q = elementwise(lambda e: e * root, q, name="scaled_q")
    small_k = elementwise(lambda e: e * root, k, name="scaled_k")

    def score(b: Index, h: Index, i: Index, j: Index) -> Any:
        return te.sum(
            te.cast(wide, small_q(b, h, i, d)) * te.cast(wide, small_k(b, te.floordiv(h, group), j, d)), axis=d
        )

    return converted(computed((batch, heads, steps, k.shape[2]), score, name="scores"), q.dtype)


def _bias(
    node: OperatorNode, logits: te.Tensor, mask: te.Tensor | None, lengths: te.Tensor | None, past: int
) -> te.Tensor | None:
    """Combine the mask, the causal order, windows and lengths into one bias; None if each query sees all keys."""
    steps, dtype = logits.shape[2], logits.dtype
    causal, left, right = node.get("is_causal", 0), node.get("left_window_size", -1), node.get("right_window_size", -1)
    if not (causal or left >= 0 or right >= 0) and lengths is None and mask is None:
        return None

    def allowed(b: Index, i: Index, j: Index) -> list[Any]:
        length = None if lengths is None else te.cast("int64", lengths(b))
        here = i + (past if length is None else length - steps)
        tests = [j <= here] if causal else []
        tests += [here - j <= left] if left >= 0 else []
        tests += [j - here <= right] if right >= 0 else []
        return tests + ([] if length is None else [j < length])

    def biased(*at: Index) -> Any:
        b, _, i, j = at
        own = te.const(0, dtype) if mask is None else _masked(mask, at, dtype)
        tests = allowed(b, i, j)
        return te.if_then_else(te.all(*tests), own, te.min_value(dtype)) if tests else own

    return computed(logits.shape, biased, name="bias")


def _weights(shifted: te.Tensor, bias: te.Tensor | None, kind: str) -> te.Tensor:
    """Compute the softmax of rows in the type `kind`; a row with all elements excluded gives zeros."""
    dtype = shifted.dtype
    high = reduced(converted(shifted, kind), [3], te.max, name="high")
    exponents = elementwise(
        lambda e, m: te.exp(te.cast(kind, e) - te.if_then_else(m.equal(te.min_value(kind)), te.const(0, kind), m)),
        shifted, high, name="powers",
    )  # fmt: skip
    sums = row_sums(exponents, 3)
    if bias is None:
        return elementwise(lambda e, t: te.cast(dtype, e / t), exponents, sums, name="weights")
    most = reduced(bias, [3], te.max, name="most")
    return elementwise(
        lambda e, t, m: te.if_then_else(m.equal(te.min_value(dtype)), te.const(0, dtype), te.cast(dtype, e / t)),
        exponents, sums, most, name="weights",
    )  # fmt: skip


def _values(weights: te.Tensor, v: te.Tensor) -> te.Tensor:
    """Sum up values by their weights."""
    batch, heads, steps, total = weights.shape
    group, wide = heads // v.shape[1], sum_type(weights.dtype)
    j = te.reduce_axis((0, total), name="j")

    def value(b: Index, h: Index, i: Index, e: Index) -> Any:
        return te.sum(te.cast(wide, weights(b, h, i, j)) * te.cast(wide, v(b, te.floordiv(h, group), j, e)), axis=j)

    return converted(computed((batch, heads, steps, v.shape[3]), value, name="Attention"), weights.dtype)


def _side_by_side(x: te.Tensor) -> te.Tensor:
    """Put the heads of [batch, heads, steps, size] side by side: [batch, steps, heads * size]."""
    batch, heads, steps, width = x.shape
    return computed(
        (batch, steps, heads * width),
        lambda b, i, c: x(b, te.floordiv(c, width), i, te.floormod(c, width)), name="Attention",
    )  # fmt: skip


@operator("RotaryEmbedding")
def rotary_embedding(
    node: OperatorNode, x: te.Tensor, cos: te.Tensor, sin: te.Tensor, positions: te.Tensor | None = None
) -> te.Tensor:
    heads = _heads(node, x, "num_heads")
    size = heads.shape[3]
    rotated = node.get("rotary_embedding_dim", 0) or size
    half, interleaved = rotated // 2, node.get("interleaved", 0)

    def turned(b: Index, h: Index, t: Index, e: Index) -> Any:
        pair = te.floordiv(e, 2) if interleaved else te.floormod(e, half)
        first, second = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + half)
        is_first = te.floormod(e, 2).equal(0) if interleaved else e < half
        inside = te.minimum(pair, half - 1)
        row = [te.cast("int64", positions(b, t))] if positions is not None else [b, t]
        c, s = cos(*row, inside), sin(*row, inside)
        a, z = (heads(b, h, t, te.minimum(place, size - 1)) for place in (first, second))
        made = te.if_then_else(is_first, c * a - s * z, s * a + c * z)
        return made if rotated == size else te.if_then_else(e < rotated, made, heads(b, h, t, e))

    if x.ndim == 4:
        return computed(x.shape, turned, name="RotaryEmbedding")
    return computed(
        x.shape, lambda b, t, c: turned(b, te.floordiv(c, size), t, te.floormod(c, size)), name="RotaryEmbedding"
    )
