"""Bayesian optimisation: the tuner."""

import hashlib
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.errors import ArgumentError
from pegbox.features import program_features
from pegbox.measure.result import Ok
from pegbox.search import SearchOptions, make_tuner, run
from pegbox.search.models.experience import Experience
from pegbox.search.protocols import CHOOSING, LEARNING, Features, Transfer, Tuner
from pegbox.search.testing import (
    ArtificialMeasurer,
    TunerContract,
    constrained_space,
    matmul_cost,
    matmul_space,
    result_of,
    small_space,
)
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.bayes import BayesTuner, improving_batch, optimistic_batch
from pegbox.tuners.candidates import CandidatePool
from pegbox.tuners.evolution import EvolutionTuner
from pegbox.tuners.rows import Digits, keys_of, rows_of
from pegbox.tuners.surrogates.gaussian_process import GaussianProcess
from pegbox.tuners.visited_set import VisitedSet
from pegbox.tuners.xgb import XGBTuner


class TestBayes(TunerContract):
    def make(self, space: ConfigSpace, *, seed: int = 0) -> Tuner:
        return BayesTuner(space, seed=seed)


def searched(tuner: Any, space: ConfigSpace, *, trials: int = 64, cost: Any = matmul_cost) -> list[Config]:
    result = run(tuner, ArtificialMeasurer(cost), SearchOptions(trials=trials, finalists=0), space=space)
    return [trial.config for trial in result.trials]


# --- searching --------------------------------------------------------------------------------------------------------


def test_it_beats_random_search_by_far() -> None:
    best: dict[str, list[float]] = {"bayes": [], "random": []}
    for name, costs in best.items():
        for seed in range(4):
            tuner = make_tuner(name, matmul_space(), seed=seed)
            costs.append(min(matmul_cost(config) for config in searched(tuner, matmul_space(), trials=40)))
    assert np.median(best["bayes"]) < 0.8 * np.median(best["random"])


def batch_sizes(tuner: BayesTuner, rounds: int) -> list[int]:
    sizes = []
    for _ in range(rounds):
        configs = tuner.ask(8)
        sizes.append(len(configs))
        tuner.tell(configs, [result_of(matmul_cost(config)) for config in configs])
    return sizes


def test_batches_are_small_at_first_and_grow() -> None:
    sizes = batch_sizes(BayesTuner(matmul_space(), num_warmup=12, program=Digit(matmul_space())), 14)
    # The first one is measured while the features of the others are computed.
    assert sizes[:5] == [1, 8, 3, 3, 3]
    assert sizes[-1] == 8
    assert sizes[2:] == sorted(sizes[2:])


def test_without_programs_batches_begin_with_one() -> None:
    sizes = batch_sizes(BayesTuner(matmul_space()), 24)
    assert sizes[:12] == [6, *[1] * 10, 2]
    assert sizes[1:] == sorted(sizes[1:])


def test_the_first_ones_are_spread_over_the_space() -> None:
    """Compare them with as many random ones, in a space of two knobs.

    The configuration that is farthest from all of them is nearer than with random ones.
    """
    space = ConfigSpace()
    for name in "ab":
        space.define_knob(name, range(32))

    def farthest(rows: Digits) -> float:
        grid = np.stack(np.meshgrid(range(32), range(32)), axis=-1).reshape(-1, 2)
        return float(np.linalg.norm(grid[:, None] - rows[None], axis=2).min(axis=1).max())

    spread = [farthest(rows_of(BayesTuner(space, seed=seed, num_warmup=8).ask(8))) for seed in range(8)]
    random = [farthest(space.sample(8, np.random.default_rng(seed))) for seed in range(8)]
    assert max(spread) < np.median(random)


def test_the_first_ones_keep_away_from_those_that_were_measured() -> None:
    space = ConfigSpace()
    space.define_knob("a", range(64))
    tuner = BayesTuner(space, seed=0, num_warmup=8)
    known = [space.config([digit]) for digit in range(28, 36, 2)]
    tuner.tell(known, [result_of(1.0 + number) for number in range(len(known))])
    proposed = sorted(config.digits[0] for config in tuner.ask(8))
    assert len(proposed) == 4
    assert all(abs(digit - 31) > 6 for digit in proposed)


def test_a_space_smaller_than_the_warm_up_is_used_up() -> None:
    space = ConfigSpace()
    space.define_knob("a", [1, 2, 3, 4, 5])
    tuner = BayesTuner(space, seed=0)
    assert sorted(config.digits[0] for config in tuner.ask(8)) == [0, 1, 2, 3, 4]
    assert tuner.ask(8) == []


def test_history_takes_the_place_of_the_first_random_ones() -> None:
    space = matmul_space()
    rows = space.sample(40, np.random.default_rng(1)).tolist()
    known = [space.config(row) for row in rows]
    tuner = BayesTuner(space, seed=2)
    tuner.tell(known, [result_of(matmul_cost(config)) for config in known])
    proposed = [matmul_cost(config) for config in tuner.ask(8)]
    assert np.median(proposed) < np.median([matmul_cost(config) for config in known]) / 2


@pytest.mark.parametrize("knobs", [1, 100])
def test_spaces_of_one_knob_and_of_a_hundred(knobs: int) -> None:
    space = ConfigSpace()
    for place in range(knobs):
        space.define_knob(f"k{place}", [1, 2, 4, 8])
    tuner = BayesTuner(space, seed=0, num_warmup=2)
    configs = searched(tuner, space, trials=24, cost=lambda config: 1.0 + sum(config.digits))
    assert len(set(configs)) == len(configs) == min(24, 4**knobs)


def test_only_the_best_and_the_latest_are_remembered() -> None:
    space = matmul_space()
    tuner = BayesTuner(space, seed=0, memory=20)
    configs = searched(tuner, space, trials=50)
    assert len(set(configs)) == 50
    assert tuner._process is not None
    assert len(tuner._process._x) == 20


def test_knobs_of_failing_values_are_left_alone() -> None:
    space = ConfigSpace()
    for place in range(4):
        space.define_knob(f"k{place}", [1, 2, 4, 8, 16, 32])

    def cost(config: Config) -> float:
        return math.inf if config.digits[0] > 3 else 1.0 + float(np.sum(config.digits[1:]))

    configs = searched(BayesTuner(space, seed=0), space, trials=60, cost=cost)
    failed = [not math.isfinite(cost(config)) for config in configs]
    assert sum(failed[30:]) < 5


def test_features_of_programs_are_learned_from() -> None:
    """The cost depends on a sum that no knob shows by itself."""
    space = ConfigSpace()
    for place in range(6):
        space.define_knob(f"k{place}", [f"v{value}" for value in range(8)])
    weights = np.random.default_rng(0).permutation(48).reshape(6, 8)

    class Source:
        names = ("sum.of",)

        def __call__(self, digits: Digits) -> Features:
            return weights[np.arange(6), digits].sum(axis=1, keepdims=True).astype(np.float32)

    source = Source()

    def cost(config: Config) -> float:
        return 1.0 + float(source(np.array([config.digits]))[0, 0])

    def found(program: Source | None) -> float:
        """The mean of the best of 32 trials."""
        tuners = [BayesTuner(space, seed=seed, program=program) for seed in range(6)]
        return float(np.mean([min(map(cost, searched(tuner, space, trials=32, cost=cost))) for tuner in tuners]))

    assert found(source) < 0.9 * found(None)


# --- experience -------------------------------------------------------------------------------------------------------


class Digit:
    """The digits themselves as features of programs."""

    def __init__(self, space: ConfigSpace) -> None:
        self.names = tuple(f"digit.{place}" for place in range(len(space.knobs)))

    def __call__(self, digits: Digits) -> Features:
        return digits.astype(np.float32)


def wide_space() -> ConfigSpace:
    space = ConfigSpace()
    for place in range(6):
        space.define_knob(f"k{place}", [1 << digit for digit in range(8)])
    return space


def bowl(config: Config) -> float:
    return 1.0 + float(sum((digit - 2) ** 2 for digit in config.digits))


def knowing(features: Features) -> Any:
    return -((features - 2) ** 2).sum(axis=1).astype(np.float64)


def costs_of(tuner: BayesTuner, *, trials: int) -> list[float]:
    return [bowl(config) for config in searched(tuner, tuner._space, trials=trials, cost=bowl)]


def trials_to(costs: list[float], goal: float) -> int:
    return next((number for number, cost in enumerate(costs, 1) if cost <= goal), 999)


def test_experience_takes_the_place_of_random_trials() -> None:
    space = wide_space()
    program = Digit(space)
    experienced = [
        costs_of(BayesTuner(space, seed=seed, program=program, experience=knowing), trials=16) for seed in range(4)
    ]
    left = [
        costs_of(BayesTuner(space, seed=seed, program=program, experience=knowing, use_experience=False), trials=16)
        for seed in range(4)
    ]
    assert np.median([min(costs[:8]) for costs in experienced]) < np.median([min(costs) for costs in left])


@pytest.mark.parametrize("kind", [BayesTuner, XGBTuner, EvolutionTuner])
def test_a_tuner_says_whether_it_takes_the_experience_that_it_is_given(kind: Any) -> None:
    space = wide_space()
    given = {"program": Digit(space), "experience": knowing}
    assert kind(space, **given).experienced
    assert not kind(space, **given, use_experience=False).experienced
    assert not kind(space, experience=knowing).experienced  # nothing to score without programs
    assert not kind(space, program=Digit(space)).experienced


@pytest.mark.parametrize("kind", [BayesTuner, XGBTuner, EvolutionTuner])
def test_what_a_tuner_does_first_has_a_name(kind: Any) -> None:
    """The tuner learns from experience before it has measured much; people wait for it."""

    def activities(**given: Any) -> list[str]:
        space = wide_space()
        tuner = kind(space, seed=0, program=Digit(space), **given)
        seen = []
        for _ in range(4):
            seen.append(tuner.activity)
            configs = tuner.ask(8)
            tuner.tell(configs, [Ok((bowl(config),)) for config in configs])
        return seen

    assert activities(experience=knowing).count(LEARNING) == 1
    assert activities() == [CHOOSING] * 4


def test_experience_that_is_wrong_is_found_out() -> None:
    space = wide_space()
    program = Digit(space)

    def lying(features: Features) -> Any:
        return -knowing(features)

    alone, misled = (
        [
            trials_to(costs_of(BayesTuner(space, seed=seed, program=program, **given), trials=120), 5.0)
            for seed in range(3)
        ]
        for given in ({}, {"experience": lying})
    )
    assert np.median(misled) <= np.median(alone) + 24


def test_the_first_batches_have_a_random_share_in_case_experience_is_wrong() -> None:
    space = wide_space()
    costs: list[float] = []
    for seed in range(4):
        tuner = BayesTuner(space, seed=seed, program=Digit(space), experience=knowing, num_warmup=40)
        costs += costs_of(tuner, trials=40)
    assert np.mean([cost > 40 for cost in costs]) > 0.1


def test_the_first_batches_have_the_largest_improvement_only_without_experience(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Count the trials before the first batch with careful and bold members."""

    def first(**given: Any) -> int:
        space, trials = wide_space(), list[int]()

        def noted(*args: Any, **options: Any) -> Any:
            trials.append(len(tuner._history))
            return optimistic_batch(*args, **options)

        monkeypatch.setattr("pegbox.tuners.bayes.optimistic_batch", noted)
        tuner = BayesTuner(space, seed=0, program=Digit(space), **given)
        searched(tuner, space, trials=80, cost=bowl)
        return trials[0]

    assert 64 <= first() < 72
    assert first(experience=knowing) < 8


def test_where_everything_fails_experience_is_left_alone() -> None:
    space, later = wide_space(), []
    for seed in range(6):
        tuner = BayesTuner(space, seed=seed, program=Digit(space), experience=knowing)
        configs = searched(tuner, space, trials=60, cost=lambda config: math.inf)
        assert len(set(configs)) == 60
        later += configs[20:]
    assert np.median([bowl(config) for config in later]) > 40


def test_the_first_batch_waits_for_no_features_and_the_second_for_few() -> None:
    """Features of a template's programs take seconds for a whole pool, and nothing is measured meanwhile."""
    asked: list[int] = []

    class Counting(Digit):
        def __call__(self, digits: Any) -> Any:
            asked.append(len(digits))
            return super().__call__(digits)

    space = wide_space()
    tuner = BayesTuner(space, seed=0, program=Counting(space), experience=knowing)
    for most in (0, 400):
        batch = tuner.ask(8)
        assert sum(asked) <= most
        tuner.tell(batch, [Ok((1e-3 * (number + 1),)) for number in range(len(batch))])
    for _ in range(4):
        tuner.ask(8)
    assert sum(asked) > 512


def test_experience_gets_ready_while_the_first_batch_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[Experience] = []
    monkeypatch.setattr(Experience, "prepare", lambda experience: prepared.append(experience))
    space = wide_space()
    known = Experience([Transfer("a", np.arange(8.0, dtype=np.float32).reshape(8, 1), np.arange(1.0, 9.0))])
    BayesTuner(space, seed=0, program=Digit(space), experience=known).ask(2)
    assert prepared == [known]


def test_measurements_of_other_shapes_are_experience() -> None:
    space = wide_space()
    program = Digit(space)
    rows = space.sample(300, np.random.default_rng(7))
    other = Transfer("other", program(rows), np.array([1e-6 * bowl(space.config(row)) for row in rows.tolist()]))
    transferred = [
        costs_of(BayesTuner(space, seed=seed, program=program, transfer=[other]), trials=12) for seed in range(3)
    ]
    alone = [costs_of(BayesTuner(space, seed=seed, program=program), trials=12) for seed in range(3)]
    assert np.median([min(costs) for costs in transferred]) < np.median([min(costs) for costs in alone])


def test_experience_with_a_space_in_which_nothing_is_open() -> None:
    for knobs in (0, 1):
        space = ConfigSpace()
        for place in range(knobs):
            space.define_knob(f"k{place}", [7])
        tuner = BayesTuner(space, seed=0, program=Digit(space), experience=lambda features: np.zeros(len(features)))
        assert len(searched(tuner, space, trials=5, cost=lambda config: 1.0)) == 1


def test_experience_without_programs_says_nothing() -> None:
    space = small_space()
    assert searched(BayesTuner(space, seed=3, experience=knowing), space, trials=20, cost=bowl) == searched(
        BayesTuner(space, seed=3), space, trials=20, cost=bowl
    )
    with pytest.raises(ArgumentError, match="transfer from other needs features of programs"):
        BayesTuner(space, transfer=[Transfer("other", np.ones((2, 3), np.float32), np.ones(2))])


# --- the model --------------------------------------------------------------------------------------------------------


def test_it_reports_its_model_and_scores_what_it_has_not_seen() -> None:
    space = matmul_space()
    tuner = BayesTuner(space, seed=0)
    assert tuner.model_report() is None
    with pytest.raises(ArgumentError, match="no model yet"):
        tuner.score([space.get(0)])
    searched(tuner, space, trials=48)
    report = tuner.model_report()
    assert report is not None
    assert report.trials == 42  # less those that are spread
    unseen = [space.config(row) for row in space.sample(300, np.random.default_rng(9)).tolist()]
    costs = np.array([matmul_cost(config) for config in unseen])
    scores = tuner.score(unseen)
    best = np.argsort(-scores)[:30]
    assert np.median(costs[best]) < np.quantile(costs, 0.25)


PROGRAM = """
import hashlib
from pegbox.search.testing import constrained_space
from test_bayes import BayesTuner, searched
space = constrained_space()
text = " ".join(str(config.index) for config in searched(BayesTuner(space, seed=5), space, trials=40))
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_another_process_with_another_number_of_threads_proposes_the_same() -> None:
    space = constrained_space()
    text = " ".join(str(config.index) for config in searched(BayesTuner(space, seed=5), space, trials=40))
    threads = "2" if os.environ.get("OPENBLAS_NUM_THREADS") == "1" else "1"
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "77", "OPENBLAS_NUM_THREADS": threads}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert done.strip() == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"num_warmup": 0}, "num_warmup=0"),
        ({"classes": 0}, "classes=0"),
        ({"classes": False}, "classes=False"),
        ({"candidates": 0}, "candidates=0"),
        ({"relatives": -1}, "relatives=-1"),
        ({"boldness": -0.5}, r"boldness=-0\.5"),
        ({"boldness": math.nan}, "boldness=nan"),
        ({"memory": 1}, "memory=1"),
    ],
)
def test_a_bad_option_is_shown_with_what_is_valid(options: dict[str, Any], shown: str) -> None:
    with pytest.raises(ArgumentError, match=shown):
        BayesTuner(matmul_space(), **options)


# --- batches and candidates -------------------------------------------------------------------------------------------


def fitted(x: Any, y: Any) -> GaussianProcess:
    process = GaussianProcess(np.zeros(1, dtype=np.intp))
    process.fit(np.array(x, dtype=float)[:, None], np.array(y, dtype=float), steps=0)
    return process


def test_a_careful_batch_takes_the_lowest_means_and_a_bold_one_goes_where_nobody_was() -> None:
    posterior = fitted([0.0, 0.1, 0.2, 1.0], [0.0, 0.0, 0.0, 1.0]).posterior(np.linspace(0.05, 9.0, 40)[:, None])
    careful = optimistic_batch(posterior, 4, np.random.default_rng(0), boldness=0.0)
    assert posterior.mean[careful] == pytest.approx(np.sort(posterior.mean)[:4], abs=1e-5)
    bold = optimistic_batch(posterior, 4, np.random.default_rng(0), boldness=100.0)
    assert bold[0] == careful[0]
    after = posterior.observe(int(bold[0]))
    assert after.variance[bold[1]] == pytest.approx(after.variance.max())
    assert len(set(bold.tolist())) == 4
    assert np.abs(np.diff(np.sort(bold))).min() >= 2


def test_a_batch_is_no_larger_than_what_there_is() -> None:
    posterior = fitted([0.0, 1.0], [0.0, 1.0]).posterior(np.array([[0.5], [0.7]]))
    assert sorted(optimistic_batch(posterior, 9, np.random.default_rng(0), boldness=1.0).tolist()) == [0, 1]


def test_an_improving_batch_explores_without_leaving_what_is_good() -> None:
    places = np.linspace(0.0, 9.0, 91)[:, None]
    process = fitted([0.0, 1.0, 2.0, 9.0], [1.0, 0.0, 1.0, 1.0])
    assert process.least == 0.0
    (first,) = improving_batch(process.posterior(places), 1, process.least)
    assert 0.5 < abs(places[first, 0] - 1.0) + 0.5 < 8.0
    chosen = improving_batch(process.posterior(places), 5, process.least)
    assert len(set(chosen.tolist())) == 5
    assert np.ptp(places[chosen, 0]) > 1.0
    assert sorted(improving_batch(process.posterior(places[:2]), 9, process.least).tolist()) == [0, 1]


def test_candidates_are_new_valid_and_different() -> None:
    space = constrained_space()
    visited, rng = VisitedSet(space), np.random.default_rng(0)
    pool = CandidatePool(visited, rng, anywhere=64, near=48, begin=64, classes=8)
    known = space.sample(20, rng)
    visited.add(known)
    costs = np.append(np.arange(19.0), math.inf)
    for _ in range(5):
        rows = pool.around(known, costs)
        more = pool.neighbors(np.repeat(rows[:4], 8, axis=0), but=set(keys_of(rows)))
        both = np.concatenate([rows, more])
        assert len(visited.fresh(both)) == len(both) > 80
        assert space.is_valid(both).all()
        visited.add(rows[:10])


def test_random_candidates_double_until_there_are_enough() -> None:
    visited, rng = VisitedSet(constrained_space()), np.random.default_rng(0)
    pool = CandidatePool(visited, rng, anywhere=40, near=0, begin=8, classes=8)
    nothing = pool.sample[:0]
    sizes = [len(pool.sample)]
    for _ in range(4):
        pool.around(nothing, np.empty(0))
        sizes.append(len(pool.sample))
    assert sizes == [8, 16, 32, 40, 40]


def test_relatives_of_the_best_are_close_to_it() -> None:
    space = matmul_space()
    visited, rng = VisitedSet(space), np.random.default_rng(0)
    known = space.sample(30, rng)
    costs = np.where(np.arange(30) == 7, 1.0, math.inf)
    rows = CandidatePool(visited, rng, anywhere=8, near=96, begin=8, classes=8).around(known, costs)
    differing = (rows != known[7]).sum(axis=1)
    assert (differing <= 2).sum() > 40


def test_a_small_space_is_looked_at_whole() -> None:
    space = small_space()
    visited, rng = VisitedSet(space), np.random.default_rng(0)
    pool = CandidatePool(visited, rng, anywhere=4, near=4, begin=4, classes=8)
    known = space.sample(5, rng)
    visited.add(known)
    assert len(pool.around(known, np.ones(5))) == 39
    assert len(pool.neighbors(known, but=set(keys_of(known)))) == 0


def test_a_batch_adds_few_classes_of_programs() -> None:
    task = pb.create_task("softmax", (16, 64), space="sketch", target="llvm -mcpu=x86-64-v3 -num-cores 2")
    known = []
    for classes in (2, 50):
        features = program_features(task)
        tuner = BayesTuner(task.space, seed=0, program=features, num_warmup=4, classes=classes)
        configs = tuner.ask(4)
        tuner.tell(configs, [Ok((1e-3 * (n + 1),)) for n in range(len(configs))])
        tuner.ask(4)
        known.append(features.num_classes)
    assert known[0] < 40 < known[1]
