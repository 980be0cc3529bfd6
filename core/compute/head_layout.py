"""Attention, and the layouts of its arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pegbox.compute.ops import compute, max, reduce_axis, sum
from pegbox.compute.tensor import Tensor
from pegbox.errors import ComputeError
from pegbox.expr.build import const, maximum, select
from pegbox.expr.math import exp
from pegbox.expr.nodes import Expr

PARTS = "3"
"""The axis of a layout whose index says whether a row is a query, a key or a value."""

LOWEST_SCORE = {"float32": -3e38, "float64": -1e308}
"""The score of a key that a query does not see, by type; finite, so that differences of two are zero."""


@dataclass(frozen=True)
class AttentionSizes:
    """The extents of an attention: `n_q` queries of `heads` heads, `n_k` keys and values of `kv_heads` heads."""

    batch: int
    heads: int
    n_q: int
    n_k: int
    d: int
    kv_heads: int
    d_v: int


@dataclass(frozen=True)
class HeadLayout:
    """The order of the axes in the arrays of an attention: a letter each, as in "BHND".

    They are the batch, heads, rows (N), and the elements of a head (D), which are the last. With "3", as in "BN3HD",
    queries, keys and values are parts of one array. The output has the same order.

    Raises:
        ComputeError: other letters, or D is not the last.
    """

    axes: str = "BHND"

    def __post_init__(self) -> None:
        axes = self.axes
        if not isinstance(axes, str) or sorted(axes.replace(PARTS, "", 1)) != sorted("BHND") or axes[-1] != "D":
            raise ComputeError(f'layout={axes!r}: give B, H, N in any order and D behind them, as "BHND" or "BN3HD"')

    @property
    def is_joined(self) -> bool:
        """True where queries, keys and values are parts of one array."""
        return PARTS in self.axes

    @property
    def of_output(self) -> HeadLayout:
        """The layout of the output."""
        return HeadLayout(self.axes.replace(PARTS, ""))

    def shape(self, batch: int, heads: int, rows: int, width: int) -> tuple[int, ...]:
        """Return the shape of an array."""
        extents = {"B": batch, "H": heads, "N": rows, "D": width, PARTS: 3}
        return tuple(extents[axis] for axis in self.axes)

    def shapes(self, sizes: AttentionSizes) -> list[tuple[int, ...]]:
        """Return the shapes of the inputs: of queries, keys and values, or of one array.

        Raises:
            ComputeError: parts of one array with different shapes.
        """
        of = sizes
        keys = (self.shape(of.batch, of.kv_heads, of.n_k, width) for width in (of.d, of.d_v))
        shapes = [self.shape(of.batch, of.heads, of.n_q, of.d), *keys]
        if not self.is_joined:
            return shapes
        if len(set(shapes)) > 1:
            raise ComputeError(f"layout={self.axes!r}: one array holds as many queries as keys; {sizes} are not that")
        return shapes[:1]

    def element(self, arrays: Sequence[Tensor], part: int, b: Expr, h: Expr, n: Expr, c: Expr) -> Expr:
        """Return an element of the queries (part 0), the keys (1) or the values (2)."""
        at = {"B": b, "H": h, "N": n, "D": c, PARTS: const(part, "int64")}
        return arrays[0 if self.is_joined else part](*(at[axis] for axis in self.axes))

    def sizes(self, shapes: Sequence[Sequence[int]]) -> AttentionSizes:
        """Return the extents of an attention whose inputs have these shapes.

        Raises:
            ComputeError: shapes that do not fit each other or the layout.
        """
        found = [dict(zip(self.axes, shape, strict=True)) for shape in shapes if len(shape) == len(self.axes)]
        if len(found) != len(shapes) or len(shapes) != (1 if self.is_joined else 3):
            raise ComputeError(f"layout={self.axes!r}: inputs have the shapes {[list(shape) for shape in shapes]}")
        q, k, v = found * 3 if self.is_joined else found
        sizes = AttentionSizes(q["B"], q["H"], q["N"], k["N"], q["D"], k["H"], v["D"])
        if self.shapes(sizes) != [tuple(shape) for shape in shapes]:
            raise ComputeError(f"layout={self.axes!r}: the shapes {[list(shape) for shape in shapes]} do not fit")
        return sizes


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

    Args:
        arrays: Q, K and V, or one array of all, in a layout; a head of K and V may serve several of Q.
        causal: the last query sees all keys, and each one before it one key less.
        bias: the summand of the scores [batch, heads, queries, keys], broadcast along axes of one element.

    Raises:
        ComputeError: shapes that do not fit.
    """
    p = layout.sizes([array.shape for array in arrays])
    dtype, group = arrays[0].dtype, p.heads // p.kv_heads
    r, (j1, j2, j3) = reduce_axis((0, p.d), name="r"), (reduce_axis((0, p.n_k), name=f"j{n}") for n in (1, 2, 3))
    shape, lowest = (p.batch, p.heads, p.n_q, p.n_k), const(LOWEST_SCORE[dtype], dtype)

    def product(b: Expr, h: Expr, i: Expr, j: Expr) -> Expr:
        q, k = layout.element(arrays, 0, b, h, i, r), layout.element(arrays, 1, b, h // group, j, r)
        return sum(q * k, axis=r)

    s = compute(shape, product, name="S")

    def seen(b: Expr, h: Expr, i: Expr, j: Expr) -> Expr:
        score = biased(s(b, h, i, j) * const(scale, dtype), bias, (b, h, i, j))
        return select(j <= i + (p.n_k - p.n_q), score, lowest) if causal else score

    scores = compute(shape, seen, name="scaled")
    top = compute(shape[:3], lambda *at: max(scores(*at, j1), axis=j1), name="top")
    weight = compute(shape, lambda *at: exp(scores(*at) - top(*at[:3])), name="weight")
    total = compute(shape[:3], lambda *at: sum(weight(*at, j2), axis=j2), name="total")

    def weighted(b: Expr, h: Expr, i: Expr, c: Expr) -> Expr:
        return sum(weight(b, h, i, j3) * layout.element(arrays, 2, b, h // group, j3, c), axis=j3)

    sums = compute((*shape[:3], p.d_v), weighted, name="sums")
    axes = layout.of_output

    def element(*at: Expr) -> Expr:
        place = dict(zip(axes.axes, at, strict=True))
        b, h, i, c = (place[axis] for axis in "BHND")
        return sums(b, h, i, c) / total(b, h, i)

    return compute(axes.shape(p.batch, p.heads, p.n_q, p.d_v), element, name=name)


def biased(score: Expr, bias: Tensor | None, at: Sequence[Expr]) -> Expr:
    """Add the bias of a place to a score; a sum below `LOWEST_SCORE` is replaced by that.

    Args:
        bias: broadcast along axes of one element; None for no bias.
    """
    if bias is None:
        return score
    places = [const(0, "int64") if extent == 1 else i for extent, i in zip(bias.shape, at, strict=True)]
    return maximum(score + bias(*places), const(LOWEST_SCORE[bias.dtype], bias.dtype))
