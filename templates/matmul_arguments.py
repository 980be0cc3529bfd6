"""The arguments of a matrix product: sizes, type, layout of B, and target."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pegbox import te
from pegbox.codegen import Target, lanes_of
from pegbox.compute import AHEAD, Tensor
from pegbox.errors import TemplateError
from pegbox.expr import nbytes

WEIGHTS = ("plain", "packed")
_COLUMNS = 8  # the most columns for which the reduction fills vectors better than the columns


@dataclass(frozen=True)
class Product:
    """A product C[..., m, n] = A[..., m, k] · B[..., k, n] over the leading axes.

    Attributes:
        packed: True if B comes in panels of one vector, (..., ceil(n / lanes), k, lanes), with zeros beyond the last
            column, or, for a narrow product, transposed, (..., n, k). The form depends on the target and the shape,
            never on a configuration.
    """

    lead: tuple[int, ...]
    m: int
    k: int
    n: int
    dtype: str
    packed: bool
    target: Target

    @property
    def lanes(self) -> int:
        return lanes_of(self.target, self.dtype)

    @property
    def vectors(self) -> int:
        """The number of vectors in a row of C; the last one may not be full."""
        return -(-self.n // self.lanes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of C."""
        return (*self.lead, self.m, self.n)

    @property
    def itemsize(self) -> int:
        return nbytes(self.dtype)

    @property
    def flop(self) -> int:
        """The number of additions and multiplications."""
        return 2 * math.prod(self.shape) * self.k

    @property
    def is_narrow(self) -> bool:
        """True if the columns are too few to fill vectors, and the reduction is long enough for it."""
        return self.n <= _COLUMNS and self.k >= 4 * self.lanes

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """The shape in which the kernel gets B."""
        if not self.packed:
            return (*self.lead, self.k, self.n)
        if self.is_narrow:
            return (*self.lead, self.n, self.k)
        return (*self.lead, self.vectors, self.k, self.lanes)

    def weights(self, b: Tensor) -> Tensor:
        """The operand B as the kernel gets it."""
        return te.placeholder(self.weight_shape, name="B_packed", dtype=self.dtype) if self.packed else b


def unpacked(p: Product, b: Tensor) -> Tensor:
    """The operand B (..., k, n), made ahead of time from the form that the kernel gets."""
    if not p.packed:
        return b
    shape, ahead = (*p.lead, p.k, p.n), {AHEAD: True}
    if p.is_narrow:
        return te.compute(shape, lambda *at: b(*at[:-2], at[-1], at[-2]), name="B", attrs=ahead)
    whole = te.compute(
        (*p.lead, p.k, p.vectors * p.lanes),
        lambda *at: b(*at[:-2], at[-1] // p.lanes, at[-2], at[-1] % p.lanes),
        name="B_padded",
        attrs=ahead,
    )
    return te.compute(shape, lambda *at: whole(*at), name="B", attrs=ahead)


def plain(p: Product, a: Tensor, b: Tensor) -> Tensor:
    """The result C without the layouts of a schedule."""
    k = te.reduce_axis((0, p.k), name="k")
    return te.compute(p.shape, lambda *at: te.sum(a(*at[:-1], k) * b(*at[:-2], k, at[-1]), axis=k), name="C")


def product_of(a: Tensor, b: Tensor, weights: str, target: Target) -> Product:
    """Return the product of A (..., m, k) and B (..., k, n) with B "plain" or "packed".

    Raises:
        TemplateError: `weights` has another value.
    """
    if weights not in WEIGHTS:
        raise TemplateError(f"weights={weights!r}: B is given as one of {', '.join(map(repr, WEIGHTS))}")
    *lead, m, k = a.shape
    return Product(tuple(lead), m, k, b.shape[-1], a.dtype, weights == "packed", target)
