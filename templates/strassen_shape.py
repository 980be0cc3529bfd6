"""`Strassen`: a matrix product in halves, the multiplied sums of the halves, and their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pegbox.errors import TemplateError
from pegbox.expr import EPSILON
from pegbox.templates.bilinear_products import BilinearProducts
from pegbox.templates.cook_toom import Matrix
from pegbox.templates.matmul_arguments import Product


def _matrix(*rows: tuple[int, ...]) -> Matrix:
    return tuple(tuple(map(Fraction, row)) for row in rows)


LEFT = _matrix(
    (1, 0, 0, 1), (0, 0, 1, 1), (1, 0, 0, 0), (0, 0, 0, 1), (1, 1, 0, 0), (-1, 0, 1, 0), (0, 1, 0, -1)
)  # fmt: skip
"""The sums of the quarters A11, A12, A21 and A22 that are multiplied."""
RIGHT = _matrix(
    (1, 0, 0, 1), (1, 0, 0, 0), (0, 1, 0, -1), (-1, 0, 1, 0), (0, 0, 0, 1), (1, 1, 0, 0), (0, 0, 1, 1)
)  # fmt: skip
"""The sums of the quarters of B by which they are multiplied."""
OUT = _matrix((1, 0, 0, 1, -1, 0, 1), (0, 0, 1, 0, 1, 0, 0), (0, 1, 0, 1, 0, 0, 0), (1, -1, 1, 0, 0, 1, 0))
"""The sums of products that are C11, C12, C21 and C22."""

_BLOCKS = (16, 24, 32, 48, 64, 96, 128, 192, 256)
"""The pairs of rows in a block that are worth trying."""
_SUMS = 4.0
"""The cycles that a vector of a sum of A takes, and a vector of a product that is added to C."""
_OF_ROUNDOFF = 0.3
"""The error of a sum of K products in units of roundoff × √K, as measured with random data for K from 128 to 1,024."""


@dataclass(frozen=True)
class Strassen:
    """A product in halves: pairs of neighbouring rows, both halves of the reduction, and pairs of vectors of columns.

    The second member of a pair may be outside the matrix; it is then 0.
    """

    product: Product

    @property
    def rows(self) -> int:
        """The number of pairs of rows of A."""
        return -(-self.product.m // 2)

    @property
    def k(self) -> int:
        """The length of a half of the reduction."""
        return -(-self.product.k // 2)

    @property
    def vectors(self) -> int:
        """The number of pairs of vectors of columns of B."""
        return -(-self.product.vectors // 2)

    @property
    def products(self) -> BilinearProducts:
        """The products of sums."""
        p = self.product
        return BilinearProducts(len(LEFT), self.rows, self.k, self.vectors, p.lanes, p.dtype, p.target, blocks=_BLOCKS)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """The shape of packed weights: [sum][pair of vectors][k][column]; behind the last k are the columns' scales."""
        return len(RIGHT), self.vectors, self.k + 1, self.product.lanes

    @property
    def cycles(self) -> float:
        """Estimate the cycles of a call: products and sums, or the weights from the last cache if these take longer."""
        vectors = self.rows * (-(-self.k // self.product.lanes) + self.vectors)
        products = self.products
        return max(products.cycles + len(LEFT) * vectors * _SUMS, products.weight_cycles)

    @property
    def error(self) -> float:
        """Estimate the root mean square of the errors, relative to that of the outputs."""
        return _OF_ROUNDOFF * EPSILON[self.product.dtype] / 2 * math.sqrt(self.k) * amplification()

    def check(self, accuracy: float | None) -> None:
        """Refuse types that the algorithm does not support, and accuracies below its errors.

        Raises:
            TemplateError: another type than float32 and float64, or a smaller accuracy than the error.
        """
        if self.product.dtype not in ("float32", "float64"):
            raise TemplateError(
                f"matmul_strassen: dtype={self.product.dtype!r}: its sums need float32 or float64; use matmul"
            )
        if accuracy is not None and self.error > accuracy:
            raise TemplateError(
                f"matmul_strassen: accuracy={accuracy:g}: its errors are about {self.error:.1g}; give a larger "
                "accuracy, use float64, or use the template matmul, which is more accurate"
            )


def amplification() -> float:
    """Return the root mean square of the terms of an element of C, relative to that of the direct sum."""
    powers = [_square(left) * _square(right) for left, right in zip(LEFT, RIGHT, strict=True)]
    sums = [sum(entry * entry * power for entry, power in zip(row, powers, strict=True)) for row in OUT]
    return math.sqrt(sum(sums) / len(OUT) / 2)


def _square(row: tuple[Fraction, ...]) -> Fraction:
    return sum((entry * entry for entry in row), Fraction(0))
