"""The Bayesian signed-rank test: values that follow from its definition, and Wilcoxon's test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wilcoxon

from pegbox.comparison.aggregate.signed_ranks import PRIOR, signed_ranks


def test_one_that_is_better_everywhere_is_the_better_one() -> None:
    found = signed_ranks([0.5] * 12, [0.2] * 12)
    assert found.better > 0.99
    assert sum(found) == pytest.approx(1.0)


def test_exchanging_the_two_exchanges_the_probabilities() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.random(15).tolist(), rng.random(15).tolist()
    there, back = signed_ranks(one, other), signed_ranks(other, one)
    assert (there.better, there.alike, there.worse) == pytest.approx((back.worse, back.alike, back.better), abs=1e-12)


def test_differences_that_do_not_matter_make_two_alike() -> None:
    base = np.linspace(0.1, 0.9, 20)
    assert signed_ranks((base + 0.004).tolist(), base.tolist()).alike > 0.99
    assert signed_ranks((base + 0.004).tolist(), base.tolist(), alike=0.001).better > 0.99


def test_a_single_space_is_weighed_against_the_prior() -> None:
    # The share of the pairs with a large sum is 1 - w0^2, w0 ~ Beta(prior, 1): it is the largest if w0 < sqrt(0.5).
    found = signed_ranks([1.0], [0.0])
    assert found.better == pytest.approx(0.5 ** (PRIOR / 2), abs=0.02)


def test_without_spaces_they_are_alike() -> None:
    assert signed_ranks([], []) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize("shift", [-0.1, -0.03, 0.0, 0.03, 0.1])
def test_it_agrees_with_wilcoxons_test(shift: float) -> None:
    differences = np.random.default_rng(4).normal(shift, 0.1, 25)
    found = signed_ranks(differences.tolist(), [0.0] * 25, alike=0.0)
    p = wilcoxon(differences, alternative="greater").pvalue
    assert found.better == pytest.approx(1.0 - p, abs=0.06)
