"""A tuner's use of its model: features, other shapes, and a report of its quality."""

import math
from typing import Any

import numpy as np
import pytest

from pegbox.errors import ArgumentError, PluginError
from pegbox.search import BoundTuner, ModelReport, SearchOptions, Transfer, make_tuner, run
from pegbox.search.models.training import rank_share
from pegbox.search.testing import ArtificialMeasurer, constrained_space, matmul_cost, matmul_space, result_of
from pegbox.space import ConfigSpace
from pegbox.tuners.features import FeatureTable
from pegbox.tuners.ga import GATuner
from pegbox.tuners.learner import Learner, agreement
from pegbox.tuners.trial_history import PredictionLog
from pegbox.tuners.xgb import XGBTuner


class Programs:
    """Features of pretended programs: what they cost, hidden among others. Counts the rows that it is asked for."""

    names = ("one", "cost", "other")

    def __init__(self, space: ConfigSpace) -> None:
        self.space, self.asked = space, 0

    def __call__(self, digits: Any) -> Any:
        self.asked += len(digits)
        costs = [math.log(min(matmul_cost(self.space.config(row)), 10.0)) for row in digits.tolist()]
        return np.column_stack([digits[:, 0], costs, digits[:, 1]]).astype(np.float32)


def other_shape(space: ConfigSpace, n: int = 200, *, scale: float = 100.0) -> Transfer:
    rows = space.sample(n, np.random.default_rng(8))
    costs = np.array([matmul_cost(space.config(row)) for row in rows.tolist()])
    return Transfer("another shape", Programs(space)(rows), scale * costs)


# --- features ---------------------------------------------------------------------------------------------------------


def test_each_row_of_features_is_computed_once() -> None:
    space = constrained_space()
    programs = Programs(space)
    table = FeatureTable(space, programs)
    rows = space.sample(10, np.random.default_rng(0))
    first = table(rows[[0, 1, 1, 2]])
    assert programs.asked == 3
    again = table(rows[[2, 1, 5]])
    assert programs.asked == 4
    assert np.array_equal(first[3], again[0])
    assert np.array_equal(again[2], np.concatenate([space.encode(rows[[5]])[0], programs(rows[[5]])[0]]))


@pytest.mark.parametrize(
    ("kind", "knobs", "program"), [("both", True, True), ("knobs", True, False), ("program", False, True)]
)
def test_features_are_of_knobs_of_programs_or_of_both(kind: str, knobs: bool, program: bool) -> None:
    space = matmul_space()
    width = knobs * len(space.feature_names) + program * 3
    assert FeatureTable(space, Programs(space), kind)(space.sample(4, np.random.default_rng(0))).shape == (4, width)


def test_what_is_too_much_to_remember_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegbox.tuners.features.REMEMBERED", 5)
    space = matmul_space()
    programs = Programs(space)
    table = FeatureTable(space, programs)
    rows = space.sample(6, np.random.default_rng(0))
    before = table(rows)
    table.trim()
    assert np.array_equal(table(rows), before)
    assert programs.asked == 12


# --- other shapes -----------------------------------------------------------------------------------------------------


def test_a_new_shape_starts_from_the_ranking_of_another() -> None:
    space = constrained_space()
    median = np.median([matmul_cost(space.config(r)) for r in space.sample(200, np.random.default_rng(1)).tolist()])
    tuner = make_tuner("xgb", space, program=Programs(space), transfer=(other_shape(space),))
    costs = [matmul_cost(config) for config in tuner.ask(12)]
    assert np.mean(np.array(costs) < median) > 0.6
    assert min(costs) < 0.6 * median


def test_seconds_of_another_shape_mean_nothing_only_their_order() -> None:
    space = constrained_space()
    asked = [
        make_tuner("xgb", space, program=Programs(space), transfer=(other_shape(space, scale=scale),)).ask(12)
        for scale in (1.0, 64.0)
    ]
    assert asked[0] == asked[1]


def test_other_shapes_count_by_how_well_they_rank_and_fade() -> None:
    assert agreement(np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0])) == 1.0
    assert agreement(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])) == 0.0
    space = constrained_space()
    shares = []
    for n in (8, 64):
        learner = Learner(FeatureTable(space, Programs(space)), "xgboost", transfer=(other_shape(space),))
        rows = space.sample(n, np.random.default_rng(3))
        learner.fit(rows, np.array([matmul_cost(space.config(row)) for row in rows.tolist()]))
        shares.append(learner._share)
    assert shares[0] > shares[1] > 0.0


def test_without_features_of_programs_nothing_can_be_transferred() -> None:
    space = matmul_space()
    given = {"transfer": (other_shape(space, 20),)}
    with pytest.raises(ArgumentError, match=r"another shape needs features of programs.* leave transfer out"):
        XGBTuner(space, **given)
    with pytest.raises(ArgumentError, match="features='knobs'"):
        XGBTuner(space, program=Programs(space), features="knobs", **given)
    wrong = Transfer("narrow", np.zeros((4, 2), dtype=np.float32), np.ones(4))
    with pytest.raises(ArgumentError, match=r"narrow: features of shape \(4, 2\), but programs here have 3"):
        XGBTuner(space, program=Programs(space), transfer=(wrong,))
    failed = Transfer("broken", np.zeros((4, 3), dtype=np.float32), np.full(4, np.inf))
    with pytest.raises(ArgumentError, match="broken: no configuration ran there"):
        XGBTuner(space, program=Programs(space), transfer=(failed,))


# --- the report -------------------------------------------------------------------------------------------------------


class Knowing:
    """A cost model that is right about everything."""

    def fit(self, features: Any, costs: Any) -> None:
        pass

    def predict(self, features: Any) -> Any:
        return -features[:, -2].astype(np.float64)


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_all_of_a_plan_is_judged_random_picks_too_and_the_warmup_is_not(epsilon: float) -> None:
    space = constrained_space()
    tuner = XGBTuner(space, program=Programs(space), cost_model=Knowing(), plan_size=10, epsilon=epsilon)
    for asked, judged in ((8, 0), (10, 10), (4, 14), (6, 20)):
        configs = tuner.ask(asked)
        tuner.tell(configs, [result_of(matmul_cost(config)) for config in configs])
        report = tuner.model_report()
        assert (report.trials if report else 0) == judged
    assert report is not None
    assert report.pairs > 80
    assert report.pairwise_accuracy > 0.99


def test_scores_of_two_states_of_a_model_are_not_compared() -> None:
    space = matmul_space()
    configs = [space.get(place) for place in range(4)]
    predictions = PredictionLog()
    assert predictions.report() is None
    predictions.expect(configs[:2], np.array([2.0, 1.0]))
    predictions.learn([configs[0]], [result_of(1.0)])
    predictions.learn([configs[1], configs[3]], [result_of(2.0), result_of(9.0)])
    predictions.expect(configs[2:], np.array([9.0, 8.0]))
    predictions.learn(configs[2:], [result_of(3.0), result_of(2.5)])
    assert predictions.report() == ModelReport(trials=4, pairs=2, pairwise_accuracy=0.5)


def test_the_report_reaches_the_result_and_its_text() -> None:
    space = constrained_space()
    result = run(make_tuner("xgb", space, seed=1), ArtificialMeasurer(), SearchOptions(trials=56), space=space)
    assert result.model is not None
    assert result.model.trials == 56 - 12
    assert result.model.pairwise_accuracy > 0.5
    assert "unseen pairs in order" in str(result)
    assert run(make_tuner("random", space), ArtificialMeasurer(), SearchOptions(trials=8)).model is None


def test_a_model_that_gives_no_numbers_is_named() -> None:
    class Broken(Knowing):
        def predict(self, features: Any) -> Any:
            return np.full(len(features), np.nan)

    space = matmul_space()
    tuner = XGBTuner(space, cost_model=Broken())
    tuner.tell(configs := tuner.ask(8), [result_of(1e-3 * place) for place in range(1, len(configs) + 1)])
    with pytest.raises(PluginError, match="Broken gave NaN among its scores"):
        tuner.ask(8)


def test_configurations_can_be_scored_once_there_is_a_model() -> None:
    space = constrained_space()
    tuner = XGBTuner(space)
    with pytest.raises(ArgumentError, match="call fit"):
        tuner.score([space.config(space.sample(1, np.random.default_rng(0))[0])])
    tuner.tell(configs := tuner.ask(8), [result_of(matmul_cost(config)) for config in configs])
    tuner.ask(1)
    assert tuner.score(configs).shape == (8,)


def test_ranks_are_shares_that_ties_divide() -> None:
    assert rank_share(np.array([2.0, 1.0, np.inf, np.inf])).tolist() == [0.75, 1.0, 0.375, 0.375]
    assert rank_share(np.array([5.0, 5.0])).tolist() == [0.75, 0.75]


@pytest.mark.parametrize("name", ["RandomTuner", "GridTuner", "GATuner", "XGBTuner", "EvolutionTuner", "DropletTuner"])
def test_built_in_tuners_have_options_without_a_space(name: str) -> None:
    from pegbox.tuners import droplet, evolution, ga, grid, random, xgb

    (kind,) = (getattr(m, name) for m in (random, grid, ga, xgb, evolution, droplet) if hasattr(m, name))
    assert isinstance(kind.with_options(), BoundTuner)
    assert len(make_tuner(kind.with_options(), constrained_space(), seed=2).ask(3)) == 3


def test_options_given_without_a_space_are_kept() -> None:
    assert str(GATuner.with_options(population=8)) == "GATuner(population=8)"
    with pytest.raises(ArgumentError, match="population=1"):
        make_tuner(GATuner.with_options(population=1), matmul_space())
