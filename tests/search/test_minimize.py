"""A function of one's own is searched like a task: its costs, its failures, its records."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pegbox as pb
from pegbox.measure.result import Failed, Ok
from pegbox.search.objective import ObjectiveMeasurer


def space_of(count: int = 12) -> pb.ConfigSpace:
    space = pb.ConfigSpace()
    space.define_knob("x", range(count))
    space.define_split("tile", 8)
    return space


def cost(config: pb.Config) -> float:
    return 1.0 + abs(config["x"].val - 7) + config["tile"].size[1] / 10


def minimized(function: Callable[[pb.Config], float] = cost, **options: object) -> pb.api.TuneResult:
    return pb.minimize(function, space_of(), progress=False, **{"tuner": "random", "trials": 48, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("tuner", ["bayes", "xgb", "xgb:cost_model=ridge", "evolution", "ga", "droplet", "grid"])
def test_any_tuner_searches_a_function(tuner: str) -> None:
    result = minimized(tuner=tuner)
    assert result.best.cost == cost(result.best.config) <= 1.5
    assert [trial.cost for trial in result.trials] == [cost(trial.config) for trial in result.trials]


def test_a_learner_needs_fewer_calls_than_chance() -> None:
    space = space_of(400)
    found = {t: pb.minimize(cost, space, tuner=t, trials=60, progress=False).best.cost for t in ("bayes", "random")}
    assert found["bayes"] < found["random"]


def test_the_same_seed_calls_for_the_same_configurations() -> None:
    first, again, other = (minimized(seed=seed, trials=20) for seed in (3, 3, 4))
    assert [t.config for t in first.trials] == [t.config for t in again.trials] != [t.config for t in other.trials]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (math.nan, "returned nan: a cost must be a finite number above 0"),
        (math.inf, "returned inf: a cost must be a finite number above 0"),
        (None, "returned None of type NoneType: a cost must be a finite"),
        ("3", "returned '3' of type str"),
        (True, "returned True of type bool"),
        (0.0, "returned 0.0: a cost is above 0; add a constant, or"),
        (-2, "returned -2: a cost is above 0"),
        (np.ones(2), "of type ndarray"),
    ],
)
def test_what_is_no_cost_is_a_failed_trial(value: object, said: str) -> None:
    result = minimized(lambda config: value, trials=3)  # type: ignore[arg-type,return-value]
    assert result.best is None
    assert all(isinstance(trial.result, Failed) and said in trial.result.message for trial in result.trials)
    assert said in str(result)


@pytest.mark.parametrize("value", [np.float32(0.5), np.array(0.5), 1])
def test_numbers_of_other_types_are_costs(value: float) -> None:
    assert minimized(lambda config: value, trials=2).best.cost == float(value)


def test_what_the_function_raises_is_the_reason_of_a_failed_trial() -> None:
    def picky(config: pb.Config) -> float:
        if config["x"].val > 3:
            raise ValueError("too many")
        if config["x"].val == 3:
            raise SystemExit(2)
        return cost(config)

    result = minimized(picky)
    assert result.best.config["x"].val == 2
    messages = {trial.result.message for trial in result.trials if isinstance(trial.result, Failed)}
    assert len(messages) == 2
    assert all("test_minimize.py:" in message for message in messages)
    assert any(message.startswith("ValueError: too many (") for message in messages)


def test_ctrl_c_in_the_function_keeps_what_was_found() -> None:
    calls: list[pb.Config] = []

    def stopped(config: pb.Config) -> float:
        calls.append(config)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return cost(config)

    result = minimized(stopped)
    assert (result.stopped_because, len(result.trials)) == ("interrupted", 4)
    assert result.best.cost == min(map(cost, calls[:4]))


def test_limits_are_those_of_a_search() -> None:
    assert minimized(early_stopping=3, tuner="grid").stopped_because == "early stopping"
    assert minimized(budget=0).stopped_because == "budget"
    assert minimized(trials=100).stopped_because == "exhausted"


def test_repeated_calls_are_interleaved_where_the_best_are_called_again() -> None:
    calls: list[int] = []

    def counted(config: pb.Config) -> float:
        calls.append(config.index)
        return 1.0 + 0.01 * config.index + 0.001 * len(calls)

    result = minimized(counted, tuner="grid", trials=4, repeat=3)
    assert calls[:12] == [index for index in range(4) for _ in range(3)]
    assert calls[12:] == [0, 1, 2, 3] * 3
    assert isinstance(result.best.result, Ok)
    assert len(result.best.result.costs) == 3
    assert result.best.remeasured


def test_one_call_each_is_all_where_nothing_is_repeated() -> None:
    calls: list[int] = []
    minimized(lambda config: calls.append(config.index) or cost(config), trials=10)
    assert len(calls) == len(set(calls)) == 10


def test_one_failed_call_of_several_is_a_failure_and_the_last() -> None:
    calls: list[int] = []

    def once(config: pb.Config) -> float:
        calls.append(1)
        return 1.0 if len(calls) == 1 else math.nan

    (result,) = ObjectiveMeasurer(pb.Objective(once, space_of(), repeat=5)).remeasure([space_of().get(0)])
    assert isinstance(result, Failed)
    assert len(calls) == 2


def test_records_are_resumed_and_no_configuration_is_called_for_twice(tmp_path: Path) -> None:
    file, calls = tmp_path / "trials.jsonl", list[int]()

    def counted(config: pb.Config) -> float:
        calls.append(config.index)
        return cost(config)

    minimized(counted, trials=10, records=file, tuner="ga")
    result = minimized(counted, trials=25, records=file, tuner="ga", resume=True)
    assert len(calls) == len(set(calls)) == 25
    assert len(result.trials) == 15
    other = minimized(counted, trials=2, records=file, name="another", resume=True)
    assert len(other.trials) == 2


def test_costs_have_the_unit_that_the_caller_says() -> None:
    assert str(minimized(lambda config: 0.005, trials=1).best).startswith("0.005 (trial 1)")
    assert str(minimized(lambda config: 0.005, trials=1, unit="s").best).startswith("5 ms (")
    assert str(minimized(lambda config: 5321234, trials=1, unit="bytes").best).startswith("5,321,234 bytes (")


def test_an_objective_is_named_after_its_function() -> None:
    def priced(scale: float, config: pb.Config) -> float:
        return scale * cost(config)

    class Priced:
        def __call__(self, config: pb.Config) -> float:
            return cost(config)

    names = [pb.Objective(f, space_of()).name for f in (cost, functools.partial(priced, 2.0), Priced())]
    assert names == ["cost", "priced", "Priced"]
    assert repr(pb.Objective(cost, space_of(), name="mine")) == "<Objective mine over 48 configurations>"


def test_tuners_are_compared_on_a_function() -> None:
    objective = pb.Objective(cost, space_of(), unit="bytes")
    report = pb.compare(objective, ["grid", "random"], trials=6, seeds=2, progress=False)
    assert [len(run.curve) for run in report.runs] == [6] * 4
    assert (
        report.best_known("cost") == min(run.final_cost for run in report.runs) == min(r.curve[-1] for r in report.runs)
    )
    assert " bytes (the best that any run found)" in report.table()


def numbers() -> pb.ConfigSpace:
    space = pb.ConfigSpace()
    space.define_float("rate", 1e-4, 1.0, log=True)
    space.define_int("layers", 1, 10**9, log=True)
    return space


def loss(config: pb.Config) -> float:
    return 1.0 + math.log10(config["rate"].val / 0.02) ** 2 + math.log10(config["layers"].val / 5000) ** 2


def test_numbers_of_ranges_are_written_exactly_and_resumed(tmp_path: Path) -> None:
    file = tmp_path / "numbers.jsonl"
    first = pb.minimize(loss, numbers(), tuner="random", trials=12, records=file, progress=False)
    values = [config["rate"].val for config in (trial.config for trial in first.trials)]
    assert [trial.config["rate"].val for trial in pb.load_result(file).trials] == values
    again = pb.minimize(loss, numbers(), tuner="random", trials=20, records=file, resume=True, progress=False)
    assert len(again.trials) == 8
    assert not {trial.config for trial in again.trials} & {trial.config for trial in first.trials}


def test_the_least_value_of_a_function_of_numbers_is_found_precisely() -> None:
    result = pb.minimize(loss, numbers(), trials=50, progress=False)
    assert result.best.cost < 1.001
    assert result.best.config["rate"].val == pytest.approx(0.02, rel=0.1)
