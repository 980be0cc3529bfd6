"""Searches by TVM's names: policies, records, cost models, callbacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ansor_workloads import QUICK, ansor_matmul, artificial

import pegbox as pb
from pegbox.errors import ArgumentError, RecordError, TuningError, UnknownName
from pegbox.measure import Failed, FailureKind
from pegbox.plugins import tvm
from pegbox.plugins.tvm import auto_scheduler, te
from pegbox.plugins.tvm.auto_scheduler import (
    MeasureInput,
    MeasureResult,
    PreloadMeasuredStates,
    RecordToFile,
    SearchTask,
    SketchPolicy,
    TuningOptions,
    XGBModel,
    load_records,
)
from pegbox.plugins.tvm.auto_scheduler.compute_dag import State
from pegbox.records import Journal


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return artificial(monkeypatch)


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(tmp_path / "log.json")


def task_of(*args: int) -> SearchTask:
    return SearchTask(func=ansor_matmul, args=args or (16, 16, 16), target="llvm -num-cores 1")


def tune(task: SearchTask, log: str, trials: int = 4, policy: Any = None, **options: Any) -> None:
    policy = policy or SketchPolicy(task, XGBModel(), QUICK, verbose=0)
    task.tune(TuningOptions(trials, verbose=0, measure_callbacks=[RecordToFile(log)], **options), policy)


def test_a_task_is_tuned_applied_and_printed(log: str) -> None:
    """The only one that measures."""
    task = task_of()
    runner = auto_scheduler.LocalRunner(timeout=5, repeat=1, min_repeat_ms=1)
    tune(task, log, 3, runner=runner)
    sch, args = task.apply_best(log)
    a, b, out = np.ones((16, 16), "float32"), np.eye(16, dtype="float32"), np.empty((16, 16), "float32")
    pb.build(sch, args)(a, b, out)
    np.testing.assert_allclose(out, a)
    scope: dict[str, Any] = {"te": te}
    exec(task.print_best(log), scope)
    assert str(pb.lower(scope["s"], [scope[t.name] for t in args])) == str(pb.lower(sch, args))
    assert all(result.error_no == 0 for _, result in load_records(log))


def test_every_trial_is_recorded_and_the_best_is_found(log: str, opened: list[dict[str, Any]]) -> None:
    task = task_of()
    tune(task, log, 6)
    found = list(load_records(log))
    assert len(found) == 6
    assert {inp.task.workload_key for inp, _ in found} == {task.workload_key}
    assert str(found[0][0].task.target) == str(task.target)
    inp, best = auto_scheduler.load_best_record(log, task.workload_key, task.target)
    assert inp is not None
    assert best is not None
    assert best.result.cost == min(result.result.cost for _, result in found)
    assert str(pb.lower(*task.apply_best(log))) == str(pb.lower(*inp.state.schedule()))
    assert auto_scheduler.load_best_record(log, "another") == (None, None)
    inputs, results = auto_scheduler.RecordReader(log).read_lines(max_lines=2, skip_lines=1)
    assert [r for _, r in found[1:3]] == results
    assert [inp.state for inp in inputs] == [inp.state for inp, _ in found[1:3]]


def test_options_of_builder_and_runner_arrive(log: str, opened: list[dict[str, Any]]) -> None:
    runner = auto_scheduler.LocalRunner(timeout=3, repeat=2, min_repeat_ms=7, enable_cpu_cache_flush=True)
    tune(task_of(), log, 1, builder=auto_scheduler.LocalBuilder(timeout=4, n_parallel=1), runner=runner)
    wanted = {"timeout": 3, "repeats": 2, "min_repeat_ms": 7, "flush_cache": True, "build_timeout": 4, "builders": 1}
    assert wanted.items() <= opened[0].items()
    tune(task_of(), log, 1)
    assert not {"repeats", "min_repeat_ms", "flush_cache"} & opened[1].keys()
    for option in ({"builder": "remote"}, {"runner": 3}):
        with pytest.raises(ArgumentError, match="local"):
            TuningOptions(1, **option)  # type: ignore[arg-type]


def test_arrays_of_a_task_stand_for_random_inputs(log: str, opened: list[dict[str, Any]]) -> None:
    @auto_scheduler.register_workload("ansor_take", override=True)
    def take() -> list[te.Tensor]:
        x = te.placeholder((10,), name="X", dtype="int32")
        index = te.placeholder((1,), name="Index", dtype="int32")
        return [x, index, te.compute((1,), lambda i: x[index[i]], name="Y")]

    given = {"Index": np.array([5], "int32")}
    task = SearchTask(func=take, target="llvm", task_inputs=given)
    tune(task, log, 1)
    assert opened[0]["inputs"]["Index"].tolist() == [5]


def test_callbacks_hear_of_each_batch(log: str, opened: list[dict[str, Any]]) -> None:
    heard: list[tuple[object, list[MeasureInput], list[MeasureResult]]] = []

    class Listener(auto_scheduler.measure.PythonBasedMeasureCallback):
        def callback(self, policy: Any, inputs: list[MeasureInput], results: list[MeasureResult]) -> None:
            heard.append((policy, inputs, results))

    task, policy = task_of(), SketchPolicy(task_of(), XGBModel(), QUICK, verbose=0)
    task.tune(TuningOptions(5, num_measures_per_round=2, verbose=0, measure_callbacks=[Listener()]), policy)
    assert [len(inputs) for _, inputs, _ in heard] == [2, 2, 1]
    assert {id(of) for of, _, _ in heard} == {id(policy)}
    assert all(isinstance(r, MeasureResult) and r.error_no == 0 for _, _, results in heard for r in results)
    with pytest.raises(ArgumentError, match="RecordToFile"):
        task.tune(TuningOptions(1, verbose=0, measure_callbacks=[print]))  # type: ignore[list-item]


def test_a_search_ends_early_and_without_trials_measures_nothing(log: str, opened: list[dict[str, Any]]) -> None:
    tune(task_of(), log, 100, early_stopping=3)
    assert 3 < len(list(load_records(log))) < 100
    other = task_of(8, 8, 8)
    tune(other, log, 0)
    with pytest.raises(RecordError, match=r"no record of .*8, 8, 8.*tune it first"):
        other.apply_best(log)


def test_a_search_may_be_written_as_before_tvm_0_8(log: str, opened: list[dict[str, Any]]) -> None:
    task = auto_scheduler.create_task(ansor_matmul, (16, 16, 16), "llvm -num-cores 1")
    options = TuningOptions(4, measure_callbacks=[RecordToFile(log)], verbose=0)
    schedule, args = auto_scheduler.auto_schedule(task, tuning_options=options)
    inp, _ = auto_scheduler.load_best(log, task.workload_key)
    assert [t.name for t in args] == ["A", "B", "C"]
    wanted = task.compute_dag.apply_steps_from_state(inp.state)
    assert str(tvm.lower(schedule, args)) == str(tvm.lower(*wanted))
    with pytest.raises(TuningError, match="no state ran; give TuningOptions"):
        auto_scheduler.auto_schedule(task_of())


def test_a_search_goes_on_from_a_file_and_measures_nothing_again(log: str, opened: list[dict[str, Any]]) -> None:
    task = task_of()
    tune(task, log, 5)
    model = XGBModel()
    model.update_from_file(log)
    for policy in (
        SketchPolicy(task, XGBModel(), QUICK, verbose=0, init_search_callbacks=[PreloadMeasuredStates(log)]),
        SketchPolicy(task, model, QUICK, verbose=0),
    ):
        fresh = log + policy.program_cost_model.__class__.__name__ + str(id(policy))
        tune(task, fresh, 4, policy)
        before, after = ({inp.state.config for inp, _ in load_records(file)} for file in (log, fresh))
        assert len(after) == 4
        assert not before & after


def test_a_policy_goes_on_in_rounds(opened: list[dict[str, Any]]) -> None:
    policy, options = SketchPolicy(task_of(), verbose=0), TuningOptions(verbose=0)
    first, results = policy.continue_search_one_round(3, options)
    second, _ = policy.continue_search_one_round(2, options)
    assert (len(first), len(results), len(second)) == (3, 3, 2)
    assert not {inp.state for inp in first} & {inp.state for inp in second}


def test_a_file_that_is_not_there_yet_holds_nothing(log: str, opened: list[dict[str, Any]]) -> None:
    policy = SketchPolicy(task_of(), verbose=0, init_search_callbacks=[PreloadMeasuredStates(log)])
    tune(task_of(), log, 2, policy)
    assert len(list(load_records(log))) == 2


def test_ctrl_c_ends_a_search_and_keeps_what_was_measured(log: str, opened: list[dict[str, Any]]) -> None:
    class Impatient(auto_scheduler.measure.PythonBasedMeasureCallback):
        def callback(self, policy: Any, inputs: list[MeasureInput], results: list[MeasureResult]) -> None:
            raise KeyboardInterrupt

    task, policy = task_of(), SketchPolicy(task_of(), verbose=0)
    options = TuningOptions(6, num_measures_per_round=2, verbose=0, measure_callbacks=[RecordToFile(log), Impatient()])
    task.tune(options, policy)
    assert len(list(load_records(log))) == 2
    with pytest.raises(KeyboardInterrupt):
        policy.continue_search_one_round(2, options)
    assert len(list(load_records(log))) == 4
    with pytest.raises(KeyboardInterrupt):
        auto_scheduler.TaskScheduler([task, task_of(8, 8, 8)], callbacks=[]).tune(options, "sketch.random")
    assert len(list(load_records(log))) == 6


def test_failures_have_the_numbers_of_tvm() -> None:
    for kind, number in ((FailureKind.INVALID, 1), (FailureKind.WRONG_RESULT, 5), (FailureKind.TIMEOUT, 7)):
        result = MeasureResult.of(Failed(kind, "why", 0.5))
        assert (result.error_no, result.error_msg, result.all_cost) == (number, "why", 0.5)
        assert isinstance(result.result, Failed)
        assert result.result.kind is kind
        assert result.costs[0] > 1e9


def test_parameters_of_a_policy_are_options_of_the_tuner() -> None:
    plain, other = (
        SketchPolicy(task_of(64, 64, 64), XGBModel(num_warmup_sample=5), params=params, verbose=0)
        for params in (None, {"evolutionary_search_population": 20})
    )
    assert plain.session.name == "EvolutionTuner(num_warmup=5)"
    assert other.session.name == "EvolutionTuner(population=20, num_warmup=5)"
    assert SketchPolicy(task_of(), verbose=0).session.name == "random"
    assert SketchPolicy(task_of(), "ridge", verbose=0).session.name == "EvolutionTuner(cost_model='ridge')"
    for name in ("populaton", "max_vectorize_size"):
        with pytest.raises(ArgumentError, match=rf"SketchPolicy\({name}=3\): .*; leave it out"):
            SketchPolicy(task_of(), params={name: 3})
    with pytest.raises(ArgumentError, match="give PreloadMeasuredStates"):
        SketchPolicy(task_of(), init_search_callbacks=[print])  # type: ignore[list-item]


def trials_of(task: SearchTask, *costs: float) -> tuple[list[MeasureInput], list[MeasureResult]]:
    inputs = [MeasureInput(task, State(task.inner, task.inner.space.get(n))) for n in range(len(costs))]
    return inputs, [MeasureResult((cost,), 0, "", 0.2, 1) for cost in costs]


def test_a_cost_model_is_shown_trials(opened: list[dict[str, Any]]) -> None:
    task, model = task_of(), XGBModel(seed=3)
    model.update(*trials_of(task, 0.5, 1e-9, 0.7))
    model.update(*trials_of(task_of(8, 8, 8), 0.1))  # of another task
    policy = SketchPolicy(task, model, QUICK, verbose=0)
    best = policy.search(TuningOptions(2, verbose=0))
    assert best is not None
    assert (best.config.index, policy.session.seed) == (1, 3)


def test_records_are_saved_and_read_again(log: str) -> None:
    inputs, results = trials_of(task_of(), 0.1, 0.2)
    results[1] = MeasureResult((1e20,), 7, "too long", 0.2, 1)
    auto_scheduler.save_records(log, inputs, results)
    found = list(load_records(log))
    assert [result for _, result in found] == results
    assert [inp.state for inp, _ in found] == [inp.state for inp in inputs]
    assert len(Journal(log).read()) == 2


@pytest.mark.parametrize("costs", [(), (-1.0,), (0.0,), (float("inf"),)])
def test_costs_that_are_not_times_are_not_saved(log: str, costs: tuple[float, ...]) -> None:
    inputs, _ = trials_of(task_of(), 0.1)
    with pytest.raises(RecordError, match=r"cannot be recorded: costs \[.*finite and above 0"):
        auto_scheduler.save_records(log, inputs, [MeasureResult(costs, 0, "", 0.2, 1)])
    assert not Path(log).exists() or not Path(log).read_text()


def test_numbers_of_numpy_are_saved(log: str) -> None:
    inputs, _ = trials_of(task_of(), 0.1)
    result = MeasureResult((np.float32(0.5),), 0, "", np.float64(0.2), np.int64(1))  # type: ignore[arg-type]
    auto_scheduler.save_records(log, inputs, [result])
    assert [found.costs for _, found in load_records(log)] == [(0.5,)]


def test_records_that_do_not_fit_are_refused(log: str) -> None:
    auto_scheduler.save_records(log, *trials_of(task_of(), 0.1))
    text = Path(log).read_text()
    Path(log).write_text(text.replace(json.loads(text)["space"], "0" * 64))
    with pytest.raises(RecordError, match="are from the space 000000000000"):
        list(load_records(log))
    Path(log).write_text(text.replace("ansor_matmul", "unheard_of"))
    with pytest.raises(UnknownName, match="no workload 'unheard_of'"):
        list(load_records(log))


ANSOR = {"i": [['["matmul", 16]', "llvm", [6, 64], "", 1], [[], [["SP", 2, 0, 16, [4], 1]]]], "r": [[0.1], 0, 0.2, 1]}


def test_logs_of_tvm_are_refused(log: str) -> None:
    Path(log).write_text("# a comment\n" + json.dumps({**ANSOR, "v": "v0.6"}) + "\n")
    for read in (lambda: list(load_records(log)), lambda: task_of().apply_best(log)):
        with pytest.raises(RecordError, match=log):
            read()


def test_modes_that_are_not_there_are_refused(log: str) -> None:
    with pytest.raises(ArgumentError, match="print_mode='cuda'"):
        task_of().print_best(log, print_mode="cuda")
