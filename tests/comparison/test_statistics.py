"""The statistics of comparisons against brute force and SciPy, with ties, infinities and tiny samples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from pegbox.comparison.statistics import (
    EXACT_LIMIT,
    holm,
    mann_whitney,
    median,
    median_interval,
    quantile,
    smallest_p,
    superiority,
)

INF = math.inf
COSTS = st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0, INF])  # few values: ties are the rule
SAMPLES = st.lists(COSTS, min_size=1, max_size=5)


def brute_force(first: list[float], second: list[float]) -> float:
    """Deal the midranks in every way there is."""
    both = [*first, *second]
    ranks = [sum(b < a for b in both) + (sum(b == a for b in both) + 1) / 2 for a in both]
    centre = len(first) * (len(both) + 1) / 2
    seen = abs(sum(ranks[: len(first)]) - centre)
    ways = [abs(sum(dealt) - centre) >= seen - 1e-9 for dealt in itertools.combinations(ranks, len(first))]
    return sum(ways) / len(ways)


@settings(max_examples=50)
@given(SAMPLES, SAMPLES)
def test_p_is_the_share_of_all_ways_to_deal_the_ranks(first: list[float], second: list[float]) -> None:
    assert mann_whitney(first, second) == pytest.approx(brute_force(first, second))


@settings(max_examples=50)
@given(st.permutations(range(20)), st.integers(1, 19))
def test_p_is_scipys_exact_one_where_nothing_ties(values: list[int], cut: int) -> None:
    first, second = [float(v) for v in values[:cut]], [float(v) for v in values[cut:]]
    expected = mannwhitneyu(first, second, alternative="two-sided", method="exact").pvalue
    assert mann_whitney(first, second) == pytest.approx(expected)


@settings(max_examples=50)
@given(SAMPLES, SAMPLES)
def test_p_does_not_depend_on_who_comes_first_nor_on_the_unit(first: list[float], second: list[float]) -> None:
    p = mann_whitney(first, second)
    assert mann_whitney(second, first) == pytest.approx(p)
    assert mann_whitney([1e-6 * v for v in first], [1e-6 * v for v in second]) == pytest.approx(p)
    assert 0 < p <= 1


@pytest.mark.parametrize("count", [1, 4, EXACT_LIMIT])
@pytest.mark.parametrize("value", [1.0, INF])
def test_equal_values_differ_in_nothing(count: int, value: float) -> None:
    assert mann_whitney([value] * count, [value] * count) == 1.0


def test_larger_samples_agree_with_the_exact_distribution_and_may_hold_infinities() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.0, 1.0, 32).tolist(), rng.normal(0.2, 1.0, 32).tolist()
    exact = mannwhitneyu(first, second, alternative="two-sided", method="exact").pvalue
    assert mann_whitney(first, second) == pytest.approx(exact, rel=0.1)
    censored = [value if value < 0.5 else INF for value in second]
    assert 0 < mann_whitney(first, censored) < 0.05


@given(st.integers(1, 7), st.integers(1, 7))
def test_the_smallest_p_is_that_of_samples_that_do_not_overlap(first: int, second: int) -> None:
    apart = mann_whitney([1.0 + i for i in range(first)], [100.0 + i for i in range(second)])
    assert apart == pytest.approx(smallest_p(first, second))


@given(SAMPLES, SAMPLES)
def test_superiority_is_shared_between_the_two(first: list[float], second: list[float]) -> None:
    assert superiority(first, second) + superiority(second, first) == pytest.approx(1.0)


def test_superiority_of_known_samples() -> None:
    assert superiority([1.0, 2.0], [3.0, INF]) == 1.0
    assert superiority([INF], [INF]) == 0.5
    assert superiority([1.0, 3.0], [2.0, 2.0]) == 0.5


@given(st.lists(COSTS, min_size=1, max_size=9))
def test_medians_are_numpys_and_bear_infinities(values: list[float]) -> None:
    assert median(values) == float(np.median(values))


@settings(max_examples=25)
@given(st.lists(COSTS, min_size=1, max_size=8))
def test_the_interval_of_a_median_holds_it_and_lies_within_the_values(values: list[float]) -> None:
    low, high = median_interval(values)
    assert min(values) <= low <= median(values) <= high <= max(values)
    assert (low, high) == median_interval(values[::-1])


def test_the_interval_of_a_median_narrows_with_more_seeds() -> None:
    values = list(range(1, 6))
    few, many = median_interval(values), median_interval(values * 8)
    assert many[1] - many[0] < few[1] - few[0]
    # 95% of 10,000 resamples of 1..5 have their median between 1 and 5 only: five values allow no more.
    assert few == (1.0, 5.0)


@given(st.lists(COSTS, min_size=1, max_size=9), st.floats(0.01, 1.0))
def test_a_quantile_is_one_of_the_values(values: list[float], q: float) -> None:
    found = quantile(values, q)
    assert found in values
    assert sum(value <= found for value in values) >= q * len(values) - 1e-9


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8))
def test_holm_raises_p_values_keeps_their_order_and_is_no_stricter_than_bonferroni(ps: list[float]) -> None:
    corrected = holm(ps)
    for p, q in zip(ps, corrected, strict=True):
        assert p <= q <= min(1.0, p * len(ps))
    order = sorted(range(len(ps)), key=ps.__getitem__)
    assert [corrected[place] for place in order] == sorted(corrected)


def test_holm_on_the_numbers_of_a_textbook() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
