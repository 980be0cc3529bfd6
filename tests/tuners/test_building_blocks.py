"""The parts of tuners: memory, annealing, varied batches."""

import warnings

import numpy as np
import pytest

from pegbox.errors import ArgumentError
from pegbox.search.protocols import Floats
from pegbox.search.testing import constrained_space, matmul_space, small_space
from pegbox.space import ConfigSpace
from pegbox.tuners.plan_tuner import pick_diverse
from pegbox.tuners.rows import Digits
from pegbox.tuners.visited_set import VisitedSet
from pegbox.tuners.xgb import Annealing

# --- memory -----------------------------------------------------------------------------------------------------------


def test_fresh_leaves_out_what_is_known_and_what_repeats() -> None:
    visited = VisitedSet(matmul_space())
    rows = matmul_space().sample(6, np.random.default_rng(0))
    visited.add(rows[:2])
    places = visited.fresh(rows[[0, 3, 3, 1, 5, 4]])
    assert places.tolist() == [1, 4, 5]
    assert visited.fresh(rows[[0, 3, 3, 1, 5, 4]], limit=2).tolist() == [1, 4]


def test_sampling_finds_the_last_configurations_and_then_none() -> None:
    space = small_space()
    visited, rng = VisitedSet(space), np.random.default_rng(0)
    found = [len(visited.configs(visited.sample(10, rng))) for _ in range(6)]
    assert found == [10, 10, 10, 10, 4, 0]
    assert all(config in visited for config in space.iterate())


def test_spaces_beyond_64_bits_are_remembered_exactly() -> None:
    space = ConfigSpace()
    for place in range(80):
        space.define_knob(f"k{place}", [0, 1])
    assert space.size == 2**80
    visited = VisitedSet(space)
    config = space.get(2**79)
    visited.add(np.array([config.digits]))
    assert config in visited
    assert space.get(0) not in visited


# --- annealing --------------------------------------------------------------------------------------------------------


def test_annealing_climbs_to_the_maximum() -> None:
    space, rng = matmul_space(), np.random.default_rng(1)
    spread = space.encode(space.sample(500, rng)).std(axis=0)
    goal = space.encode(space.sample(1, rng))

    def closeness(rows: Digits) -> Floats:
        distances: Floats = np.abs((space.encode(rows) - goal) / spread).sum(axis=1).astype(np.float64)
        return -distances

    visited = Annealing(steps=80).maximise(closeness, space.sample(64, rng), space, rng)
    assert visited.scores.max() == 0.0
    assert visited.rows.shape == (64 * 81, len(space.knobs))
    assert len(visited.scores) == len(visited.rows)


def test_annealing_stays_inside_the_constraints() -> None:
    space, rng = constrained_space(), np.random.default_rng(1)
    visited = Annealing(steps=10).maximise(lambda rows: rows.sum(axis=1) * 1.0, space.sample(32, rng), space, rng)
    assert space.is_valid(visited.rows).all()


def test_without_temperature_no_chain_ever_goes_down() -> None:
    space, rng = matmul_space(), np.random.default_rng(2)

    def score(rows: Digits) -> Floats:
        scores: Floats = -rows.sum(axis=1).astype(np.float64)
        return scores

    starts = space.sample(16, rng)
    cold = Annealing(steps=30, temperature=0.0).maximise(score, starts, space, rng)
    assert (score(cold.ends) >= score(starts)).all()
    hot = Annealing(steps=1, temperature=1e9).maximise(score, starts, space, rng)
    assert (score(hot.ends) < score(starts)).any()


def test_annealing_checks_its_settings() -> None:
    with pytest.raises(ArgumentError, match="sa_steps=-1"):
        Annealing(steps=-1)
    with pytest.raises(ArgumentError, match="sa_temperature"):
        Annealing(temperature=-0.5)


# --- batches ----------------------------------------------------------------------------------------------------------


def test_without_weight_the_best_are_picked_in_order() -> None:
    rows = np.arange(10).reshape(5, 2)
    assert pick_diverse(rows, np.array([1.0, 5.0, 3.0, 4.0, 2.0]), 3, weight=0.0).tolist() == [1, 3, 2]


def test_with_weight_duplicates_of_the_best_make_room() -> None:
    rows = np.array([[0, 0, 0], [0, 0, 1], [5, 5, 5], [9, 9, 9]])
    scores = np.array([1.0, 0.99, 0.9, 0.0])
    assert pick_diverse(rows, scores, 2, weight=1.0).tolist() == [0, 2]


def test_no_row_is_picked_twice_and_short_lists_are_used_up() -> None:
    rows = np.zeros((3, 2), dtype=np.int64)
    assert sorted(pick_diverse(rows, np.zeros(3), 10, weight=1.0).tolist()) == [0, 1, 2]
    assert pick_diverse(rows[:0], np.zeros(0), 4, weight=1.0).tolist() == []


def test_the_only_configuration_of_a_space_without_knobs_is_picked() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pick_diverse(np.zeros((1, 0), dtype=np.int64), np.zeros(1), 4, weight=1.0).tolist() == [0]
