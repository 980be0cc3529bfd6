"""Ranks: the worked example of Demšar (2006), and scipy's tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from pegbox.comparison.aggregate.ranks import Ranking, cliques, ranking

# Table 6 of the paper: C4.5 with and without two parameters tuned, on 14 data sets. The paper ranks the values before
# it rounds them: the two of 0.975 are not a tie.
ACCURACY = [
    [0.763, 0.768, 0.771, 0.798],
    [0.599, 0.591, 0.590, 0.569],
    [0.954, 0.971, 0.968, 0.967],
    [0.628, 0.661, 0.654, 0.657],
    [0.882, 0.888, 0.886, 0.898],
    [0.936, 0.931, 0.916, 0.931],
    [0.661, 0.668, 0.609, 0.685],
    [0.583, 0.583, 0.563, 0.625],
    [0.775, 0.838, 0.866, 0.875],
    [1.000, 1.000, 1.000, 1.000],
    [0.940, 0.962, 0.965, 0.962],
    [0.619, 0.666, 0.614, 0.669],
    [0.972, 0.981, 0.97501, 0.975],
    [0.957, 0.978, 0.946, 0.970],
]
COSTS = [[-accuracy for accuracy in row] for row in ACCURACY]


def test_demsars_example() -> None:
    found = ranking(COSTS)
    assert found.ranks == pytest.approx((3.143, 2.000, 2.893, 1.964), abs=5e-4)
    assert found.chi_square == pytest.approx(9.28, abs=5e-3)
    assert found.f == pytest.approx(3.69, abs=5e-3)
    assert found.p < 0.05  # F(3, 39) is 2.85 at 0.05
    assert found.critical_difference == pytest.approx(2.569 * math.sqrt(4 * 5 / (6 * 14)), abs=1e-3)
    assert ranking(COSTS, level=0.1).critical_difference == pytest.approx(1.12, abs=5e-3)
    # At 0.10, as in the paper, the first is worse than the second and the fourth.
    loose = ranking(COSTS, level=0.1)
    assert [loose.differ(0, 1), loose.differ(0, 3), loose.differ(0, 2)] == [True, True, False]
    assert not found.differ(0, 1)


def test_friedmans_statistic_without_ties_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    values = rng.random((12, 5))
    found = ranking(values.tolist())
    assert found.chi_square == pytest.approx(friedmanchisquare(*values.T).statistic)


def test_tuners_that_are_alike_do_not_differ() -> None:
    found = ranking([[1.0, 1.0, 1.0]] * 6)
    assert found.ranks == (2.0, 2.0, 2.0)
    assert not found.differ(0, 1)


def test_perfect_agreement_is_significant() -> None:
    found = ranking([[1.0, 2.0, math.inf]] * 8)
    assert found.ranks == (1.0, 2.0, 3.0)
    assert found.f == math.inf
    assert found.differ(0, 2)


@pytest.mark.parametrize("values", [[[1.0, 2.0]], [[1.0], [2.0]]])
def test_one_space_or_one_tuner_has_no_test(values: list[list[float]]) -> None:
    assert math.isnan(ranking(values).p)


def test_cliques_are_the_longest_groups() -> None:
    assert cliques(Ranking((1.0, 1.8, 2.6, 4.0), 9, critical_difference=1.0)) == [(0, 1), (1, 2)]
    assert cliques(Ranking((1.0, 1.5, 1.9, 4.0), 9, critical_difference=1.0)) == [(0, 2)]
    assert cliques(Ranking((1.0, 3.0), 9, critical_difference=1.0)) == []
