"""The learning tuner: better than chance, deterministic, and strict about its options."""

import math
from typing import Any

import numpy as np
import pytest

from pegbox.errors import ArgumentError
from pegbox.search import SearchOptions, make_tuner, run
from pegbox.search.models.training import relative_speed
from pegbox.search.testing import ArtificialMeasurer, matmul_cost, matmul_space, result_of
from pegbox.space import Config
from pegbox.tuners.cost_models.xgboost import XGBoostCostModel
from pegbox.tuners.xgb import XGBTuner


def best_cost(spec: str, *, seed: int, trials: int) -> float:
    space = matmul_space()
    result = run(
        make_tuner(spec, space, seed=seed),
        ArtificialMeasurer(),
        SearchOptions(trials=trials, batch_size=8),
        space=space,
    )
    assert result.best is not None
    return result.best.cost


@pytest.mark.parametrize(("spec", "share"), [("xgb", 0.85), ("xgb:loss_type=reg", 0.95)])
def test_beats_random_search_at_equal_trials(spec: str, share: float) -> None:
    seeds = range(12)  # of four, two unlucky ones decide
    learned = [best_cost(spec, seed=seed, trials=64) for seed in seeds]
    random = [best_cost("random", seed=seed, trials=64) for seed in seeds]
    assert np.median(learned) < share * np.median(random)


def test_every_seed_gets_near_the_best_in_128_trials() -> None:
    space = matmul_space()
    sample = space.sample(20000, np.random.default_rng(99))
    best_of_many = min(matmul_cost(space.config(row)) for row in sample.tolist())
    for seed in range(2):
        assert best_cost("xgb", seed=seed, trials=128) < 1.15 * best_of_many


class Counting:
    """A cost model that knows the answer and counts how it is used."""

    def __init__(self, target: np.ndarray[Any, Any], spread: np.ndarray[Any, Any]) -> None:
        self.target, self.spread = target, spread
        self.fits: list[int] = []

    def fit(self, features: Any, costs: Any) -> None:
        assert len(features) == len(costs)
        assert features.dtype == np.float32
        self.fits.append(len(costs))

    def predict(self, features: Any) -> Any:
        return -np.abs((features - self.target) / self.spread).sum(axis=1).astype(np.float64)


def perfect_model() -> tuple[Config, Counting]:
    space = matmul_space()
    goal = space.config(space.sample(1, np.random.default_rng(3))[0].tolist())
    spread = space.encode(space.sample(500, np.random.default_rng(4))).std(axis=0)
    return goal, Counting(space.encode(np.array([goal.digits])), spread)


def test_finds_what_a_perfect_model_knows_in_the_first_plan() -> None:
    goal, model = perfect_model()
    tuner = XGBTuner(matmul_space(), seed=1, cost_model=model, epsilon=0.0, sa_steps=100)
    warm = tuner.ask(8)
    tuner.tell(warm, [result_of(1e-3 + 1e-4 * place) for place in range(8)])
    assert tuner.ask(8)[0] == goal


def test_the_model_is_fitted_once_a_plan_on_all_trials_so_far() -> None:
    _, model = perfect_model()
    tuner = XGBTuner(matmul_space(), plan_size=8, num_warmup=8, cost_model=model)
    for _ in range(8):
        configs = tuner.ask(4)
        assert len(configs) == 4
        tuner.tell(configs, [result_of(1e-3)] * 4)
    assert model.fits == [8, 16, 24]


def test_a_plan_is_larger_where_more_are_asked_for_and_enough_is_known() -> None:
    space = matmul_space()
    _, model = perfect_model()
    for known, planned in ((16, 12), (80, 20)):
        tuner = XGBTuner(space, cost_model=model)
        told = [space.config(row) for row in space.sample(known, np.random.default_rng(0)).tolist()]
        tuner.tell(told, [result_of(matmul_cost(config)) for config in told])
        assert len(tuner.ask(64)) == planned
    assert len(tuner.ask(12)) == 12


def test_history_takes_the_place_of_the_warmup() -> None:
    space = matmul_space()
    _, model = perfect_model()
    tuner = XGBTuner(space, cost_model=model)
    told = [space.config(row) for row in space.sample(8, np.random.default_rng(0)).tolist()]
    tuner.tell(told, [result_of(matmul_cost(config)) for config in told])
    tuner.ask(4)
    assert model.fits == [8]


def test_history_that_arrives_late_takes_configurations_out_of_the_plan() -> None:
    tuner = XGBTuner(matmul_space(), seed=5)
    planned = XGBTuner(matmul_space(), seed=5).ask(8)
    assert tuner.ask(2) == planned[:2]
    tuner.tell(planned[4:6], [result_of(1.0), result_of(2.0)])
    assert tuner.ask(8) == [*planned[2:4], *planned[6:]]


def test_a_share_of_a_plan_is_random() -> None:
    _, model = perfect_model()
    space = matmul_space()
    plans: dict[float, float] = {}
    for epsilon in (0.0, 1.0):
        tuner = XGBTuner(space, seed=1, plan_size=32, cost_model=model, epsilon=epsilon)
        warm = tuner.ask(8)
        tuner.tell(warm, [result_of(1e-3)] * len(warm))
        rows = np.array([config.digits for config in tuner.ask(32)])
        plans[epsilon] = float(model.predict(space.encode(rows)).mean())
    assert plans[1.0] < 2 * plans[0.0]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"plan_size": 0}, "plan_size=0"),
        ({"num_warmup": 1}, "num_warmup=1 .*>= 2"),
        ({"sa_chains": -1}, "sa_chains=-1"),
        ({"sa_steps": -1}, "sa_steps=-1"),
        ({"sa_temperature": math.nan}, "sa_temperature=nan"),
        ({"epsilon": 1.5}, r"epsilon=1\.5 .*from 0 to 1"),
        ({"diversity": -1.0}, r"diversity=-1\.0"),
        ({"transfer_weight": -1}, "transfer_weight=-1"),
        ({"features": "knob"}, "features='knob' .*'both', 'knobs', 'program'"),
        ({"features": "program"}, "features='program' .*use features='knobs'"),
        ({"loss_type": "rang"}, r"loss_type='rang' .*'rank', 'reg'"),
        ({"cost_model": "xgboost:max_depth=99"}, "max_depth=99 .*1 to 16"),
    ],
)
def test_a_bad_option_is_shown_with_what_is_valid(options: dict[str, Any], shown: str) -> None:
    with pytest.raises(ArgumentError, match=shown):
        XGBTuner(matmul_space(), **options)


# --- the cost model ---------------------------------------------------------------------------------------------------


def learnt(loss_type: str, *, seed: int = 0) -> tuple[Any, Any]:
    """Predictions of a model and the true costs for configurations that it has not seen."""
    space = matmul_space()
    rows = space.sample(400, np.random.default_rng(11))
    costs = np.array([matmul_cost(space.config(row)) for row in rows.tolist()])
    model = XGBoostCostModel(loss_type=loss_type, seed=seed)
    features = space.encode(rows)
    model.fit(features[:200], costs[:200])
    return model.predict(features[200:]), costs[200:]


@pytest.mark.parametrize("loss_type", ["rank", "reg"])
def test_the_model_ranks_configurations_that_it_has_not_seen(loss_type: str) -> None:
    scores, costs = learnt(loss_type)
    best = np.argsort(-scores)[:20]
    assert np.median(costs[best]) < np.quantile(costs, 0.15)


@pytest.mark.parametrize("loss_type", ["rank", "reg"])
def test_the_same_trials_give_the_same_model(loss_type: str) -> None:
    assert np.array_equal(learnt(loss_type, seed=4)[0], learnt(loss_type, seed=4)[0])


def test_costs_become_relative_speeds_and_failures_zero() -> None:
    assert relative_speed(np.array([2.0, 1.0, np.inf, 4.0])).tolist() == [0.5, 1.0, 0.0, 0.25]
    assert relative_speed(np.array([np.inf, np.inf])).tolist() == [0.0, 0.0]
    assert np.isfinite(relative_speed(np.array([0.0, 1.0]))).all()
