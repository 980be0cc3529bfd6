"""The features of spaces, and random search's expectation against counting and drawing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from pegbox.comparison.landscape import expected_best, expected_trials, objective_landscape, recorded_landscape
from pegbox.comparison.statistics import rank_correlation
from pegbox.measure.result import Failed, FailureKind, Ok
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search.objective import Objective
from pegbox.space import ConfigSpace

FAILED = Failed(FailureKind.RUN_ERROR, "no")


@pytest.mark.parametrize("costs", [[1.0, 2.0, 5.0, 7.0, 7.0], [3.0, math.inf, 1.0, math.inf, 8.0], [2.0, 2.0, 2.0]])
def test_the_expected_best_is_the_mean_over_all_draws(costs: list[float]) -> None:
    slowest = max(cost for cost in costs if cost < math.inf)
    filled = [min(cost, slowest) for cost in costs]
    means = [
        float(np.mean([min(draw) for draw in itertools.combinations(filled, count)]))
        for count in range(1, len(costs) + 1)
    ]
    got = expected_best(np.array(costs), len(costs) + 2)
    assert got == pytest.approx([*means, means[-1], means[-1]])


def test_the_expected_trials_are_the_mean_over_all_orders() -> None:
    costs = [4.0, 1.0, 9.0, 1.5, math.inf]
    orders = list(itertools.permutations(costs))
    firsts = [next(place for place, cost in enumerate(order, 1) if cost <= 1.5) for order in orders]
    assert expected_trials(np.array(costs), 1.5) == pytest.approx(float(np.mean(firsts)))
    assert expected_trials(np.array(costs), 0.5) == math.inf


def test_the_rank_correlation_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 9, 50).astype(float), rng.random(50)
    assert rank_correlation(one, other) == pytest.approx(spearmanr(one, other).statistic)
    assert math.isnan(rank_correlation(one, np.ones(50)))


def grid() -> ConfigSpace:
    space = ConfigSpace()
    space.define_knob("x", range(12))
    space.define_knob("y", range(12))
    return space


def test_a_smooth_function_is_less_rugged_than_a_random_one() -> None:
    rng = np.random.default_rng(0)
    noise = {digits: 1.0 + rng.random() for digits in itertools.product(range(12), repeat=2)}
    smooth = objective_landscape(Objective(lambda c: 1.0 + c["x"].val + 12 * c["y"].val, grid(), pure=True), 5, None)
    rugged = objective_landscape(Objective(lambda c: noise[tuple(c.digits)], grid(), pure=True), 5, None)
    assert smooth.autocorrelation > 0.4
    assert abs(rugged.autocorrelation) < 0.3
    assert (smooth.knobs, smooth.optimum, smooth.sampled, len(smooth.random)) == (2, 1.0, False, 5)


def test_a_large_function_is_sampled_and_keeps_its_declared_optimum() -> None:
    space = ConfigSpace()
    for name in "abcdefgh":
        space.define_knob(name, range(10))
    landscape = objective_landscape(Objective(lambda c: 2.0 + sum(c.digits), space, pure=True), 3, 1.5)
    assert (landscape.sampled, landscape.optimum) == (True, 1.5)
    assert landscape.random_trials == math.inf
    assert landscape.random[0] == pytest.approx(2.0 + 36.0, rel=0.05)


def test_failures_and_seconds_of_a_recorded_space() -> None:
    space = grid()
    results = {
        config: FAILED if config["x"].val == 0 else Ok((1.0 + config.index,), total_seconds=2.0)
        for config in space.iterate()
    }
    landscape = recorded_landscape(RecordedSpace("grid", space, results), 2)
    assert landscape.failures == pytest.approx(1 / 12)
    assert landscape.seconds == pytest.approx(2.0 * 11 / 12)
