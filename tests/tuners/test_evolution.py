"""The evolutionary tuner: mutation moves factors, crossover inherits, plans follow the model but for a random share."""

import math
from typing import Any

import numpy as np
import pytest

from pegbox.errors import ArgumentError
from pegbox.search import make_tuner
from pegbox.search.testing import constrained_space, matmul_cost, matmul_space, result_of
from pegbox.space import ConfigSpace
from pegbox.space.split import SplitKnob
from pegbox.tuners.evolution import Evolution, EvolutionTuner, Mutation, factor_moves, selected


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def split_of(extent: int, **options: Any) -> SplitKnob:
    space = ConfigSpace()
    space.define_split("tile", extent, **options)
    knob = space.knobs["tile"]
    assert isinstance(knob, SplitKnob)
    return knob


def moves_from(knob: SplitKnob, *inner: int) -> set[tuple[int, ...]]:
    digit = knob.digits_by_key[inner]
    return {knob.entities[move].sizes[1:] for move in factor_moves(knob, digit)}


# --- mutation ---------------------------------------------------------------------------------------------------------


def test_a_factor_moves_from_one_level_to_another() -> None:
    knob = split_of(12, num_outputs=3)
    #       from the first level: 3          from the second: 2               from the last: 2
    assert moves_from(knob, 2, 2) == {(6, 2), (2, 6), (1, 2), (1, 4), (2, 1), (4, 1)}
    assert moves_from(knob, 1, 1) == {(2, 1), (3, 1), (4, 1), (6, 1), (12, 1), (1, 2), (1, 3), (1, 4), (1, 6), (1, 12)}


def test_every_move_keeps_the_extent() -> None:
    knob = split_of(360, num_outputs=4)
    for digit in range(0, len(knob), 7):
        before = knob.entities[digit].sizes[1:]
        before = (360 // math.prod(before), *before)
        assert factor_moves(knob, digit)
        for move in factor_moves(knob, digit):
            after = knob.entities[move].sizes[1:]
            after = (360 // math.prod(after), *after)
            changed = [level for level in range(4) if before[level] != after[level]]
            assert math.prod(after) == 360
            assert len(changed) == 2
            assert before[changed[0]] * before[changed[1]] == after[changed[0]] * after[changed[1]]


def test_splits_that_do_not_divide_gain_factors_too() -> None:
    assert moves_from(split_of(7, policy="power2", num_outputs=2), 1) == {(2,), (4,)}
    assert moves_from(split_of(100, policy="verbose", num_outputs=2), 32) == {(16,), (8,), (4,), (2,), (1,), (64,)}


def test_moves_stay_among_the_splits_of_the_knob() -> None:
    assert moves_from(split_of(64, num_outputs=2, max_factor=4), 4) == {(1,), (2,)}
    assert moves_from(split_of(64, policy="candidate", candidate=[[-1, 4], [-1, 5]]), 4) == set()


def test_a_list_is_mutated_by_its_length_and_a_range_no_more_often_than_a_bound() -> None:
    space = ConfigSpace()
    space.define_knob("list", range(3000))
    space.define_int("range", 0, 10**9)
    rows = space.sample(20_000, rng())
    moved = (Mutation(space)(rows, rng()) != rows).mean(axis=0)
    assert moved[0] == pytest.approx(math.log2(3000) / (math.log2(3000) + math.log2(1024)), abs=0.02)


def test_a_mutant_differs_in_one_knob_and_its_split_by_one_factor() -> None:
    space = matmul_space()
    rows = space.sample(300, rng())
    mutants = Mutation(space)(rows, rng())
    changed = mutants != rows
    assert (changed.sum(axis=1) == 1).all()
    assert changed.any(axis=0).all()
    for column, knob in enumerate(space.knobs.values()):
        if isinstance(knob, SplitKnob):
            for place in np.flatnonzero(changed[:, column]):
                assert mutants[place, column] in factor_moves(knob, int(rows[place, column]))


def test_the_more_values_a_knob_has_the_more_often_it_mutates() -> None:
    space = ConfigSpace()
    space.define_split("tile", 1024, num_outputs=3)
    space.define_knob("flag", [False, True])
    rows = space.sample(60, rng()).repeat(10, axis=0)
    often, seldom = (Mutation(space)(rows, rng()) != rows).mean(axis=0)
    assert 0.75 < often < 0.95
    assert 0.05 < seldom < 0.25


def conditional_space() -> ConfigSpace:
    space = constrained_space()
    space.define_knob("panel", [8, 16, 32], when={"pack_b": True})
    return space


def test_mutants_and_children_are_valid_and_canonical() -> None:
    space = conditional_space()
    rows = space.sample(400, rng())
    mutants = Mutation(space)(rows, rng())
    assert (mutants != rows).any(axis=1).all()
    found, scores = Evolution(space, generations=3, mutation=0.5).maximise(lambda r: r[:, 0] * 1.0, rows, rng())
    assert len(found) == len(scores) == 4 * len(rows)
    for made in (mutants, found):
        assert space.is_valid(made).all()
        assert (space.canonical(made) == made).all()


def test_a_knob_that_comes_to_exist_takes_any_of_its_values() -> None:
    space = ConfigSpace()
    space.define_knob("packed", [False, True])
    space.define_knob("panel", [8, 16, 32], when={"packed": True})
    mutants = Mutation(space)(np.zeros((200, 2), dtype=np.int64), rng())
    assert (mutants[:, 0] == 1).all()
    assert set(mutants[:, 1].tolist()) == {0, 1, 2}


# --- evolution --------------------------------------------------------------------------------------------------------


def test_children_take_every_knob_from_one_of_their_parents() -> None:
    space = matmul_space()
    rows = space.sample(6, rng())
    found, _ = Evolution(space, generations=1, mutation=0.0).maximise(lambda r: np.zeros(len(r)), rows, rng())
    children = found[6:]
    assert all(set(children[:, column]) <= set(rows[:, column]) for column in range(rows.shape[1]))
    assert not all(child.tolist() in rows.tolist() for child in children)


def test_parents_are_chosen_by_their_scores() -> None:
    scores = np.array([0.0, 0.0, 0.0, 3.0])
    counts = np.bincount(selected(scores, 4000, rng()), minlength=4)
    expected = np.exp(scores / scores.std())
    assert np.allclose(counts / 4000, expected / expected.sum(), atol=0.03)
    # Neither the unit nor the zero of the scores means anything.
    assert (selected(scores * 1e6 - 7e6, 50, rng()) == selected(scores, 50, rng())).all()
    assert len(set(selected(np.ones(4), 100, rng()).tolist())) == 4


def test_generations_find_more_than_the_same_number_at_random() -> None:
    space = constrained_space()

    def score(rows: Any) -> Any:
        return -np.log([min(matmul_cost(space.config(row)), 1.0) for row in rows.tolist()])

    evolved = score(Evolution(space, generations=6, mutation=0.85).maximise(score, space.sample(60, rng()), rng())[0])
    assert evolved.max() > score(space.sample(420, rng())).max()
    assert evolved[-60:].mean() > evolved[:60].mean()


# --- the tuner --------------------------------------------------------------------------------------------------------


class Columns:
    """A cost model that learns nothing and likes large features, the last ones most."""

    def fit(self, features: Any, costs: Any) -> None:
        pass

    def predict(self, features: Any) -> Any:
        return np.log2(1.0 + features.astype(np.float64)) @ np.arange(1.0, features.shape[1] + 1.0)


def plan_of(**options: Any) -> Any:
    """The first plan that the model makes, (40, knobs), after a warm-up."""
    tuner = EvolutionTuner(constrained_space(), seed=1, cost_model=Columns(), plan_size=40, num_warmup=8, **options)
    warm = tuner.ask(8)
    tuner.tell(warm, [result_of(matmul_cost(config)) for config in warm])
    return np.array([config.digits for config in tuner.ask(40)])


def scores_of(rows: Any) -> Any:
    return Columns().predict(constrained_space().encode(rows))


@pytest.mark.parametrize("epsilon", [0.0, 0.25, 1.0])
def test_a_share_of_a_plan_is_random(epsilon: float) -> None:
    usual = np.quantile(scores_of(constrained_space().sample(2000, rng())), 0.98)
    liked = int((scores_of(plan_of(epsilon=epsilon, diversity=0.0)) > usual).sum())
    assert abs(liked - 40 * (1.0 - epsilon)) <= 9


def test_generations_bring_what_the_model_likes_better() -> None:
    plans = [plan_of(epsilon=0.0, diversity=0.0, generations=generations) for generations in (0, 4)]
    assert scores_of(plans[1]).mean() > scores_of(plans[0]).mean()


def test_the_best_measured_are_among_the_first_generation() -> None:
    space = constrained_space()
    tuner = EvolutionTuner(space, cost_model=Columns(), num_warmup=8, population=20, measured=0.1, generations=0)
    told = [space.config(row) for row in space.sample(12, rng()).tolist()]
    costs = [math.inf, *(1e-3 * place for place in range(11, 0, -1))]
    tuner.tell(told, [result_of(cost) for cost in costs])
    tuner.ask(1)
    rows, _ = tuner.search()
    assert len(rows) == 20
    assert rows[:2].tolist() == [list(told[-1].digits), list(told[-2].digits)]


def test_most_random_members_stay_from_plan_to_plan() -> None:
    tuner = EvolutionTuner(constrained_space(), cost_model=Columns(), population=20, measured=0.0, generations=0)
    warm = tuner.ask(8)
    tuner.tell(warm, [result_of(1e-3)] * 8)
    tuner.ask(1)
    (before, _), (after, _) = tuner.search(), tuner.search()
    assert len(before) == len(after) == 20
    assert after[5:].tolist() == before[:15].tolist()
    assert not {*map(tuple, after[:5].tolist())} & {*map(tuple, before.tolist())}


def test_the_seed_decides_the_proposals() -> None:
    def proposed(seed: int) -> list[Any]:
        tuner = make_tuner("evolution", constrained_space(), seed=seed)
        found: list[Any] = []
        for _ in range(4):
            configs = tuner.ask(12)
            tuner.tell(configs, [result_of(matmul_cost(config)) for config in configs])
            found += configs
        return found

    assert proposed(3) == proposed(3)
    assert proposed(3) != proposed(4)


def test_beats_random_search_at_equal_trials() -> None:
    def best(name: str, seed: int) -> float:
        space = constrained_space()
        tuner = make_tuner(name, space, seed=seed)
        costs: list[float] = []
        while len(costs) < 96:
            configs = tuner.ask(8)
            measured = [matmul_cost(config) for config in configs]
            tuner.tell(configs, [result_of(cost) for cost in measured])
            costs += measured
        return min(costs)

    evolved, random = ([best(name, seed) for seed in range(8)] for name in ("evolution", "random"))
    assert np.median(evolved) < 0.97 * np.median(random)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"population": 1}, "population=1 .*>= 2"),
        ({"generations": -1}, "generations=-1"),
        ({"mutation": 1.5}, r"mutation=1\.5 .*from 0 to 1"),
        ({"measured": -0.5}, r"measured=-0\.5"),
        ({"epsilon": math.nan}, "epsilon=nan"),
        ({"plan_size": 0}, "plan_size=0"),
        ({"cost_model": "xgboost:max_depth=99"}, "max_depth=99 .*1 to 16"),
    ],
)
def test_a_bad_option_is_shown_with_what_is_valid(options: dict[str, Any], shown: str) -> None:
    with pytest.raises(ArgumentError, match=shown):
        make_tuner(EvolutionTuner.with_options(**options), matmul_space())
