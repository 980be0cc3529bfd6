"""Searches by TVM's names: policies, records, cost models, custom rules, callbacks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ansor_workloads import QUICK, ansor_matmul, artificial, matmul_relu

import pegbox as pb
from pegbox.errors import ArgumentError, RecordError, TemplateError, TuningError
from pegbox.measure import Failed, FailureKind
from pegbox.plugins import tvm
from pegbox.plugins.tvm import auto_scheduler, te
from pegbox.plugins.tvm.auto_scheduler import (
    MeasureInput,
    MeasureResult,
    PreloadCustomSketchRule,
    PreloadMeasuredStates,
    RecordToFile,
    SearchTask,
    SketchPolicy,
    TuningOptions,
    XGBModel,
    load_records,
)
from pegbox.plugins.tvm.auto_scheduler.loop_state import State, StateObject
from pegbox.records import Journal

APPLY_AND_SKIP_REST = PreloadCustomSketchRule.APPLY_AND_SKIP_REST


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
    (inp, result), *_ = load_records(log)
    inputs = [MeasureInput(task, inp.state)]
    built = auto_scheduler.LocalBuilder().build(inputs)
    assert [each.error_no for each in built] == [0]
    assert result.error_no == 0
    assert [type(cost.value) for cost in result.costs] == [float]


def test_every_trial_is_recorded_and_the_best_is_found(log: str, opened: list[dict[str, Any]]) -> None:
    task = task_of()
    tune(task, log, 6)
    found = list(load_records(log))
    assert len(found) == 6
    assert {inp.workload_key for inp, _ in found} == {task.workload_key}
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
    task = SearchTask(func=take, target="llvm", task_inputs=given, task_inputs_overwrite=True)
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


def test_a_measurer_tells_its_callbacks(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []

    class Told(auto_scheduler.measure.PythonBasedMeasureCallback):
        def callback(self, policy: Any, inputs: list[MeasureInput], results: list[MeasureResult]) -> None:
            heard.append(len(results))

    class Instant:
        def __init__(self, *_: Any, **__: Any) -> None: ...
        def __enter__(self) -> Instant:
            return self

        def __exit__(self, *_: object) -> None: ...
        def measure(self, configs: Any) -> Any:
            return [(config, Failed(FailureKind.TIMEOUT, "late")) for config in configs]

    monkeypatch.setattr(auto_scheduler.measure, "LocalMeasurer", Instant)
    task = task_of()
    measurer = auto_scheduler.measure.ProgramMeasurer(
        auto_scheduler.LocalBuilder(), auto_scheduler.LocalRunner(), [RecordToFile(log), Told()]
    )
    states = SketchPolicy(task, verbose=0).sample_initial_population()[:2]
    measurer.measure(task, None, [MeasureInput(task, state) for state in states])
    assert (heard, measurer.ct) == ([2], 2)
    assert [result.error_no for _, result in load_records(log)] == [7, 7]


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
        before, after = ({inp.state for inp, _ in load_records(file)} for file in (log, fresh))
        assert len(after) == 4
        assert not before & after


def test_a_policy_goes_on_in_rounds(opened: list[dict[str, Any]]) -> None:
    policy = SketchPolicy(task_of(), verbose=0)
    measurer = TuningOptions(verbose=0).measurer()
    first, results = policy.continue_search_one_round(3, measurer)
    second, _ = policy.continue_search_one_round(2, measurer)
    assert (len(first), len(results), len(second), measurer.ct) == (3, 3, 2, 5)
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
        policy.continue_search_one_round(2, options.measurer())
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


def test_the_empty_policy_measures_the_computation_as_it_is(log: str, opened: list[dict[str, Any]]) -> None:
    task = task_of()
    tune(task, log, 2, auto_scheduler.EmptyPolicy(task))
    (found,) = load_records(log)
    assert found[0].state == task.compute_dag.init_state
    assert "split" not in task.print_best(log)
    again = SearchTask(workload_key=task.workload_key, target=task.target)
    assert str(pb.lower(*again.apply_best(log))) == str(pb.lower(*task.compute_dag.init_state.schedule()))


def split_rule(lengths: Sequence[int | None]) -> PreloadCustomSketchRule:
    def meet(policy: SketchPolicy, state: StateObject, stage_id: int) -> int:
        return APPLY_AND_SKIP_REST if stage_id == 2 else PreloadCustomSketchRule.PASS

    def apply(policy: SketchPolicy, state: StateObject, stage_id: int) -> list[list[Any]]:
        own = State(state, policy.search_task.compute_dag)
        c = own.stage_ops[2]
        changed = own.copy()
        changed.split(c, changed[c].iters[0], lengths)
        return [[own.state_object, -1], [changed.state_object, -1]]

    return PreloadCustomSketchRule(meet, apply, "cut rows")


def test_a_rule_of_a_script_makes_sketches(log: str, opened: list[dict[str, Any]]) -> None:
    task = task_of()
    policy = SketchPolicy(task, XGBModel(), QUICK, verbose=0, init_search_callbacks=[split_rule([4, 2])])
    plain, cut = policy.generate_sketches()
    assert [it.range.extent for it in plain.stages[2].iters if it.range] == [16, 16, 16]
    assert [it.range.extent for it in cut.stages[2].iters if it.range] == [2, 4, 2, 16, 16]
    assert [plain.sketch.name, cut.sketch.name] == ["plain", "cut rows"]
    tune(task, log, 4, policy)
    assert task.apply_best(log)[1][0].name == "A"
    tune(task, log, 2)  # records of both spaces in one file
    assert len(list(load_records(log))) == 6


def test_lengths_that_a_rule_leaves_open_are_searched(log: str, opened: list[dict[str, Any]]) -> None:
    policy = SketchPolicy(task_of(), XGBModel(), QUICK, verbose=0, init_search_callbacks=[split_rule([None])])
    assert [it.range for it in policy.generate_sketches()[1].stages[2].iters[:2]] == [None, None]
    tune(task_of(), log, 8, policy)
    loops = [inp.state.stages[2].iters for inp, _ in load_records(log)]
    assert len({tuple(it.range for it in iters) for iters in loops}) > 2


def test_a_rule_that_gives_something_else_is_named() -> None:
    rule = PreloadCustomSketchRule(lambda *_: APPLY_AND_SKIP_REST, lambda *_: [["nothing", -1]], "odd rule")
    with pytest.raises(TemplateError, match=r"odd rule at stage C.*state_object"):
        SketchPolicy(task_of(), init_search_callbacks=[rule]).generate_sketches()
    with pytest.raises(TemplateError, match="gave 7; give PASS"):
        SketchPolicy(
            task_of(), init_search_callbacks=[PreloadCustomSketchRule(lambda *_: 7, lambda *_: [])]
        ).generate_sketches()


def test_records_of_a_rule_that_is_not_there_are_refused(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    artificial(monkeypatch)
    task = task_of(4, 4, 16)
    tune(task, log, 2, SketchPolicy(task, verbose=0, init_search_callbacks=[split_rule([2])]))
    monkeypatch.setattr("pegbox.plugins.tvm.auto_scheduler.base_task._SPACES", {})
    with pytest.raises(RecordError, match="SketchPolicy with these rules first"):
        task.apply_best(log)


def test_sketches_and_random_states(capsys: pytest.CaptureFixture[str]) -> None:
    task = SearchTask(func=matmul_relu, args=(64,), target="llvm -num-cores 1", workload_key=None)
    policy = SketchPolicy(task, verbose=0, params={"sample_init_min_population": 7})
    assert {s.sketch.name for s in policy.generate_sketches(True)} >= {"tile", "fuse(1)", "fuse(2)"}
    assert "==== fuse(1) ====" in capsys.readouterr().out
    states = policy.sample_initial_population()
    assert len(states) == 7
    assert all(task.compute_dag.print_python_code_from_state(state) for state in states)
    assert len(policy.evolutionary_search(states, 3)) == 3


def test_parameters_of_a_policy_change_its_space_and_its_tuner() -> None:
    plain, other = (
        SketchPolicy(task_of(64, 64, 64), XGBModel(num_warmup_sample=5), params=params, verbose=0)
        for params in (None, {"cpu_multi_level_tiling_structure": "SSRS", "evolutionary_search_population": 20})
    )
    assert len(other.generate_sketches()[0].stages[2].iters) < len(plain.generate_sketches()[0].stages[2].iters)
    assert plain.session.name == "EvolutionTuner(num_warmup=5)"
    assert other.session.name == "EvolutionTuner(population=20, num_warmup=5)"
    assert SketchPolicy(task_of(), verbose=0).session.name == "random"
    with pytest.raises(ArgumentError, match="there is no 'populaton'"):
        SketchPolicy(task_of(), params={"populaton": 3})
    with pytest.warns(UserWarning, match="max_vectorize_size"):
        SketchPolicy(task_of(), params={"max_vectorize_size": 8})


def test_cost_models_learn_from_states_and_from_files(tmp_path: Path) -> None:
    task = task_of(32, 32, 32)
    states = SketchPolicy(task, verbose=0).sample_initial_population()[:20]
    inputs = [MeasureInput(task, state) for state in states]
    results = [MeasureResult([0.5 + n / 40], 0, "", 0.1, 0) for n in range(20)]
    assert len(auto_scheduler.RandomModel().predict(task, states)) == 20
    model = XGBModel()
    with pytest.raises(ArgumentError, match="update"):
        model.predict(task, states)
    model.update(inputs, results)
    scores = model.predict(task, states)
    assert np.corrcoef(scores, np.arange(20))[0, 1] < -0.5  # the first ones are the fastest
    model.save(str(tmp_path / "model"))
    assert np.array_equal(XGBModel(model_file=str(tmp_path / "model")).predict(task, states), scores)
    with pytest.raises(ArgumentError, match=r"fit.*predict"):
        auto_scheduler.cost_model.PythonBasedModel()


def test_records_are_saved_and_read_again(log: str) -> None:
    task = task_of()
    dag = task.compute_dag
    own = dag.get_init_state()
    own.split(2, own[2].iters[0], [4])
    inputs = [MeasureInput(task, dag.init_state), MeasureInput(task, own)]
    results = [MeasureResult([0.1], 0, "", 0.2, 1), MeasureResult([1e20], 7, "too long", 0.2, 1)]
    auto_scheduler.save_records(log, inputs, results)
    found = list(load_records(log))
    assert [result for _, result in found] == results
    assert [inp.state for inp, _ in found] == [inp.state for inp in inputs]
    assert auto_scheduler.measure.recover_measure_input(found[0][0], True).task.workload_key == task.workload_key
    line = auto_scheduler.measure_record.dump_record_to_string(inputs[0], results[0])
    again, result = auto_scheduler.measure_record.load_record_from_string(line)
    assert (again.task.workload_key, str(result)) == (task.workload_key, str(results[0]))
    assert len(Journal(log).read()) == 2


def test_the_best_records_are_distilled_into_a_file(log: str, tmp_path: Path) -> None:
    distilled = str(tmp_path / "best.json")
    for n in (16, 32):
        task = task_of(n, n, n)
        other = task.compute_dag.get_init_state()
        other.split(2, other[2].iters[0], [4])
        inputs = [MeasureInput(task, task.compute_dag.init_state), MeasureInput(task, other)]
        results = [MeasureResult([cost], 0, "", 0.2, 1) for cost in (0.3, 0.1)]
        auto_scheduler.save_records(log, inputs, results)
    for _ in range(2):  # the second time into what is there
        auto_scheduler.measure_record.distill_record_file(log, distilled)
        assert [float(result.costs[0]) for _, result in load_records(distilled)] == [0.1, 0.1]


def test_an_input_is_taken_to_another_process_and_back() -> None:
    task = task_of()
    inp = MeasureInput(task, task.compute_dag.init_state)
    back = MeasureInput.deserialize(inp.serialize())
    assert (back.task.workload_key, back.state) == (task.workload_key, inp.state)


ANSOR = {"i": [['["matmul", 16]', "llvm", [6, 64], "", 1], [[], [["SP", 2, 0, 16, [4], 1]]]], "r": [[0.1], 0, 0.2, 1]}


def test_logs_of_tvm_are_refused_in_words(log: str) -> None:
    Path(log).write_text("# a comment\n" + json.dumps({**ANSOR, "v": "v0.6"}) + "\n")
    for read in (
        lambda: list(load_records(log)),
        lambda: task_of().apply_best(log),
        lambda: XGBModel().update_from_file(log),
        lambda: auto_scheduler.ApplyHistoryBest(log),
        lambda: SketchPolicy(task_of(), init_search_callbacks=[PreloadMeasuredStates(log)]).session,
    ):
        with pytest.raises(RecordError, match=r"log of TVM's auto-scheduler \(v0\.6\).*tune again"):
            read()
    with pytest.raises(RecordError, match="TVM's states"):
        auto_scheduler.measure_record.load_record_from_string(json.dumps(ANSOR))


def test_the_best_of_files_answers_for_a_workload(log: str, opened: list[dict[str, Any]]) -> None:
    task = task_of()
    tune(task, log, 4)
    with auto_scheduler.ApplyHistoryBest([log]) as best:
        assert auto_scheduler.DispatchContext.current is best
        state = best.query(task.target, task.workload_key)
        found, _ = auto_scheduler.load_best_record(log)
        assert found is not None
        assert state == found.state
        assert best.query(task.target, "elsewhere") is None
    assert auto_scheduler.DispatchContext.current is None


def test_modes_that_are_not_there_are_refused(log: str) -> None:
    with pytest.raises(ArgumentError, match="print_mode='cuda'"):
        task_of().print_best(log, print_mode="cuda")
