"""The matrices of F(m, r): exact, and of small errors."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pegbox.templates.cook_toom import Matrix, Transforms, error_estimate, transforms

SIZES = list(itertools.product((2, 3, 4, 6), (3, 5)))


def times(matrix: Matrix, vector: list[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


@pytest.mark.parametrize(("m", "r"), SIZES)
def test_they_give_the_direct_sum_exactly(m: int, r: int) -> None:
    t = transforms(m, r)
    data = [Fraction(7 * i % 11 - 5) for i in range(t.size)]
    filters = [Fraction(5 * i % 7 - 3) for i in range(r)]
    products = [a * b for a, b in zip(times(t.filters, filters), times(t.data, data), strict=True)]
    assert times(t.outputs, products) == [sum(data[i + k] * filters[k] for k in range(r)) for i in range(m)]


def test_f_2_3_is_that_of_lavin_and_gray_up_to_signs() -> None:
    t = transforms(2, 3)
    half = Fraction(1, 2)
    assert [[abs(entry) for entry in row] for row in t.filters] == [[1, 0, 0], [half] * 3, [half] * 3, [0, 0, 1]]
    assert [[abs(entry) for entry in row] for row in t.data] == [[1, 0, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 0, 1]]
    assert t.outputs == ((1, 1, 1, 0), (0, 1, -1, 1))


def test_the_points_are_better_than_the_usual_ones() -> None:
    usual = Transforms(4, 3, tuple(map(Fraction, (0, 1, -1, 2, -2))))
    assert transforms(4, 3).amplification < usual.amplification / 2


@pytest.mark.parametrize(("m", "r"), SIZES)
def test_the_estimate_is_near_the_error(m: int, r: int) -> None:
    t, rng = transforms(m, r), np.random.default_rng(0)
    data, filters = rng.standard_normal((20, 64, t.size, t.size)), rng.standard_normal((64, r, r))
    expected = sum(
        np.einsum("tcyx,c->tyx", data.astype("f4").astype("f8")[:, :, i : i + m, j : j + m],
                  filters.astype("f4").astype("f8")[:, i, j])
        for i in range(r) for j in range(r)
    )  # fmt: skip
    outputs, inputs, taps = (np.array(matrix, "f8") for matrix in (t.outputs, t.data, t.filters))
    small = [matrix.astype("f4") for matrix in (outputs, inputs)]
    transformed = (taps @ filters.astype("f4").astype("f8") @ taps.T).astype("f4")
    products = np.zeros((20, t.size, t.size), "f4")
    for channel in range(64):
        products += small[1] @ data[:, channel].astype("f4") @ small[1].T * transformed[channel]
    error = np.sqrt(np.mean((small[0] @ products @ small[0].T - expected) ** 2) / np.mean(expected**2))
    assert error_estimate(m, r, "float32") / 2 < error < error_estimate(m, r, "float32") * 2
    assert error_estimate(m, r, "float64") < error_estimate(m, r, "float32") * 1e-8
