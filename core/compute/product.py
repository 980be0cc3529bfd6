"""Products of matrices."""

from __future__ import annotations

from pegbox.compute.elementwise import broadcast_shape, element
from pegbox.compute.ops import compute, reduce_axis, sum
from pegbox.compute.tensor import Tensor
from pegbox.errors import ComputeError
from pegbox.expr.nodes import Expr


def matmul(a: Tensor, b: Tensor, *, name: str = "matmul") -> Tensor:
    """Multiply stacks of matrices, with broadcasting; a vector is a row on the left and a column on the right.

    Raises:
        ComputeError: an operand is a number, the depths differ, or the stacks do not broadcast.
    """
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[-2:][0]:
        raise ComputeError(f"{name}: shapes {list(a.shape)} and {list(b.shape)} have no product")
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.ndim > 1 else ()
    stack = broadcast_shape(a.shape[:-2], b.shape[:-2])
    k = reduce_axis((0, a.shape[-1]), name="k")

    def element_at(*at: Expr) -> Expr:
        outer, inner = at[: len(stack)], at[len(stack) :]
        x = element(a, (*outer, *inner[: len(rows)], k))
        y = element(b, (*outer, k, *inner[len(rows) :]))
        assert isinstance(x, Expr)
        assert isinstance(y, Expr)
        return sum(x * y, axis=k)

    return compute((*stack, *rows, *columns), element_at, name=name)
