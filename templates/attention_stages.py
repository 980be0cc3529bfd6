"""The tensors of attention, from queries, keys and values to the output, through blocks of keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from pegbox import te
from pegbox.compute import HIGHEST_SCORE, biased, origin
from pegbox.templates.attention_shape import Attention
from pegbox.templates.attention_space import Blocks

_LOG2_E = math.log2(math.e)

_Operand: TypeAlias = Callable[..., Any]
"""A function that returns a query, key or value by its batch, head, row and column."""


@dataclass(frozen=True)
class Stages:
    """The tensors between the inputs and the output.

    Attributes:
        arrays: the inputs, except the bias.
        out, made: the output in its layout, and with rows of queries.
        values: the array of the values, or the packed values.
        scaled, panels, across: the scaled queries, packed keys and packed values; None if a configuration has none.
        raw, scores: products of queries and keys, before and after the bias and masks.
        tops, top: the largest score of a block of keys, for each lane and for each row.
        base: the number that is subtracted from the scores: the largest one, if it is finite; `top` without a bias.
        totals, total: the sums of the block's weights, for each lane and for each row.
        weight, kept: powers of two of scores, and their copies for all but the first tile of a row of output tiles;
            None if they need none.
        parts, rest: the weighted sums of values in a block: all columns, or those of the first tile and the others.
        take: the factors of the parts.
    """

    arrays: list[te.Tensor]
    out: te.Tensor
    made: te.Tensor
    values: te.Tensor
    scaled: te.Tensor | None
    panels: te.Tensor | None
    across: te.Tensor | None
    raw: te.Tensor
    scores: te.Tensor
    tops: te.Tensor
    top: te.Tensor
    base: te.Tensor
    weight: te.Tensor
    totals: te.Tensor
    total: te.Tensor
    kept: te.Tensor | None
    parts: te.Tensor
    rest: te.Tensor | None
    take: te.Tensor


def compute(p: Attention, blocks: Blocks, arrays: list[te.Tensor], bias: te.Tensor | None) -> Stages:
    """Compute the output in blocks of keys; rows are queries, of all heads of a group if they are few."""
    q, k, v = (partial(p.layout.element, arrays, part) for part in range(3))
    panels = _packed_keys(p, blocks, k) if blocks.is_packed else None
    across = _packed_values(p, blocks, v) if blocks.packs_values else None
    left, scaled = _queries(p, blocks, q)
    raw = _products(p, blocks, left, k if panels is None else panels, blocks.is_packed)
    scores = te.compute(raw.shape, partial(_masked, p, blocks, raw, bias), name="S")
    tops, top = _over_keys(p, blocks, "top", scores, _largest, te.max)
    base = top if p.bias is None else te.compute(top.shape, lambda *at: origin(top(*at)), name="base")
    size = blocks.keys

    def weight_of(b: te.Expr, x: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        return te.exp2(te.nonpositive(_exponent(p, scores(b, x, i, j) - base(j // size, b, x, i))))

    weight = te.compute(raw.shape, weight_of, name="P")
    totals, total = _over_keys(p, blocks, "total", weight, te.sum, te.sum)
    first, kept, rest = p.d_v, None, None
    if blocks.keeps_weights(p):
        first, kept = blocks.columns, te.compute(weight.shape, lambda *at: weight(*at), name="P_kept")
        rest = _parts(p, blocks, kept, v, across, "PV_rest", first, p.d_v)
    parts = _parts(p, blocks, weight, v, across, "PV", 0, first)
    keep, take = _factors(p, top, total)
    made = _combined(p, blocks, keep, take, parts, rest)
    out = _in_layout(p, made)
    return Stages(
        arrays,
        out,
        made,
        arrays[-1] if across is None else across,
        scaled,
        panels,
        across,
        raw,
        scores,
        tops,
        top,
        base,
        weight,
        totals,
        total,
        kept,
        parts,
        rest,
        take,
    )


def _packed_keys(p: Attention, blocks: Blocks, k: _Operand) -> te.Tensor:
    """Pack keys into panels [keys / width][d][width], with zeros beyond the last key."""
    width, scale, zero = blocks.width, te.const(_scale(p), p.dtype), te.const(0, p.dtype)

    def key(b: te.Expr, x: te.Expr, j: te.Expr, r: te.Expr) -> Any:
        return k(b, x, j, r) * scale if blocks.scales_keys else k(b, x, j, r)

    return te.compute(
        (p.batch, p.kv_heads, -(-blocks.count(p) * blocks.keys // width), p.d, width),
        lambda b, x, j, r, z: te.if_then_else(j * width + z < p.n_k, key(b, x, j * width + z, r), zero),
        name="K_packed",
    )


def _packed_values(p: Attention, blocks: Blocks, v: _Operand) -> te.Tensor:
    """Pack values into panels [d_v / columns][keys][columns], with zeros beyond the last column."""
    columns, zero = blocks.columns, te.const(0, p.dtype)
    return te.compute(
        (p.batch, p.kv_heads, -(-p.d_v // columns), p.n_k, columns),
        lambda b, x, o, j, z: te.if_then_else(o * columns + z < p.d_v, v(b, x, j, o * columns + z), zero),
        name="V_packed",
    )


def _scale(p: Attention) -> float:
    """Return the factor of the scores, including log2(e) unless a bias is added, which could overflow with it."""
    return p.scale * (_LOG2_E if p.bias is None else 1)


def _exponent(p: Attention, difference: te.Expr) -> te.Expr:
    """Return the exponent of two that is the exponential of a difference of scores."""
    return difference if p.bias is None else difference * te.const(_LOG2_E, p.dtype)


def _queries(p: Attention, blocks: Blocks, q: _Operand) -> tuple[_Operand, te.Tensor | None]:
    """Return the queries by rows, and the tensor of scaled queries, unless keys are scaled."""

    def query(b: te.Expr, x: te.Expr, i: te.Expr, r: te.Expr) -> Any:
        return q(b, *p.query(x, i), r)

    if blocks.scales_keys:
        return query, None
    scale = te.const(_scale(p), p.dtype)
    scaled = te.compute((*p.lead, p.rows, p.d), lambda b, x, i, r: query(b, x, i, r) * scale, name="Q_scaled")
    return scaled, scaled


def _products(p: Attention, blocks: Blocks, left: _Operand, keys: _Operand, are_packed: bool) -> te.Tensor:
    """Multiply queries and keys."""
    width, whole = blocks.width, blocks.count(p) * blocks.keys
    r = te.reduce_axis((0, p.d), name="r")

    def product(b: te.Expr, x: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        if are_packed:
            return te.sum(left(b, x, i, r) * keys(b, p.kv_head(x), j // width, r, j % width), axis=r)
        inside = None if whole == p.n_k else j < p.n_k
        return te.sum(left(b, x, i, r) * keys(b, p.kv_head(x), j, r), axis=r, where=inside)

    return te.compute((*p.lead, p.rows, whole), product, name="S_tile")


def _masked(
    p: Attention,
    blocks: Blocks,
    raw: te.Tensor,
    bias: te.Tensor | None,
    b: te.Expr,
    x: te.Expr,
    i: te.Expr,
    j: te.Expr,
) -> te.Expr:
    """Return a score with its bias; a masked key gets the lowest number, or -inf if there is a bias.

    Without a bias, each row sees a key with a higher score; with one, all of its scores may be the lowest number.
    """
    hidden = te.const(-HIGHEST_SCORE[p.dtype], p.dtype) if p.bias is None else te.min_value(p.dtype)
    is_longer = blocks.count(p) * blocks.keys > p.n_k
    head, query = p.query(x, i)
    value = biased(raw(b, x, i, j), bias, (b, head, query, j))
    if bias is not None and is_longer:  # the bias has no further elements
        value = te.if_then_else(j < p.n_k, value, hidden)
    seen = [j <= p.last_key(i)] if p.causal else [j < p.n_k] if is_longer and bias is None else []
    return te.select(seen[0], value, hidden) if seen else value


def _over_keys(
    p: Attention, blocks: Blocks, name: str, tensor: te.Tensor, of_vectors: Any, of_lanes: Any
) -> tuple[te.Tensor, te.Tensor]:
    """Reduce the rows of each block of keys, first over vectors, then over lanes; return both results."""
    size, by_block = blocks.keys, (blocks.count(p), *p.lead, p.rows)
    j, z = te.reduce_axis((0, size // p.lanes), name=f"j_{name}"), te.reduce_axis((0, p.lanes), name=f"z_{name}")

    def lane(t: te.Expr, b: te.Expr, x: te.Expr, i: te.Expr, z: te.Expr) -> Any:
        return of_vectors(tensor(b, x, i, t * size + j * p.lanes + z), axis=j)

    vector = te.compute((*by_block, p.lanes), lane, name=f"{name}_lanes")
    return vector, te.compute(by_block, lambda *at: of_lanes(vector(*at, z), axis=z), name=name)


def _parts(
    p: Attention,
    blocks: Blocks,
    weight: te.Tensor,
    v: _Operand,
    across: te.Tensor | None,
    name: str,
    start: int,
    stop: int,
) -> te.Tensor:
    """Compute the weighted sums of the values of each block of keys, in the columns from `start` to `stop`."""
    size, count, columns = blocks.keys, blocks.count(p), blocks.columns
    jv = te.reduce_axis((0, size), name="jv")

    def part(t: te.Expr, b: te.Expr, x: te.Expr, i: te.Expr, c: te.Expr) -> te.Expr:
        j, c = t * size + jv, c + start
        inside = None if count * size == p.n_k else j < p.n_k
        at = b, p.kv_head(x)
        value = v(*at, j, c) if across is None else across(*at, c // columns, j, c % columns)
        return te.sum(weight(b, x, i, j) * value, axis=jv, where=inside)

    return te.compute((count, *p.lead, p.rows, stop - start), part, name=name)


def _in_layout(p: Attention, made: te.Tensor) -> te.Tensor:
    """Bring the output into its layout."""
    axes = p.layout.of_output

    def element(*at: te.Expr) -> te.Expr:
        place = dict(zip(axes.axes, at, strict=True))
        return made(place["B"], *p.row(place["H"], place["N"]), place["D"])

    return te.compute(axes.shape(p.batch, p.heads, p.n_q, p.d_v), element, name="O")


# This maximum may lose NaN, which the scores' exponentials still have, but is one instruction instead of three.
_largest = te.comm_reducer(lambda a, b: te.select(a > b, a, b), te.min_value, name="largest")


def _divisor(p: Attention, total: te.Expr) -> te.Expr:
    """Return a sum of weights as a divisor: not zero even if a bias makes all scores -inf."""
    least = te.const(0.5, p.dtype)  # the largest weight of any other row is 1
    return total if p.bias is None else te.select(total < least, least, total)  # one instruction, which keeps NaN


def _origin(p: Attention, top: te.Expr) -> te.Expr:
    return top if p.bias is None else origin(top)


def _factors(p: Attention, top: te.Tensor, total: te.Tensor) -> tuple[te.Tensor | None, te.Tensor]:
    """Return the factors of the output so far (None for one block) and of a block's part, for each row."""
    shape, first, dtype = top.shape, (1, *top.shape[1:]), top.dtype
    one, zero = te.const(1, dtype), te.const(0, dtype)
    if shape[0] == 1:
        return None, te.compute(shape, lambda *at: one / _divisor(p, total(*at)), name="take")
    most, sums, keep, take = (te.placeholder(shape, dtype, name) for name in ("m", "s", "keep_so_far", "take_so_far"))
    starts = [
        te.compute(first, lambda *at: top(*at), name="m_first"),
        te.compute(first, lambda *at: total(*at), name="s_first"),
        te.compute(first, lambda *at: total(*at) * zero, name="keep_first"),
        te.compute(first, lambda *at: one / _divisor(p, total(*at)), name="take_first"),
    ]

    def high(t: te.Expr, *at: te.Expr) -> te.Expr:
        return te.maximum(most(t - 1, *at), top(t, *at))

    def old(t: te.Expr, *at: te.Expr) -> te.Expr:
        return sums(t - 1, *at) * te.exp2(_exponent(p, most(t - 1, *at) - _origin(p, high(t, *at))))

    def new(t: te.Expr, *at: te.Expr) -> te.Expr:
        return te.exp2(_exponent(p, top(t, *at) - _origin(p, high(t, *at))))

    def sum_of(t: te.Expr, *at: te.Expr) -> te.Expr:
        return old(t, *at) + total(t, *at) * new(t, *at)

    steps = [
        te.compute(shape, high, name="m_next"),
        te.compute(shape, sum_of, name="s_next"),
        te.compute(shape, lambda *at: old(*at) / _divisor(p, sum_of(*at)), name="keep_next"),
        te.compute(shape, lambda *at: new(*at) / _divisor(p, sum_of(*at)), name="take_next"),
    ]
    made = te.scan(starts, steps, [most, sums, keep, take], name="weights")
    return made[2], made[3]


def _follow(a: Sequence[te.Expr], b: Sequence[te.Expr]) -> tuple[te.Expr, te.Expr]:
    return a[0] * b[0], a[1] * b[0] + b[1]


_in_order = te.comm_reducer(_follow, lambda f, y: (te.const(1, f), te.const(0, y)), name="rescaled_sum", ordered=True)


def _combined(
    p: Attention, blocks: Blocks, keep: te.Tensor | None, take: te.Tensor, parts: te.Tensor, rest: te.Tensor | None
) -> te.Tensor:
    """Compute the output from its parts, skipping blocks of keys that no query of a block of rows sees.

    Args:
        keep: the factor of the output so far; None for one block.
    """
    count, rows, first = parts.shape[0], (*parts.shape[1:-1], p.d_v), parts.shape[-1]

    def part(*at: Any) -> Any:
        *row, c = at
        return parts(*at) if rest is None else te.if_then_else(c < first, parts(*at), rest(*row, c - first))

    if keep is None:
        only: te.Tensor = te.compute(rows, lambda *at: part(0, *at) * take(0, *at[:-1]), name="R")
        return only
    t = te.reduce_axis((0, count), name="t")

    def element(b: te.Expr, x: te.Expr, i: te.Expr, c: te.Expr) -> Any:
        last = i // blocks.rows * blocks.rows + (blocks.rows - 1 + p.n_k - p.n_q)
        where = t * blocks.keys <= last if p.causal and not p.is_folded else None
        return _in_order((keep(t, b, x, i), part(t, b, x, i, c) * take(t, b, x, i)), axis=t, where=where)

    made: te.Tensor = te.compute(rows, element, name="R")[1]
    return made
