"""Half ranks: the slower half of the targets counts by rank, the faster one by distance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegbox.tuners.surrogates.half_ranks import half_ranked

TARGETS = np.array([-3.0, -2.5, -1.0, 0.0, 1.0, 2.0, 4.0])


def test_the_faster_half_keeps_its_proportions() -> None:
    steps = np.diff(half_ranked(TARGETS))[:3]
    assert steps / steps[0] == pytest.approx(np.diff(TARGETS)[:3] / 0.5)


def test_distances_within_the_slower_half_do_not_count() -> None:
    farther = np.where(TARGETS > 0, 100.0 * TARGETS, TARGETS)
    assert half_ranked(farther) == pytest.approx(half_ranked(TARGETS))
    faster = np.where(TARGETS < 0, TARGETS - TARGETS**2, TARGETS)
    assert half_ranked(faster) != pytest.approx(half_ranked(TARGETS))


def test_the_slower_half_is_spread_as_half_of_a_normal_distribution() -> None:
    normal = np.sort(np.random.default_rng(0).normal(size=4001))
    found = half_ranked(np.where(normal > 0, normal**3, normal))
    assert found[20:-20] == pytest.approx(normal[20:-20], abs=0.1)


@given(st.lists(st.floats(-5.0, 5.0).map(lambda value: round(value, 3)), max_size=30))
def test_the_order_stays_and_equal_targets_stay_equal(values: list[float]) -> None:
    targets = np.array(values)
    found = half_ranked(targets)
    assert np.isfinite(found).all()
    for one, other in zip(*np.nonzero(targets[:, None] <= targets[None, :]), strict=True):
        assert found[one] <= found[other]
        assert (found[one] == found[other]) == (targets[one] == targets[other])


@pytest.mark.parametrize("values", [[], [0.0], [0.0, 0.0, 0.0], [-1.0, -1.0, -1.0, 3.0]])
def test_where_the_faster_half_is_equal_nothing_changes(values: list[float]) -> None:
    assert half_ranked(np.array(values)).tolist() == values
