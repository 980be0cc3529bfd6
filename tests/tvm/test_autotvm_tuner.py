"""Tuners and measuring by AutoTVM's names."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from autotvm_tasks import counting, option, sample_records, sample_task

from pegbox.errors import ArgumentError, SpaceError
from pegbox.plugins.tvm import auto_scheduler, autotvm
from pegbox.plugins.tvm.autotvm.measure import LocalBuilder, LocalRunner
from pegbox.plugins.tvm.autotvm.tuner import DropletTuner, GATuner, GridSearchTuner, RandomTuner, Tuner, XGBTuner
from pegbox.plugins.tvm.runners import measuring
from pegbox.records import Journal


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return counting(monkeypatch)


@pytest.mark.parametrize("kind", [RandomTuner, GridSearchTuner, GATuner, XGBTuner, DropletTuner])
def test_every_tuner_finds_the_best_of_its_trials(kind: Any, asked: list[int]) -> None:
    tuner = kind(sample_task(16))
    tuner.tune(n_trial=10, measure_option=option())
    assert len({*asked}) == 10
    assert tuner.best_flops == pytest.approx(2 * 16**3 / 1e-3)
    assert (tuner.best_config.index, tuner.best_iter) == (asked[2], 2)
    assert tuner.best_measure_pair[1].costs == (1e-3,)
    assert tuner.result is not None
    assert len(tuner.result.trials) == 10
    tuner.reset()
    assert (tuner.best_config, tuner.best_flops, tuner.result) == (None, 0.0, None)


def test_a_search_goes_on_where_it_was(asked: list[int]) -> None:
    tuner = GridSearchTuner(sample_task(16))
    for _ in range(2):
        tuner.tune(n_trial=3, measure_option=option())
    assert asked == [*range(6)]
    assert (tuner.best_config, tuner.best_iter) == (tuner.space.get(2), 2)


class TestRanges:
    def test_the_grid_goes_through_its_range(self, asked: list[int]) -> None:
        GridSearchTuner(sample_task(), range_idx=(8, 15)).tune(n_trial=20, measure_option=option())
        assert asked == [*range(8, 16)]

    def test_random_search_stays_in_its_range(self, asked: list[int]) -> None:
        RandomTuner(sample_task(), range_idx=(8, 15)).tune(n_trial=8, measure_option=option())
        assert sorted(asked) == [*range(8, 16)]

    def test_a_range_outside_the_space_is_refused(self) -> None:
        with pytest.raises(ArgumentError, match="the space has the indices 0 to 63"):
            GridSearchTuner(sample_task(), range_idx=(60, 64)).tune(n_trial=4, measure_option=option())


@autotvm.template("testing/filtered")
def filtered(n: int) -> Any:
    autotvm.get_config().multi_filter(lambda e: 8 <= e["tile_x"].size[1] * e["tile_y"].size[1] < 1024)
    return autotvm.task.task.TASK_TABLE["testing/matmul"](n, n, n, "float32")


@pytest.mark.parametrize("pop_size", [32, 100])
def test_the_genetic_algorithm_searches_what_a_filter_leaves(pop_size: int, asked: list[int]) -> None:
    tuner = GATuner(autotvm.task.create(filtered, (128,), "llvm"), pop_size=pop_size)
    assert len(tuner.space) == 43
    tuner.tune(n_trial=43, measure_option=option())
    assert len(asked) == len({*asked}) == 43
    assert all(map(tuner.space.is_index_valid, asked))


class TestModels:
    @pytest.mark.parametrize(
        ("feature_type", "loss_type"), [("itervar", "reg"), ("knob", "rank"), ("curve", "rank-binary"), (None, None)]
    )
    def test_features_and_losses_have_their_names(self, feature_type: str | None, loss_type: str | None) -> None:
        tuner = XGBTuner(sample_task(16), plan_size=8, feature_type=feature_type, loss_type=loss_type)
        tuner.tune(n_trial=4, measure_option=option())
        assert tuner.best_config is not None

    def test_others_are_refused(self) -> None:
        with pytest.raises(ArgumentError, match="feature_type='loops': give one of itervar"):
            XGBTuner(sample_task(16), feature_type="loops")
        with pytest.raises(ArgumentError, match=r"XGBTuner\(optimizer=.*docs/write-a-cost-model.md"):
            XGBTuner(sample_task(16), optimizer=object())
        with pytest.raises(ArgumentError, match=r"XGBTuner\(num_threads=2\): pegbox's tuner decides it"):
            XGBTuner(sample_task(16), num_threads=2)

    def test_history_is_learned_where_it_is_long_enough(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        write = autotvm.callback.log_to_file(str(tmp_path / "a.log"))
        for pair in [*sample_records(6, n=16), *sample_records(5, n=8)]:
            write(None, [pair[0]], [pair[1]])
        for feature_type in (None, "knob"):
            tuner = XGBTuner(sample_task(16), feature_type=feature_type)
            tuner.load_history(autotvm.record.load_from_file(str(tmp_path / "a.log")), min_seed_records=12)
            assert not tuner._transfer
            assert "11 trials, fewer than min_seed_records=12" in caplog.text
            tuner.load_history(autotvm.record.load_from_file(str(tmp_path / "a.log")), min_seed_records=11)
            own, other = tuner._transfer
            np.testing.assert_array_equal(own.costs, np.arange(1.0, 7.0))
            assert (len(own.features), len(other.features)) == (6, 5)
            tuner.tune(n_trial=4, measure_option=option())
            assert tuner.best_config is not None

    @pytest.mark.parametrize("cost", [0.0, float("inf"), float("nan")])
    def test_a_history_with_costs_that_are_not_times_has_failures_there(self, cost: float) -> None:
        (inp, result), *rest = sample_records(6, n=16)
        tuner = XGBTuner(sample_task(16))
        tuner.load_history([(inp, result._replace(costs=(cost,))), *rest], min_seed_records=6)
        (own,) = tuner._transfer
        np.testing.assert_array_equal(own.costs, [np.inf, *np.arange(2.0, 7.0)])

    def test_history_means_nothing_to_tuners_without_a_model(self) -> None:
        GATuner(sample_task()).load_history(sample_records(3))


class BackwardTuner(Tuner):
    """A tuner of a script: from the last index to the first."""

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self.left = [*range(len(task.config_space))]
        self.told: list[int] = []

    def has_next(self) -> bool:
        return bool(self.left)

    def next_batch(self, batch_size: int) -> list[Any]:
        return [self.task.config_space.get(self.left.pop()) for _ in range(min(batch_size, len(self.left)))]

    def update(self, inputs: Any, results: Any) -> None:
        self.told += [inp.config.index for inp in inputs]


class TestScripts:
    def test_a_tuner_of_a_script_searches(self, asked: list[int]) -> None:
        tuner = BackwardTuner(sample_task(8))
        tuner.tune(n_trial=16, measure_option=option())
        assert asked == tuner.told == [*range(15, -1, -1)]
        assert tuner.best_config is not None
        assert tuner.best_config.index == 13

    def test_callbacks_hear_of_every_trial(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        tuner, monitor = GridSearchTuner(sample_task(16)), autotvm.callback.Monitor()
        callbacks = [
            autotvm.callback.progress_bar(4, prefix="[1/1]"),
            autotvm.callback.log_to_file(str(tmp_path / "a.log")),
            monitor,
        ]
        tuner.tune(n_trial=4, measure_option=option(), callbacks=callbacks)
        shown = capsys.readouterr().out
        assert "[1/1] Current/Best:    0.00/   0.01 GFLOPS | Progress: (4/4)" in shown
        assert shown.endswith("Done.\n")
        assert len(monitor.trial_scores()) == len(monitor.trial_timestamps()) == 4
        records = Journal(tmp_path / "a.log").read()
        assert [record.config["index"] for record in records if not record.remeasured] == [0, 1, 2, 3]
        assert {record.tuner for record in records} == {"GridSearchTuner"}

    def test_trials_are_logged(self, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
        with caplog.at_level(logging.DEBUG, "autotvm"):
            callbacks = [autotvm.callback.progress_bar(2)]
            GridSearchTuner(sample_task(16)).tune(2, measure_option=option(), callbacks=callbacks)
        assert [message.partition("\t")[0] for message in caplog.messages] == ["No: 1", "No: 2"]
        assert "GFLOPS: 0.00/0.00" in caplog.messages[0]
        assert not capsys.readouterr().out

    def test_what_a_callback_raises_ends_the_search(self) -> None:
        def stop(tuner: Any, inputs: Any, results: Any) -> None:
            raise StopIteration("enough")

        with pytest.raises(StopIteration, match="enough"):
            GridSearchTuner(sample_task(16)).tune(n_trial=4, measure_option=option(), callbacks=[stop])

    def test_ctrl_c_ends_the_script_and_keeps_the_best(self) -> None:
        def interrupt(tuner: Any, inputs: Any, results: Any) -> None:
            if inputs[0].config.index == 3:
                raise KeyboardInterrupt

        tuner = GridSearchTuner(sample_task(16))
        with pytest.raises(KeyboardInterrupt):
            tuner.tune(n_trial=8, measure_option=option(), callbacks=[interrupt])
        assert tuner.best_config is not None
        assert tuner.best_config.index == 2

    def test_early_stopping(self, asked: list[int]) -> None:
        GridSearchTuner(sample_task()).tune(n_trial=60, measure_option=option(), early_stopping=5)
        assert len(asked) <= 16

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"measure_option": {}}, r"give autotvm\.measure_option"),
            ({"measure_option": None}, "measure_option"),
            ({"callbacks": [3]}, "3: give functions of"),
            ({"n_trial": -1}, "trials=-1"),
        ],
    )
    def test_bad_arguments_are_shown(self, given: dict[str, Any], message: str) -> None:
        with pytest.raises(ArgumentError, match=message):
            GridSearchTuner(sample_task(16)).tune(**{"n_trial": 2, "measure_option": option(), **given})

    def test_an_empty_space_is_refused(self) -> None:
        @autotvm.template("testing/empty")
        def empty(n: int) -> Any:
            autotvm.get_config().multi_filter(lambda e: False)
            return autotvm.task.task.TASK_TABLE["testing/matmul"](n, n, n, "float32")

        task = autotvm.task.create(empty, (16,), "llvm")
        with pytest.raises(SpaceError, match="no valid config"):
            XGBTuner(task).tune(n_trial=2, measure_option=option())


class TestMeasuring:
    def test_options_reach_the_measurer(self) -> None:
        runner = LocalRunner(number=5, repeat=2, min_repeat_ms=20, timeout=3, enable_cpu_cache_flush=True)
        options = {"repeats": 2, "min_repeat_ms": 20, "flush_cache": True, "build_timeout": 7, "builders": 2}
        assert measuring(LocalBuilder(timeout=7, n_parallel=2), runner) == {"timeout": 3, "measure_options": options}
        assert autotvm.measure_option(builder="local", runner="local") == {"timeout": 10, "measure_options": {}}
        assert auto_scheduler.LocalRunner is autotvm.LocalRunner

    def test_other_machines_and_options_are_refused(self) -> None:
        with pytest.raises(AttributeError, match=r"autotvm\.RPCRunner is not here: .*docs/write-a-runner\.md"):
            autotvm.RPCRunner("rasp3b", "localhost", 9190, number=4)
        with pytest.raises(ArgumentError, match="runner='rpc'"):
            autotvm.measure_option(builder="local", runner="rpc")
        with pytest.raises(ArgumentError, match=r"LocalRunner\(cooldown_interval=0\.5\): .*; leave it out"):
            LocalRunner(cooldown_interval=0.5)
