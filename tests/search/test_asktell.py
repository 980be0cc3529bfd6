"""Tuners driven by hand: what may be asked and told, and what is refused."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.errors import ArgumentError, SpaceError, TuningError, UnknownName
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.search import BaseTuner, ModelReport, SearchOptions
from pegbox.search.asktell import AskTell
from pegbox.search.testing import matmul_cost, matmul_space, small_space
from pegbox.space import Config, ConfigSpace, ListedSpace


class Listener(BaseTuner):
    """Walks the space in index order, and writes down what it hears."""

    def __init__(self, space: ConfigSpace, *, seed: int = 0, times: int = 1, breaks: bool = False) -> None:
        self.walk = iter([config for config in space.iterate() for _ in range(times)])
        self.breaks = breaks
        self.told: list[tuple[Config, Result]] = []

    def ask(self, n: int) -> Sequence[Config]:
        return [config for _, config in zip(range(n), self.walk, strict=False)]

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        if self.breaks:
            raise RuntimeError("out of ideas")
        self.told += zip(configs, results, strict=True)

    def model_report(self) -> ModelReport:
        return ModelReport(3, 3, 1.0)


def listening(space: ConfigSpace | None = None, **options: Any) -> Any:
    return pb.create_tuner(Listener, space or small_space(), **options)


def hand_made() -> ConfigSpace:
    space = pb.ConfigSpace()
    space.define_knob("flags", ["-O1", "-O2", "-O3"])
    space.define_knob("block", [16, 32, 64, 128, 256])
    space.define_knob("inline", [False, True])
    return space


def seconds(config: Config) -> float:
    return 1e-3 * (1 + abs(config["block"].val - 64) / 64) / (1 + config["flags"].val.count("3"))


# --- asking and telling -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tuner", ["xgb", "ga", "random", "grid", Listener, Listener.with_options(times=1)])
def test_any_tuner_searches_a_space_made_by_hand(tuner: Any) -> None:
    space = hand_made()
    driven = pb.create_tuner(tuner, space, seed=0)
    while configs := driven.ask(4):
        driven.tell(configs, [seconds(config) for config in configs])
    assert len(driven.trials) == space.size == 30
    assert driven.best is not None
    config, cost = driven.best
    assert (config["flags"].val, config["block"].val, cost) == ("-O3", 64, seconds(config))


def test_it_is_the_search_of_the_loop() -> None:
    """The same seed and the same batches give the same proposals as `tune` gets."""
    from pegbox.search import make_tuner, run
    from pegbox.search.testing import ArtificialMeasurer

    space = matmul_space()
    driven = pb.create_tuner("ga", space, seed=5)
    while len(driven.trials) < 48:
        configs = driven.ask(16)
        driven.tell(configs, [matmul_cost(config) for config in configs])
    looped = run(make_tuner("ga", space, seed=5), ArtificialMeasurer(), SearchOptions(trials=48, batch_size=16))
    assert [trial.config for trial in driven.trials] == [trial.config for trial in looped.trials]
    assert [trial.cost for trial in driven.trials] == [trial.cost for trial in looped.trials]


def test_a_task_gives_its_space_and_its_flop() -> None:
    task = pb.create_task("matmul", args=(64, 64, 64))
    tuner = pb.create_tuner("random", task, seed=1)
    (config,) = tuner.ask()
    tuner.tell(config, 1e-3)
    assert config.space is task.space is tuner.space
    assert tuner.trials[0].gflops == pytest.approx(task.flop / 1e-3 / 1e9)


class Receiving(BaseTuner):
    """Writes down what it is given."""

    def __init__(self, space: ConfigSpace, *, seed: int = 0, program: Any = None, transfer: Any = ()) -> None:
        self.program = program

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        pass


def test_a_task_gives_the_features_of_its_programs_to_tuners_that_take_them() -> None:
    task = pb.create_task("matmul", args=(64, 64, 64))
    program: Any = pb.create_tuner(Receiving, task).tuner.program  # type: ignore[attr-defined]
    rows = task.space.sample(3, np.random.default_rng(0))
    assert program(rows).shape == (3, len(program.names))
    assert pb.create_tuner(Receiving, task.space).tuner.program is None  # type: ignore[attr-defined]


def test_options_are_those_of_the_tuner() -> None:
    assert listening(breaks=True).tuner.breaks
    assert pb.create_tuner("ga:population=5", small_space(), elite=2).name == "ga:population=5"
    with pytest.raises(ArgumentError, match=r"'ga' has no option 'popul'.*did you mean 'population'"):
        pb.create_tuner("ga", small_space(), popul=5)


@pytest.mark.parametrize("costs", [[2.0, 1.0, 3.0], (2, 1, 3), np.array([2, 1, 3], dtype=np.float32)])
def test_costs_are_seconds(costs: Any) -> None:
    tuner = listening()
    configs = tuner.ask(3)
    tuner.tell(configs, costs)
    assert tuner.best == (configs[1], 1.0)
    assert [trial.cost for trial in tuner.trials] == [2.0, 1.0, 3.0]
    assert [trial.number for trial in tuner.trials] == [0, 1, 2]


def test_one_configuration_goes_without_a_list() -> None:
    tuner = listening()
    configs = tuner.ask()
    tuner.tell(configs[0], 2.0)
    tuner.tell(tuner.ask(), np.float64(1.0))
    tuner.tell(tuner.ask()[0], np.array(3.0))
    assert [trial.cost for trial in tuner.trials] == [2.0, 1.0, 3.0]


def test_failures_are_infinite_or_none_or_results() -> None:
    tuner = listening()
    wrong = Failed(FailureKind.WRONG_RESULT, "off by one")
    tuner.tell(tuner.ask(4), [math.inf, None, wrong, Ok((2.0, 1.0, 1.5))])
    kinds = [getattr(trial.result, "kind", None) for trial in tuner.trials]
    assert kinds == [FailureKind.RUN_ERROR, FailureKind.RUN_ERROR, FailureKind.WRONG_RESULT, None]
    assert tuner.best is not None
    assert tuner.best[1] == 1.5  # the median
    assert "best 1.5 s at #3" in repr(tuner)


def test_before_anything_succeeded_there_is_no_best() -> None:
    tuner = listening()
    assert (tuner.best, tuner.trials) == (None, [])
    tuner.tell(tuner.ask(2), [None, None])
    assert tuner.best is None
    assert repr(tuner) == "<AskTell Listener: 2 trials>"


def test_what_was_not_asked_for_may_be_told_and_is_not_asked_for_then() -> None:
    tuner = pb.create_tuner("random", small_space(), seed=0)
    mine = list(small_space().iterate())[::2]
    tuner.tell(mine, [1.0] * len(mine))
    assert not set(mine) & set(tuner.ask(100))
    assert tuner.ask(100) == []


def test_of_what_is_told_again_the_latest_counts() -> None:
    tuner = listening()
    one, other = tuner.ask(2)
    tuner.tell([one, other], [1.0, 2.0])
    tuner.tell(one, 3.0)
    assert tuner.best == (other, 2.0)
    tuner.tell([other, other], [9.0, 0.5])
    assert tuner.best == (other, 0.5)
    assert len(tuner.trials) == 5
    assert [result.cost for config, result in tuner.tuner.told if config == other] == [2.0, 0.5]


def test_asking_twice_without_telling_gives_others() -> None:
    tuner = pb.create_tuner("random", matmul_space(), seed=0)
    assert len({*tuner.ask(5), *tuner.ask(5)}) == 10


def test_the_model_reports_itself() -> None:
    assert listening().model == ModelReport(3, 3, 1.0)
    assert pb.create_tuner("random", small_space()).model is None


# --- the person's side: what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([1.0], r"3 configs but 1 costs \(1\.0\); give one for each"),
        (1.0, "3 configs but 1 costs"),
        (None, r"3 configs but 1 costs \(None\)"),
        ([1.0, 2.0, 3.0, 4.0, 5.0], r"3 configs but 5 costs \(1\.0, 2\.0, 3\.0, 4\.0, \.\.\.\)"),
        ([1.0, math.nan, 1.0], r"costs\[1\]=nan cannot be a cost; give seconds above 0, and None or infinity"),
        ([1.0, 1.0, -2.0], r"costs\[2\]=-2\.0 cannot be a cost"),
        ([0, 1.0, 1.0], r"costs\[0\]=0 cannot be a cost"),
        ([-math.inf, 1.0, 1.0], r"costs\[0\]=-inf cannot be a cost"),
        ([1.0, "2.0", 1.0], r"costs\[1\]='2\.0' of type str is not a number of seconds"),
        ("1.0", r"3 configs but 1 costs \('1\.0'\)"),
        ([True, 1.0, 1.0], r"costs\[0\]=True of type bool"),
        ([[1.0, 2.0], 1.0, 1.0], r"costs\[0\]=\[1\.0, 2\.0\] of type list.*pegbox\.measure\.Ok\(costs\) holds several"),
        ([Ok(()), 1.0, 1.0], r"costs\[0\]=Ok\(costs=\(\).* cannot be a cost"),
        ([Ok((1.0, math.nan)), 1.0, 1.0], r"costs\[0\]=Ok.* cannot be a cost"),
        ([Ok((math.inf,)), 1.0, 1.0], r"costs\[0\]=Ok.* cannot be a cost"),
    ],
)
def test_what_cannot_be_a_cost_is_refused_and_nothing_of_it_counts(costs: Any, message: str) -> None:
    tuner = listening()
    configs = tuner.ask(3)
    with pytest.raises(ArgumentError, match=f"tell: {message}"):
        tuner.tell(configs, costs)
    assert (tuner.trials, tuner.tuner.told) == ([], [])
    tuner.tell(configs, [1.0, 2.0, 3.0])
    assert len(tuner.trials) == 3


def test_what_is_no_configuration_of_the_space_is_refused() -> None:
    tuner = listening()
    (good,) = tuner.ask()
    with pytest.raises(ArgumentError, match=r"tell: configs\[1\] is a configuration of another space: #0 tile_y="):
        tuner.tell([good, matmul_space().get(0)], [1.0, 1.0])
    with pytest.raises(ArgumentError, match=r"tell: configs\[0\] is 7, which is not a Config"):
        tuner.tell([7], [1.0])
    with pytest.raises(ArgumentError, match=r"configs\[0\] is .*0.*, which is not a Config"):
        tuner.tell(np.array(good.digits), [1.0] * 3)
    assert tuner.trials == []


def test_what_the_space_excludes_is_refused_with_the_reason() -> None:
    space = hand_made()
    listed = ListedSpace(space, space.sample(3, np.random.default_rng(0)))
    left_out = next(config for config in space.iterate() if listed.place(config) is None)
    with pytest.raises(ArgumentError, match=r"configs\[0\] is a configuration that the space excludes: .*3 listed"):
        listening(listed).tell(left_out, 1.0)


@pytest.mark.parametrize("n", [0, -1, 2.5, "3", None])
def test_asking_needs_a_count(n: Any) -> None:
    with pytest.raises(ArgumentError, match=r"n=.*give an integer >= 1"):
        listening().ask(n)


def test_a_space_must_not_change_under_a_tuner() -> None:
    space = hand_made()
    tuner = listening(space)
    space.define_knob("more", [1, 2])
    with pytest.raises(ArgumentError, match="the space has new knobs since the tuner was made"):
        tuner.ask()


@pytest.mark.parametrize("over", ["matmul", None, 7, ConfigSpace])
def test_what_has_no_space_is_refused(over: Any) -> None:
    with pytest.raises(ArgumentError, match="not a space or a task"):
        pb.create_tuner("random", over)


def test_a_space_without_a_valid_configuration_is_refused() -> None:
    space = hand_made()
    space.add_constraint(lambda config: False, reads="block", message="never")
    with pytest.raises(SpaceError, match="never"):
        pb.create_tuner("random", space)


def test_unknown_tuners_and_transfer_without_a_task_are_refused() -> None:
    with pytest.raises(UnknownName, match="xgbb"):
        pb.create_tuner("xgbb", small_space())
    with pytest.raises(ArgumentError, match=r"transfer=.*cannot learn from other shapes"):
        pb.create_tuner("random", small_space(), transfer="other.jsonl")


# --- the tuner's side -------------------------------------------------------------------------------------------------


def test_a_tuner_that_raises_loses_nothing() -> None:
    tuner = listening(breaks=True)
    configs = tuner.ask(2)
    with pytest.raises(TuningError, match=r"tuner 'Listener' raised RuntimeError in tell\(\): out of ideas") as caught:
        tuner.tell(configs, [1.0, 2.0])
    assert [trial.config for trial in tuner.trials] == configs
    assert tuner.best == (configs[0], 1.0)
    assert caught.value.result.best.config == configs[0]
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_foreign_proposals_name_the_tuner() -> None:
    class Foreign(Listener):
        def ask(self, n: int) -> Sequence[Config]:
            return [matmul_space().get(0)]

    with pytest.raises(TuningError, match="tuner 'Foreign' proposed a configuration of another space"):
        pb.create_tuner(Foreign, small_space()).ask()


def test_repetitions_are_left_out_with_one_warning() -> None:
    tuner = listening(times=3)
    with pytest.warns(RuntimeWarning, match="tuner 'Listener': proposals not measured: repeated") as caught:
        asked = [tuner.ask(6) for _ in range(3)]
    assert [len(configs) for configs in asked] == [2, 2, 2]
    assert len(caught) == 1


def test_a_tuner_of_your_own_can_be_guarded() -> None:
    space = small_space()
    guarded = AskTell(Listener(space), space)
    assert len(guarded.ask(3)) == 3
