"""Products of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pegbox import te
from pegbox.errors import ComputeError

__all__ = ["matmul", "tensordot"]


def matmul(a: te.Tensor, b: te.Tensor, transp_a: bool = False, transp_b: bool = False) -> te.Tensor:
    """A · B of two matrices, each transposed first where it is said so."""
    left, right = (0 if transp_a else 1), (1 if transp_b else 0)
    made = contraction(a, b, [left], [right], "T_matmul")
    return made


def tensordot(a: te.Tensor, b: te.Tensor, axes: int | Sequence[Any] | None = 2) -> te.Tensor:
    """The sum of products over the last `axes` of A and the first of B, or over pairs of axes, as in NumPy."""
    if axes is None or isinstance(axes, int):
        count = 2 if axes is None else axes
        return contraction(a, b, [*range(a.ndim - count, a.ndim)], [*range(count)], "T_tensordot")
    left, right = ([each] if isinstance(each, int) else list(each) for each in axes)
    return contraction(a, b, [x % a.ndim for x in left], [x % b.ndim for x in right], "T_tensordot")


def contraction(a: te.Tensor, b: te.Tensor, left: Sequence[int], right: Sequence[int], name: str) -> te.Tensor:
    """The axes of A that are left, then those of B.

    Raises:
        ComputeError: paired axes have different extents.
    """
    pairs = [(a.shape[x], b.shape[y]) for x, y in zip(left, right, strict=True)]
    if any(x != y for x, y in pairs):
        raise ComputeError(f"{name}: axes {list(left)} of {a!r} and {list(right)} of {b!r} have other extents")
    reduced = [te.reduce_axis((0, extent), name=f"k{n}") for n, (extent, _) in enumerate(pairs)]
    kept = [[d for d in range(t.ndim) if d not in used] for t, used in ((a, left), (b, right))]
    shape = (*(a.shape[d] for d in kept[0]), *(b.shape[d] for d in kept[1]))

    def element(*at: te.Expr) -> te.Expr:
        first, second = at[: len(kept[0])], at[len(kept[0]) :]
        of_a = {**dict(zip(kept[0], first, strict=True)), **dict(zip(left, reduced, strict=True))}
        of_b = {**dict(zip(kept[1], second, strict=True)), **dict(zip(right, reduced, strict=True))}
        return te.sum(a(*(of_a[d] for d in range(a.ndim))) * b(*(of_b[d] for d in range(b.ndim))), axis=reduced)

    made = te.compute(shape, element, name=name, tag="matmul")
    return made
