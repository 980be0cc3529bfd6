"""The layouts of the arrays that attention reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pegbox.compute.tensor import Tensor
from pegbox.errors import ComputeError
from pegbox.expr.build import const
from pegbox.expr.nodes import Expr

PARTS = "3"
"""The axis of a layout that distinguishes queries, keys and values."""


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
        ComputeError: there are other letters, or D is not the last.
    """

    axes: str = "BHND"

    def __post_init__(self) -> None:
        axes = self.axes
        if not isinstance(axes, str) or sorted(axes.replace(PARTS, "", 1)) != sorted("BHND") or axes[-1] != "D":
            raise ComputeError(f'layout={axes!r}: give B, H, N in any order and D behind them, as "BHND" or "BN3HD"')

    @property
    def is_joined(self) -> bool:
        """True if queries, keys and values are parts of one array."""
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
            ComputeError: the parts of one array would have different shapes.
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
            ComputeError: the shapes do not fit each other or the layout.
        """
        found = [dict(zip(self.axes, shape, strict=True)) for shape in shapes if len(shape) == len(self.axes)]
        if len(found) != len(shapes) or len(shapes) != (1 if self.is_joined else 3):
            raise ComputeError(f"layout={self.axes!r}: inputs have the shapes {[list(shape) for shape in shapes]}")
        q, k, v = found * 3 if self.is_joined else found
        sizes = AttentionSizes(q["B"], q["H"], q["N"], k["N"], q["D"], k["H"], v["D"])
        if self.shapes(sizes) != [tuple(shape) for shape in shapes]:
            raise ComputeError(f"layout={self.axes!r}: the shapes {[list(shape) for shape in shapes]} do not fit")
        return sizes
