"""The arguments of an attention: sizes, heads, mask, scale, type and target."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pegbox import te
from pegbox.checks import check_flag, check_float, check_int
from pegbox.codegen import Target, lanes_of
from pegbox.compute import HIGHEST_SCORE, AttentionSizes, HeadLayout
from pegbox.errors import ComputeError, TemplateError
from pegbox.expr import nbytes
from pegbox.templates.array_size import check_array_sizes

_FEW = 8  # the largest number of queries for which all heads of a group share one product
BIAS_AXES = "BHN"
"""The axes that a bias may have before the keys: batch, heads and queries."""


@dataclass(frozen=True)
class Attention(AttentionSizes):
    """An attention, softmax(Q · Kᵀ · scale) · V: `heads` heads of `n_q` queries, `kv_heads` heads of `n_k` keys."""

    causal: bool
    scale: float
    layout: HeadLayout
    bias: str | None
    dtype: str
    target: Target

    @property
    def bias_shape(self) -> tuple[int, ...]:
        """The shape of the bias, with one element along the axes that it lacks."""
        extents = dict(zip(BIAS_AXES, (self.batch, self.heads, self.n_q), strict=True))
        own = self.bias or ""
        return (*(extent if axis in own else 1 for axis, extent in extents.items()), self.n_k)

    @property
    def lanes(self) -> int:
        return lanes_of(self.target, self.dtype)

    @property
    def itemsize(self) -> int:
        return nbytes(self.dtype)

    @property
    def group(self) -> int:
        """The number of query heads for each key head."""
        return self.heads // self.kv_heads

    @property
    def head_nbytes(self) -> int:
        """The size of the keys and values of one head."""
        return self.n_k * (self.d + self.d_v) * self.itemsize

    @property
    def nbytes(self) -> int:
        """The size of all heads of queries, keys, values and the output."""
        rows = self.heads * self.n_q + self.kv_heads * self.n_k
        return self.batch * rows * (self.d + self.d_v) * self.itemsize

    @property
    def has_whole_heads(self) -> bool:
        """True if a thread computes whole heads of keys, because there are at least as many heads as cores."""
        return self.batch * self.kv_heads >= self.target.num_cores

    @property
    def is_kept(self) -> bool:
        """True if the second-level cache keeps keys and values from one block of rows to the next.

        Three tenths of it are left for the scores, the output, and lines that conflict.
        """
        return self.head_nbytes <= self.target.caches.l2 * 7 // 10

    @property
    def is_folded(self) -> bool:
        """True if the rows of a product are the queries of all heads of a group."""
        return self.n_q <= _FEW

    @property
    def lead(self) -> tuple[int, int]:
        """The extents of the leading axes; each combination has its own products."""
        return self.batch, self.kv_heads if self.is_folded else self.heads

    @property
    def rows(self) -> int:
        """The number of rows of a product."""
        return self.group * self.n_q if self.is_folded else self.n_q

    @property
    def flop(self) -> int:
        """The number of multiplications and additions of both products, without masked keys."""
        keys = sum(range(self.n_k - self.n_q + 1, self.n_k + 1)) if self.causal else self.n_q * self.n_k
        return 2 * self.batch * self.heads * keys * (self.d + self.d_v)

    def kv_head(self, x: te.Expr) -> te.Expr:
        """Return the key head for an index of the second leading axis."""
        return x if self.is_folded else x // self.group

    def query(self, x: te.Expr, row: te.Expr) -> tuple[te.Expr, te.Expr]:
        """Return the head and the query of a row."""
        return (x * self.group + row // self.n_q, row % self.n_q) if self.is_folded else (x, row)

    def row(self, head: te.Expr, query: te.Expr) -> tuple[te.Expr, te.Expr]:
        """Return the index of the second leading axis, and the row, of a query."""
        if self.is_folded:
            return head // self.group, head % self.group * self.n_q + query
        return head, query

    def reads_values(self, columns: int) -> bool:
        """Decide if tiles of that many vectors read the values in memory order: whole rows, one after the other."""
        return self.layout.axes.endswith("ND") and self.d_v <= columns * self.lanes

    def last_key(self, row: te.Expr) -> te.Expr:
        """Return the last key that a row sees under a causal mask."""
        return (row % self.n_q if self.is_folded else row) + (self.n_k - self.n_q)


def attention_of(
    batch: int,
    heads: int,
    n_q: int,
    n_k: int,
    d: int,
    kv_heads: int | None,
    causal: bool,
    scale: float | None,
    d_v: int | None,
    dtype: str,
    layout: str,
    bias: str | None,
    target: Target,
) -> Attention:
    """Check the arguments of the template, and fill in the defaults.

    Raises:
        TemplateError: the template cannot compute these sizes or this type.
    """
    given = {"batch": batch, "heads": heads, "n_q": n_q, "n_k": n_k, "d": d}
    given |= {"kv_heads": heads if kv_heads is None else kv_heads, "d_v": d if d_v is None else d_v}
    sizes = {name: check_int(f"attention: {name}", value, error=TemplateError) for name, value in given.items()}
    causal = check_flag("attention: causal", causal, error=TemplateError)
    if dtype not in HIGHEST_SCORE:
        raise TemplateError(
            f"attention: dtype={dtype!r}: sums of exponentials need {' or '.join(HIGHEST_SCORE)}; cast the inputs"
        )
    if sizes["heads"] % sizes["kv_heads"]:
        raise TemplateError(f"attention: kv_heads={kv_heads!r} does not divide heads={heads}; give a divisor of it")
    if causal and n_q > n_k:
        raise TemplateError(
            f"attention: n_q={n_q} queries see n_k={n_k} keys with causal=True, so that the first see none; the last "
            "query sees all keys: give n_q <= n_k"
        )
    factor = 1 / math.sqrt(d) if scale is None else check_float("attention: scale", scale, error=TemplateError)
    axes = _checked_layout(layout, sizes)
    if bias is not None and (not isinstance(bias, str) or bias != "".join(axis for axis in BIAS_AXES if axis in bias)):
        raise TemplateError(f'attention: bias={bias!r}: give its axes before the keys, as "HN" of "BHN", or None')
    p = Attention(**sizes, causal=causal, scale=factor, layout=axes, bias=bias, dtype=dtype, target=target)
    check_array_sizes("attention", [(p.batch, p.heads, max(p.n_q, p.n_k), max(p.d, p.d_v))], dtype)
    return p


def _checked_layout(layout: str, sizes: dict[str, int]) -> HeadLayout:
    try:
        axes = HeadLayout(layout)
        axes.shapes(AttentionSizes(**sizes))
    except ComputeError as error:
        raise TemplateError(f"attention: {error}") from error
    return axes
