"""The quality of a model, against scipy's measures of rank correlation."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pegbox.errors import ArgumentError
from pegbox.search import ModelJudge, ModelReport
from pegbox.search.models.report import pairs_in_order

Columns = tuple[list[float], list[float]]


def columns(values: st.SearchStrategy[float]) -> st.SearchStrategy[Columns]:
    rows = st.lists(st.tuples(values, values), min_size=2, max_size=30)
    return rows.map(lambda found: ([row[0] for row in found], [row[1] for row in found]))


def floats(*values: float) -> Any:
    return np.array(values, dtype=np.float64)


@given(st.permutations(range(12)), st.permutations(range(12)))
def test_without_ties_the_correlation_is_kendalls_tau(scores: list[int], costs: list[int]) -> None:
    judge = ModelJudge()
    judge.add(scores, costs)
    report = judge.report()
    assert report is not None
    assert (report.trials, report.pairs) == (12, 66)
    assert report.rank_correlation == pytest.approx(stats.kendalltau(scores, [-cost for cost in costs]).statistic)


@given(columns(st.integers(0, 4).map(float)))
def test_with_ties_it_is_somers_d(drawn: Columns) -> None:
    scores, costs = drawn
    right, pairs = pairs_in_order(np.array(scores), np.array(costs))
    assert pairs == sum(a != b for i, a in enumerate(costs) for b in costs[:i])
    if pairs and len(set(scores)) > 1:  # scipy gives NaN for equal scores
        expected = stats.somersd(costs, [-score for score in scores]).statistic
        assert 2 * right / pairs - 1 == pytest.approx(expected)


@given(columns(st.sampled_from([0.0, 1.0, 2.0, math.inf, math.nan])))
def test_swapping_two_trials_changes_nothing_and_turning_the_scores_turns_the_order(drawn: Columns) -> None:
    scores, costs = np.array(drawn[0]), np.array(drawn[1])
    right, pairs = pairs_in_order(scores, costs)
    assert pairs_in_order(scores[::-1], costs[::-1]) == (right, pairs)
    assert pairs_in_order(-scores, costs) == (pairs - right, pairs)


def test_failures_are_slower_than_everything_and_equal_to_each_other() -> None:
    assert pairs_in_order(floats(3, 2, 1), floats(1e-3, math.inf, math.inf)) == (2.0, 2)


def test_scores_that_are_no_numbers_are_guesses() -> None:
    assert pairs_in_order(floats(math.nan, math.nan), floats(1, 2)) == (0.5, 1)
    assert pairs_in_order(floats(-math.inf, -math.inf), floats(1, 2)) == (0.5, 1)


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_for_a_pair(n: int) -> None:
    assert pairs_in_order(np.zeros(n), np.zeros(n)) == (0.0, 0)


def test_a_judge_compares_within_batches_only() -> None:
    judge = ModelJudge()
    assert judge.report() is None
    judge.add([2, 1], [1, 2])  # in order
    judge.add([9, 8], [8, 9])  # in order; against the first batch it would not be
    judge.add([5], [5])  # a batch of one has no pair
    assert judge.report() == ModelReport(trials=5, pairs=2, pairwise_accuracy=1.0)


def test_a_report_without_pairs_says_so() -> None:
    judge = ModelJudge()
    judge.add([1], [1])
    report = judge.report()
    assert report is not None
    assert math.isnan(report.pairwise_accuracy)
    assert str(report) == "model: 1 trials scored, no two of them comparable yet"


def test_a_report_says_how_many_pairs_are_in_order() -> None:
    assert str(ModelReport(3, 3, 2 / 3)) == "model: 67% of 3 unseen pairs in order"


@pytest.mark.parametrize(("scores", "costs"), [([1, 2], [1]), ([1], [1, 2]), ([[1]], [[1]])])
def test_other_shapes_are_refused(scores: Any, costs: Any) -> None:
    judge = ModelJudge()
    with pytest.raises(ArgumentError, match="do not match costs of shape"):
        judge.add(scores, costs)
    assert judge.report() is None
