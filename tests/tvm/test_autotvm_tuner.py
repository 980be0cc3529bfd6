"""Tuners and measuring by AutoTVM's names."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from autotvm_tasks import CountingRunner, option, sample_records, sample_task

from pegbox.errors import ArgumentError, MeasureError, SpaceError
from pegbox.plugins.tvm import autotvm, notice
from pegbox.plugins.tvm.autotvm.measure import LocalBuilder, LocalRunner, MeasureInput, create_measure_batch
from pegbox.plugins.tvm.autotvm.tuner import DropletTuner, GATuner, GridSearchTuner, RandomTuner, Tuner, XGBTuner
from pegbox.plugins.tvm.autotvm.utils import format_si_prefix
from pegbox.records import Journal


@pytest.mark.parametrize("kind", [RandomTuner, GridSearchTuner, GATuner, XGBTuner, DropletTuner])
def test_every_tuner_finds_the_best_of_its_trials(kind: Any) -> None:
    tuner, runner = kind(sample_task(16)), CountingRunner()
    tuner.tune(n_trial=10, measure_option=option(runner))
    assert len({*runner.asked}) == 10
    assert tuner.best_flops == pytest.approx(2 * 16**3 / 1e-3)
    assert (tuner.best_config.index, tuner.best_iter) == (runner.asked[2], 2)
    assert tuner.best_measure_pair[1].costs == (1e-3,)
    assert sorted(tuner.visited) == sorted(runner.asked)
    tuner.reset()
    assert (tuner.best_config, tuner.best_flops, tuner.visited) == (None, 0.0, [])


class TestRanges:
    def test_the_grid_goes_through_its_range(self) -> None:
        task = sample_task()
        whole = GridSearchTuner(task)
        assert (whole.range_length, whole.index_offset) == (64, 0)
        tuner, runner = GridSearchTuner(task, range_idx=(8, 15)), CountingRunner()
        assert (tuner.range_length, tuner.index_offset, tuner.visited_max) == (8, 8, 8)
        tuner.tune(n_trial=20, measure_option=option(runner))
        assert runner.asked == [*range(8, 16)]
        assert tuner.counter == 8
        assert not tuner.has_next()

    def test_random_search_stays_in_its_range(self) -> None:
        tuner, runner = RandomTuner(sample_task(), range_idx=(8, 15)), CountingRunner()
        tuner.tune(n_trial=8, measure_option=option(runner))
        assert sorted(runner.asked) == [*range(8, 16)]

    def test_a_range_outside_the_space_is_refused(self) -> None:
        with pytest.raises(ArgumentError, match="the space has the indices 0 to 63"):
            GridSearchTuner(sample_task(), range_idx=(60, 64))


@pytest.mark.parametrize("pop_size", [32, 100])
@pytest.mark.parametrize("filtered", [False, True])
def test_the_genetic_algorithm_searches_what_a_filter_leaves(pop_size: int, filtered: bool) -> None:
    task = sample_task()
    if filtered:
        task.config_space.multi_filter(lambda e: 8 <= e["tile_x"].size[1] * e["tile_y"].size[1] < 1024)
    tuner, runner = GATuner(task, pop_size=pop_size), CountingRunner()
    assert len(tuner.space) == (43 if filtered else 64)
    tuner.tune(n_trial=100, measure_option=option(runner))
    assert len(runner.asked) == len({*runner.asked}) == len(tuner.space)
    assert all(map(tuner.space.is_index_valid, runner.asked))


class TestModels:
    @pytest.mark.parametrize(
        ("feature_type", "loss_type"), [("itervar", "reg"), ("knob", "rank"), ("curve", "rank-binary"), (None, None)]
    )
    def test_features_and_losses_have_their_names(self, feature_type: str | None, loss_type: str | None) -> None:
        tuner = XGBTuner(sample_task(16), plan_size=8, feature_type=feature_type, loss_type=loss_type)
        assert len(tuner.next_batch(4)) == 4

    def test_others_are_refused(self) -> None:
        with pytest.raises(ArgumentError, match="feature_type='loops'"):
            XGBTuner(sample_task(16), feature_type="loops")
        with pytest.raises(ArgumentError, match="searched by simulated annealing"):
            XGBTuner(sample_task(16), optimizer=object())

    def test_options_that_mean_nothing_are_told_once(self) -> None:
        with pytest.warns(UserWarning, match=r"XGBTuner\(num_threads=\) changes nothing") as told:
            _ = [XGBTuner(sample_task(16), num_threads=count) for count in (1, 2)]
        assert len(told) == 1

        with pytest.warns(UserWarning, match="set_error_threshold changes nothing"):
            XGBTuner(sample_task(16)).set_error_threshold(10)

    def test_history_is_learned_where_it_is_long_enough(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        write = autotvm.callback.log_to_file(str(tmp_path / "a.log"))
        for pair in [*sample_records(6, n=16), *sample_records(5, n=8)]:
            write(None, [pair[0]], [pair[1]])
        tuner = XGBTuner(sample_task(16))
        tuner.load_history(autotvm.record.load_from_file(str(tmp_path / "a.log")), min_seed_records=12)
        assert not tuner.inputs().get("transfer")
        assert "11 trials, fewer than min_seed_records=12" in caplog.text
        tuner.load_history(autotvm.record.load_from_file(str(tmp_path / "a.log")), min_seed_records=11)
        own, other = tuner.inputs()["transfer"]
        np.testing.assert_array_equal(own.costs, np.arange(1.0, 7.0))
        assert (len(own.features), len(other.features)) == (6, 5)
        tuner.tune(n_trial=4, measure_option=option())
        assert tuner.best_config is not None

    def test_history_needs_features_of_programs(self) -> None:
        tuner = XGBTuner(sample_task(16), feature_type="knob")
        with pytest.warns(UserWarning, match="only features of programs mean the same for every shape"):
            tuner.load_history(sample_records(5, n=16), min_seed_records=5)
        assert len(tuner.next_batch(4)) == 4

    def test_history_means_nothing_to_tuners_without_a_model(self) -> None:
        GATuner(sample_task()).load_history(sample_records(3))

    def test_it_can_be_told_by_hand(self) -> None:
        tuner = XGBTuner(sample_task())
        records = sample_records(5)
        tuner.update([inp for inp, _ in records], [result for _, result in records])
        assert (tuner.xs, tuner.visited) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
        assert tuner.ys == pytest.approx([2 * 128**3 / cost for cost in (1, 2, 3, 4, 5)])
        assert {config.index for config in tuner.next_batch(8)}.isdisjoint(tuner.xs)
        assert tuner.has_next()


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
    def test_a_tuner_of_a_script_searches(self) -> None:
        tuner, runner = BackwardTuner(sample_task(8)), CountingRunner()
        tuner.tune(n_trial=100, measure_option=option(runner))
        assert runner.asked == tuner.told == [*range(15, -1, -1)]
        assert tuner.best_config is not None
        assert tuner.best_config.index == 13

    def test_one_that_changes_what_a_built_in_one_learns_is_heard(self) -> None:
        heard: list[int] = []

        class Listening(GridSearchTuner):
            def update(self, inputs: Any, results: Any) -> None:
                heard.extend(inp.config.index for inp in inputs)
                super().update(inputs, results)

        Listening(sample_task(8)).tune(n_trial=3, measure_option=option())
        assert heard == [0, 1, 2]

    def test_callbacks_hear_of_every_trial(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        saved: list[Any] = []

        class Database:
            def save(self, inp: Any, result: Any) -> None:
                saved.append((inp, result))

        tuner, monitor = GridSearchTuner(sample_task(16)), autotvm.callback.Monitor()
        callbacks = [
            autotvm.callback.progress_bar(4, prefix="[1/1]", si_prefix="M"),
            autotvm.callback.log_to_file(str(tmp_path / "a.log")),
            autotvm.callback.log_to_database(Database()),
            monitor,
        ]
        tuner.tune(n_trial=4, measure_option=option(), callbacks=callbacks, si_prefix="M")
        shown = capsys.readouterr().out
        assert "[1/1] Current/Best:    4.10/   8.19 MFLOPS | Progress: (4/4)" in shown
        assert shown.endswith("Done.\n")
        assert len(saved) == len(monitor.trial_scores()) == len(monitor.trial_timestamps()) == 4
        records = Journal(tmp_path / "a.log").read()
        assert [record.config["index"] for record in records] == [0, 1, 2, 3]
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

        runner = CountingRunner()
        with pytest.raises(StopIteration, match="enough"):
            GridSearchTuner(sample_task(16)).tune(n_trial=4, measure_option=option(runner), callbacks=[stop])
        assert not autotvm.GLOBAL_SCOPE.in_tuning

    def test_ctrl_c_ends_the_script_and_keeps_the_best(self) -> None:
        def interrupt(tuner: Any, inputs: Any, results: Any) -> None:
            if inputs[0].config.index == 3:
                raise KeyboardInterrupt

        tuner = GridSearchTuner(sample_task(16))
        with pytest.raises(KeyboardInterrupt):
            tuner.tune(n_trial=8, measure_option=option(), callbacks=[interrupt])
        assert tuner.best_config is not None
        assert tuner.best_config.index == 2

    def test_early_stopping(self) -> None:
        runner = CountingRunner()
        GridSearchTuner(sample_task()).tune(n_trial=60, measure_option=option(runner), early_stopping=5)
        assert len(runner.asked) <= 16

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"measure_option": {}}, r"give what autotvm\.measure_option"),
            ({"measure_option": None}, "measure_option"),
            ({"callbacks": [3]}, "3 is no function of"),
            ({"si_prefix": "X"}, "si_prefix='X'"),
            ({"n_trial": -1}, "trials=-1"),
        ],
    )
    def test_bad_arguments_are_shown(self, given: dict[str, Any], message: str) -> None:
        with pytest.raises(ArgumentError, match=message):
            GridSearchTuner(sample_task(16)).tune(**{"n_trial": 2, "measure_option": option(), **given})

    def test_an_empty_space_is_refused(self) -> None:
        task = sample_task(16)
        task.config_space.multi_filter(lambda e: False)
        with pytest.raises(SpaceError, match="no valid config"):
            XGBTuner(task).tune(n_trial=2, measure_option=option())


class TestMeasuring:
    def test_options_reach_the_measurer(self) -> None:
        runner = LocalRunner(number=5, repeat=2, min_repeat_ms=20, timeout=3, enable_cpu_cache_flush=True)
        assert runner.options == {"repeats": 2, "min_repeat_ms": 20.0, "flush_cache": True}
        assert (runner.number, runner.timeout) == (5, 3)
        assert LocalBuilder(timeout=7, n_parallel=2).options == {"build_timeout": 7.0, "builders": 2}
        assert isinstance(autotvm.measure_option(builder="local", runner="local")["runner"], LocalRunner)

    def test_other_machines_are_refused(self) -> None:
        with pytest.raises(MeasureError, match=r"no RPC tracker.*LocalRunner"):
            autotvm.RPCRunner("rasp3b", "localhost", 9190, number=4)
        with pytest.raises(MeasureError, match=r"request_remote\('rasp3b'\).*export_library"):
            autotvm.measure.request_remote("rasp3b", "localhost", 9190, timeout=10)
        with pytest.raises(ArgumentError, match="runner='rpc'"):
            autotvm.measure_option(builder="local", runner="rpc")

    def test_a_loader_of_modules_is_taken_and_said_to_mean_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(notice, "_said", set())
        loader = autotvm.measure.default_module_loader(print)
        with pytest.raises(MeasureError, match="runners load candidates themselves"):
            loader(None, None)
        with pytest.warns(UserWarning, match="module_loader"):
            LocalRunner(module_loader=loader)

    def test_inputs_are_measured_one_by_one(self) -> None:
        task = sample_task(16)
        measure = create_measure_batch(task, option())
        inputs = [MeasureInput(task.target, task, task.config_space.get(index)) for index in (3, 1)]
        assert [result.costs for result in measure(inputs)] == [(3e-3,), (2e-3,)]

    def test_what_was_built_is_a_library(self) -> None:
        task = sample_task(16)
        inp = MeasureInput(task.target, task, task.config_space.get(7))
        builder = LocalBuilder()
        (built,) = builder.build([inp])
        assert [shape for shape, _ in built.arg_info] == [(16, 16)] * 3
        assert Path(built.filename).stat().st_size > 0


@pytest.mark.parametrize(("prefix", "value"), [("G", 2.0), ("M", 2000.0), ("", 2e9), ("m", 2e12)])
def test_numbers_with_prefixes(prefix: str, value: float) -> None:
    assert format_si_prefix(2e9, prefix) == pytest.approx(value)
