"""Droplet search: steps by coordinates, a test before each move, another descent after a local optimum."""

from typing import Any

import numpy as np
import pytest
import scipy.stats

from pegbox.errors import ArgumentError
from pegbox.measure.result import Ok
from pegbox.search import SearchOptions, make_tuner, run
from pegbox.search.testing import ArtificialMeasurer, constrained_space, matmul_space, result_of, small_space
from pegbox.space import ConfigSpace, ListedSpace
from pegbox.tuners.droplet import DropletTuner, Measurement, Steps, faster, welch


def valley() -> ConfigSpace:
    space = ConfigSpace()
    for name in ("x", "y", "z"):
        space.define_knob(name, list(range(16)))
    return space


def depth(config: Any) -> float:
    return 1e-3 * (1.0 + abs(config["x"].val - 11) + abs(config["y"].val - 3) + abs(config["z"].val - 9))


def test_goes_straight_down_a_valley() -> None:
    result = run(DropletTuner(valley(), seed=1), ArtificialMeasurer(depth), SearchOptions(trials=150), space=valley())
    assert result.best is not None
    assert [result.best.config[name].val for name in ("x", "y", "z")] == [11, 3, 9]


def test_beats_random_search_at_equal_trials() -> None:
    best = {
        spec: np.median(
            [
                min(
                    run(make_tuner(spec, space, seed=seed), ArtificialMeasurer(), SearchOptions(trials=96)).best_costs()
                )
                for seed in range(9)
                for space in [constrained_space()]
            ]
        )
        for spec in ("droplet", "random")
    }
    assert best["droplet"] < best["random"]


def test_numbers_step_up_and_down_in_their_order_and_words_to_any_other() -> None:
    space = ConfigSpace()
    space.define_knob("n", [64, 8, 32, 16])
    space.define_knob("word", ["a", "b", "c"])
    row = np.array(space.config((2, 0)).digits)
    found = {tuple(row) for row in Steps(space).line(row, np.random.default_rng(0)).tolist()}
    assert found == {(0, 0), (3, 0), (2, 1), (2, 2)}


def test_looks_ahead_in_the_direction_that_helped() -> None:
    steps = Steps(valley())
    ahead = steps.ahead(np.array([4, 7, 7]), np.array([5, 7, 7]), 3)
    assert ahead.tolist() == [[6, 7, 7], [7, 7, 7], [8, 7, 7]]
    assert steps.ahead(np.array([14, 7, 7]), np.array([15, 7, 7]), 3).tolist() == []


@pytest.mark.parametrize("space", [constrained_space(), small_space(), matmul_space()])
def test_steps_stay_inside_the_space(space: ConfigSpace) -> None:
    rng = np.random.default_rng(0)
    steps = Steps(space)
    for row in space.sample(20, rng):
        for found in (steps.line(row, rng), steps.plane(row, 12, rng)):
            assert len(found)
            assert space.is_valid(found).all()
            assert (space.canonical(found) == found).all()


def test_where_steps_leave_the_list_the_closest_of_it_are_tried() -> None:
    whole, rng = constrained_space(), np.random.default_rng(0)
    space = ListedSpace(whole, whole.sample(200, rng))
    found = Steps(space).line(space.rows[0], rng)
    assert len(found) >= 4
    assert space.is_valid(found).all()


def test_the_test_is_that_of_scipy() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        one, other = rng.normal(0.0, 1.0, 7), rng.normal(0.3, 2.0, 11)
        expected = scipy.stats.ttest_ind(one, other, equal_var=False, alternative="less").pvalue
        assert welch(one, other) == pytest.approx(expected)
    assert welch(np.zeros(3), np.ones(3)) == 0.0
    assert welch(np.zeros(3), np.zeros(3)) == 1.0


def measured(*costs: float) -> Measurement:
    return Measurement(np.zeros(1, dtype=np.int64), float(np.median(costs)), costs)


def test_what_may_be_chance_is_no_step() -> None:
    noisy, slightly, clearly = measured(1.0, 1.4, 0.8, 1.2), measured(0.99, 1.38, 0.8, 1.1), measured(0.4, 0.42, 0.41)
    assert not faster(slightly, noisy, 0.05)
    assert faster(slightly, noisy, 1.0)
    assert faster(clearly, noisy, 0.05)
    assert not faster(noisy, clearly, 1.0)
    assert faster(measured(0.99), measured(1.0), 0.05), "without repeats there is nothing to test"


def test_moves_only_to_what_is_significantly_faster() -> None:
    tuner = DropletTuner(valley(), seed=0, starts=1, reach=0)
    (start,) = tuner.ask(1)
    tuner.tell([start], [Ok((1.0, 1.2, 0.9, 1.1))])
    near = tuner.ask(2)
    tuner.tell(near, [Ok((0.99, 1.19, 0.9, 1.1)), Ok((0.97, 1.2, 0.9, 1.1))])
    (further,) = tuner.ask(1)
    assert np.abs(np.array(further.digits) - np.array(start.digits)).sum() == 1
    tuner.tell([further], [Ok((0.5, 0.51, 0.52))])
    distances = [np.abs(np.array(config.digits) - np.array(further.digits)).sum() for config in tuner.ask(4)]
    assert distances == [1, 1, 1, 1]


def test_history_is_where_it_starts() -> None:
    space = valley()
    tuner = DropletTuner(space, starts=2)
    tuner.tell([space.config((0, 0, 0)), space.config((11, 3, 8))], [result_of(1.0), result_of(1e-3)])
    assert all(np.abs(np.array(config.digits) - (11, 3, 8)).sum() == 1 for config in tuner.ask(6))


@pytest.mark.parametrize("options", [{"pvalue": 1.5}, {"starts": 0}, {"reach": -1}, {"plane": -1}])
def test_bad_options_are_shown(options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(ArgumentError, match=f"{name}={value}"):
        DropletTuner(valley(), **options)
