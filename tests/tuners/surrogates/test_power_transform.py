"""Costs of any size are transformed to finite targets in the same order."""

from __future__ import annotations

import numpy as np
import pytest

from pegbox.tuners.surrogates.power_transform import standardised_powers


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e160, 1e300])
def test_targets_do_not_depend_on_the_unit_of_costs(scale: float) -> None:
    costs = np.array([1.0, 2.0, 3.0, 7.0, 20.0, 100.0])
    assert standardised_powers(scale * costs) == pytest.approx(standardised_powers(costs), abs=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "costs",
    [
        [1.0, 2.0, 3.0, 1e200],
        [1.0, 2.0, 3.0, 1e308],
        [1e-300, 2e-300, 3e-300, 1e300],
        [5.0, 5.0, 5.0, 5.0, 1e308],
        [1.0, 1e100, 1e200, 1e300, np.inf],
    ],
)
def test_costs_of_all_magnitudes_have_finite_ordered_targets(costs: list[float]) -> None:
    targets = standardised_powers(np.array(costs))
    assert np.isfinite(targets).all()
    assert (np.diff(targets) >= 0).all()
    assert targets[0] < targets[-1]


@pytest.mark.parametrize("costs", [[], [3.0], [1e308, 1e308], [0.0, 0.0], [np.inf, np.inf], [2.0, np.inf]])
def test_equal_costs_have_equal_targets(costs: list[float]) -> None:
    assert standardised_powers(np.array(costs)).tolist() == [0.0] * len(costs)
