"""`pegbox.tune_model`: rounds, records, allocations, several models, and the result."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tuned_models import TARGET, Machine, layers, trials_in

import pegbox as pb
from pegbox import te
from pegbox.errors import (
    ArgumentError,
    MeasureError,
    PegboxError,
    PluginError,
    SpaceError,
    TuningError,
    UnknownName,
)
from pegbox.graph import Graph, Node, Value, conv_node, evaluate, pointwise_node
from pegbox.hooks import registry
from pegbox.measure import Failed, FailureKind, LocalMeasurer, Ok
from pegbox.model import Model
from pegbox.model.display import ModelProgress
from pegbox.model.final_rounds import FinalRounds
from pegbox.model.finals import Finals
from pegbox.model.index_inputs import index_inputs
from pegbox.model.latency import Latency, searches_of
from pegbox.records import Record
from pegbox.search import Progress, RoundRobin, StopSearch, predicted_configs, problem
from pegbox.search.allocation import UNKNOWN
from pegbox.search.session import Session
from pegbox.search.task_scheduler import TaskScheduler
from pegbox.space import Config
from pegbox.store import TuningStore

QUICK: dict[str, Any] = {"tuner": "random", "target": TARGET, "progress": False, "store": None}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> type[Machine]:
    monkeypatch.setattr(problem, "LocalMeasurer", Machine)
    monkeypatch.setattr(Finals, "fastest_kernels", lambda *_: {})  # finals would time real kernels
    return Machine


@pytest.fixture
def model() -> Model:
    return layers()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("records", 5),
        ("callbacks", None),
        ("measure_options", True),
        ("progress", np.zeros(2)),
        ("allocation", [10**5000]),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_odd_options_are_refused_by_name(model: Model, option: str, value: object) -> None:
    with pytest.raises(PegboxError, match=option):
        pb.tune_model(model, trials=2, **{**QUICK, option: value})


def test_a_search_makes_the_sum_of_all_calls_small(model: Model, tmp_path: Path) -> None:
    result = pb.tune_model(model, trials=24, **QUICK)
    assert result.stopped_because == "trials"
    products, head = result.tasks
    assert (products.calls, head.calls) == (2, 1)
    assert sum(task.trials for task in result.tasks) == 24
    assert result.after == pytest.approx(2 * products.after + head.after)
    assert result.before >= result.after
    shown = str(result)
    assert "MatMul 4x8, 8x8" in shown
    assert "all calls" in shown
    assert result.curve[-1][1] == pytest.approx(result.after)
    result.to_html(tmp_path / "model.html")
    assert "Where the time goes" in (tmp_path / "model.html").read_text()


def test_the_module_has_the_best_kernels(model: Model) -> None:
    result = pb.tune_model(model, trials=8, **QUICK)
    x = np.random.default_rng(1).standard_normal((4, 8)).astype("float32")
    (y,) = result.module(x)
    np.testing.assert_allclose(y, evaluate(model.graph, {model.graph.inputs[0]: x})[0], rtol=1e-5)


def test_each_search_begins_with_the_configuration_that_would_be_used(model: Model, tmp_path: Path) -> None:
    store = TuningStore(tmp_path)
    task = pb.extract_tasks(model, target=TARGET)[0].task
    _, stored = islice(task.space.iterate(), 2)
    store.keep(Record.of(task, stored, Ok((1e-9,))))
    seen: list[Config] = []
    pb.tune_model(model, trials=4, callbacks=[lambda trial: seen.append(trial.config)], **{**QUICK, "store": store})
    head = pb.extract_tasks(model, target=TARGET)[1].task
    assert seen[:2] == [stored, next(predicted_configs(head))]


def test_the_same_call_goes_on_from_its_records(model: Model, tmp_path: Path) -> None:
    records = tmp_path / "model.jsonl"
    pb.tune_model(model, trials=6, records=records, **QUICK)
    assert trials_in(records) == 6
    result = pb.tune_model(layers(), trials=10, records=records, **QUICK)
    assert trials_in(records) == 10
    assert sum(task.trials for task in result.tasks) == 10
    again = pb.tune_model(model, trials=10, records=records, **QUICK)
    assert trials_in(records) == 10
    assert again.after == result.after


_KILLED = """
import sys, time
sys.path.append(sys.argv[1])
from tuned_models import TARGET, Machine, layers
import pegbox as pb
from pegbox.search import problem

class Slow(Machine):
    def result(self, config):
        time.sleep(0.01)
        return super().result(config)

problem.LocalMeasurer = Slow
pb.tune_model(layers(), trials=100000, records=sys.argv[2], tuner="random", target=TARGET, progress=False, store=None)
"""


def test_a_search_that_was_killed_goes_on_with_the_same_call(model: Model, tmp_path: Path) -> None:
    records, helpers = tmp_path / "model.jsonl", Path(__file__).parents[1] / "helpers"
    with subprocess.Popen([sys.executable, "-c", _KILLED, str(helpers), str(records)]) as process:
        while process.poll() is None and (not records.exists() or trials_in(records) < 20):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    done = trials_in(records)
    result = pb.tune_model(model, trials=done + 5, records=records, **QUICK)
    assert sum(task.trials for task in result.tasks) == trials_in(records) == done + 5


def test_ctrl_c_ends_the_search_with_the_best_so_far(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def measured(self: Machine, configs: Sequence[Config]) -> Iterator[Any]:
        nonlocal count
        for config in configs:
            count += 1
            if count == 20:
                raise KeyboardInterrupt
            yield config, self.result(config)

    monkeypatch.setattr(Machine, "measure", measured)
    result = pb.tune_model(model, trials=100, **QUICK)
    assert result.stopped_because == "interrupted"
    assert sum(task.trials for task in result.tasks) == 19
    assert result.after < float("inf")


def test_a_task_that_cannot_be_measured_does_not_end_the_search(
    model: Model, machine: type[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(machine):  # type: ignore[misc, valid-type]
        def measure(self, configs: Sequence[Config]) -> Iterator[Any]:
            if self.last == 3:
                raise MeasureError("the arrays take too much memory")
            return super().measure(configs)

    monkeypatch.setattr(problem, "LocalMeasurer", Broken)
    with pytest.warns(RuntimeWarning, match="cannot be measured, and is searched no further: the arrays take"):
        result = pb.tune_model(model, trials=20, **QUICK)
    products, head = result.tasks
    assert (products.trials, head.trials) == (20, 0)
    assert "not known" in str(result)
    assert result.module(np.ones((4, 8), "float32"))[0].shape == (12,)


def test_a_task_without_a_valid_configuration_does_not_end_the_search(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoneIsValid(Session):
        def __init__(self, task: Any, **options: Any) -> None:
            if task is scheduler.tasks[0]:
                raise SpaceError("no configuration is valid")
            super().__init__(task, **options)

    scheduler = scheduled(pb.extract_tasks(model, target=TARGET))
    monkeypatch.setattr("pegbox.search.task_scheduler.Session", NoneIsValid)
    with pytest.warns(RuntimeWarning, match="is searched no further: no configuration is valid"):
        scheduler.search(RoundRobin(), trials=6, store=None)
    assert scheduler.trials[0] == 0 < scheduler.trials[1]


def test_the_tuner_of_a_task_is_made_for_its_first_round(model: Model) -> None:
    made = []

    def tuner(space: pb.ConfigSpace, *, seed: int = 0) -> Any:
        made.append(space)
        return pb.create_tuner("random", space, seed=seed)

    scheduler = TaskScheduler([each.task for each in pb.extract_tasks(model, target=TARGET)], tuner=tuner)
    assert not made
    scheduler.search(RoundRobin(), trials=1, store=None)
    assert made == [scheduler.tasks[0].space]
    assert [*scheduler.sessions] == [0]
    assert scheduler.trials == [1, 0]


def test_measuring_that_fails_for_one_task_after_the_other_ends_the_search(
    machine: type[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(machine):  # type: ignore[misc, valid-type]
        def measure(self, configs: Sequence[Config]) -> Iterator[Any]:
            raise MeasureError("no machine of the cluster answers")

    several = [layers(width=width, name=f"layers{width}") for width in (5, 6, 7)]
    monkeypatch.setattr(problem, "LocalMeasurer", Broken)
    with pytest.raises(TuningError, match="no machine of the cluster answers"), pytest.warns(RuntimeWarning):
        pb.tune_model(several, trials=20, **QUICK)


def test_trials_go_by_the_times_that_were_measured_again(
    model: Model, machine: type[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lucky(machine):  # type: ignore[misc, valid-type]
        def remeasure(self, configs: Sequence[Config]) -> list[Any]:
            return [Ok((3 * self.result(config).cost,), 0.0, 1.0) for config in configs]

    monkeypatch.setattr(problem, "LocalMeasurer", Lucky)
    scheduler = scheduled(pb.extract_tasks(model, target=TARGET))
    scheduler.search(RoundRobin(), trials=4, store=None)
    again = [min(each.cost for each in held if each.remeasured) for held in scheduler.records[:2]]
    assert [each.cost for each in scheduler.progress[:2]] == again


def gather(rows: int) -> Model:
    """Rows of a table, chosen by an input and by a constant, and their sum."""
    table = Value("table", (rows, 4), "float32")
    chosen, known = Value("chosen", (6,), "int64"), Value("known", (6,), "int64")

    def sums(t: te.Tensor, i: te.Tensor, j: te.Tensor) -> list[te.Tensor]:
        return [te.compute((6, 4), lambda a, b: t[i[a], b] + t[j[a], b], name="sums")]

    node = Node("gather", "Gather", (table, chosen, known), (Value("sums", (6, 4), "float32"),), sums)
    constants = {
        table: np.random.default_rng(0).standard_normal((rows, 4)).astype("float32"),
        known: np.full(6, rows - 1, dtype="int64"),
    }
    return Model(Graph("gather", (chosen,), node.outputs, (node,), constants))


@pytest.mark.parametrize("rows", [1, 2, 50])
def test_indices_of_trials_are_those_of_the_model_or_random_ones_within_its_tensors(rows: int) -> None:
    task = pb.extract_tasks(gather(rows), target=TARGET)[0]
    given = index_inputs(task.implementations[0], task.constants)
    np.testing.assert_array_equal(given["p2"], np.full(6, rows - 1))
    assert set(given) == {"p1", "p2"}
    assert 0 <= given["p1"].min() <= given["p1"].max() < rows
    LocalMeasurer(task.task, inputs=given).close()


def test_searches_give_indices_and_fresh_inputs_to_the_measurer(
    machine: type[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, fresh = [], []

    class Seeing(machine):  # type: ignore[misc, valid-type]
        def __init__(self, task: Any, **options: Any) -> None:
            given.append(sorted(options.get("inputs", ())))
            fresh.append(options["fresh_inputs"])
            assert options["flush_cache"] > 0
            assert options["aligned"]  # as the arena and the constants are
            super().__init__(task)

    monkeypatch.setattr(problem, "LocalMeasurer", Seeing)
    pb.tune_model(gather(3), trials=2, **QUICK)
    assert given[0] == ["p1", "p2"]
    assert fresh[0] == ("p1",)  # the table and the other indices are constants
    pb.tune_model(layers(), trials=2, **QUICK)
    assert given[-1] == []
    assert len(fresh[-1]) == 1


def test_a_callback_that_stops_ends_the_whole_search(model: Model) -> None:
    def stop(trial: Any) -> None:
        raise StopSearch

    result = pb.tune_model(model, trials=100, callbacks=[stop], **QUICK)
    assert (result.stopped_because, sum(task.trials for task in result.tasks)) == ("stopped by a callback", 1)
    assert "not all tasks have a kernel that ran" in str(result)


def test_two_models_share_trials_and_tasks(model: Model) -> None:
    other = layers(3, name="deeper")
    result = pb.tune_model([model, other], trials=16, **QUICK)
    assert [task.calls for task in result.tasks] == [5, 2]
    assert [module.name for module in result.modules] == ["layers", "deeper"]
    with pytest.raises(ArgumentError, match=r"2 models \(layers, deeper\); use result.modules"):
        _ = result.module


class Only:
    """An allocation to one task alone, by default the last: the sketch of the head."""

    def __init__(self, *, number: int = -1, total: Callable[[Sequence[float]], float]) -> None:
        self.number, self.total = number, total

    def next(self, tasks: Sequence[Progress]) -> int | None:
        assert self.total([1.0] * len(tasks)) == 3.0, "the calls of both tasks"
        return self.number % len(tasks) if self.number < 0 else self.number


@pytest.fixture
def only() -> Iterator[None]:
    registry.register("allocation", "only", Only, owner="tests")
    yield
    registry.unregister("allocation", "only", owner="tests")


@pytest.mark.usefixtures("only")
def test_an_allocation_is_a_plugin(model: Model) -> None:
    result = pb.tune_model(model, trials=64, allocation="only", **QUICK)
    assert [task.trials for task in result.tasks] == [0, 64]
    with pytest.raises(PluginError, match="chose task 7 of"):
        pb.tune_model(model, trials=64, allocation="only:number=7", **QUICK)


def test_round_robin_gives_each_task_the_same(model: Model) -> None:
    result = pb.tune_model([layers(), layers(width=6)], trials=64, allocation="round_robin", **QUICK)
    products = [task.trials for task in result.tasks if "MatMul" in task.name]
    assert max(products) - min(products) <= 8


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ArgumentError, "has no limit; give budget='10m'"),
        ({"trials": 0}, ArgumentError, "trials=0"),
        ({"trials": 8, "allocation": "gradiant"}, UnknownName, "gradient"),
        ({"trials": 8, "allocation": "gradient:gamma=1"}, ArgumentError, "no option 'gamma'"),
        ({"trials": 8, "allocation": 3}, ArgumentError, "allocation"),
        ({"trials": 8, "allocation": lambda: "x"}, PluginError, "made a str without next"),
        ({"trials": 8, "trails": 8}, ArgumentError, "did you mean 'trials'"),
    ],
)
def test_what_means_nothing_is_refused(
    model: Model, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        pb.tune_model(model, **{**QUICK, **options})


def test_no_model_at_all_is_refused() -> None:
    with pytest.raises(ArgumentError, match="give at least one model"):
        pb.tune_model([], trials=8)


def test_a_line_is_printed_after_each_round(model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    pb.tune_model(model, trials=8, **{**QUICK, "progress": True})
    lines = capsys.readouterr().err.splitlines()
    assert "all calls not known yet  2 x MatMul 4x8, 8x8: best" in lines[0]
    assert any("gain" in line for line in lines)


def test_a_terminal_has_a_table_that_is_redrawn(model: Model) -> None:
    from pegbox.model.display import model_progress

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    tasks = pb.extract_tasks(model, target=TARGET)
    shown = model_progress(tasks, Latency.of([list(model.variants.values())], tasks), Terminal())
    assert type(shown) is not ModelProgress
    scheduler = scheduled(tasks)
    scheduler.search(RoundRobin(), trials=4, on_round=shown.on_round, store=None)
    shown.close()
    assert isinstance(shown.stream, Terminal)
    assert "MatMul 4x8, 8x8" in shown.stream.getvalue()


def scheduled(tasks: Sequence[Any]) -> Any:
    return TaskScheduler(
        [tasks[n].implementations[place].task for (n, place), *_ in searches_of(tasks, range(len(tasks)))],
        tuner="random",
    )


def test_tasks_whose_kernels_are_equal_share_a_search(tmp_path: Path) -> None:
    x, y, c = (Value(name, (4, 8), "float32") for name in ("x", "y", "c"))
    known = pointwise_node("known", "Add", lambda a, b: a + b, [x, c])
    other = pointwise_node("other", "Add", lambda a, b: a + b, [x, y])
    outputs = (known.outputs[0], other.outputs[0])
    model = Model(Graph("sums", (x, y), outputs, (known, other), {c: np.ones((4, 8), "float32")}))
    records = tmp_path / "sums.jsonl"
    for _ in range(2):
        result = pb.tune_model(model, trials=3, records=records, **QUICK)
        assert [(task.calls, task.trials) for task in result.tasks] == [(1, result.trials)] * 2
        assert result.trials == trials_in(records)
        assert result.after == 2 * result.tasks[0].after


def test_the_total_takes_the_fastest_implementation_and_variant() -> None:
    latency = Latency((({0: 2, 1: 1}, {0: 1, 2: 1}),), (((0, 0),), ((0, 1),), ((1, 0),), ((2, 0),)))
    assert latency.of_other_variants == [False, False, False, True]
    assert latency([3.0, 2.0, 5.0, 8.0]) == 9.0
    assert latency([3.0, 2.0, 5.0, 6.0]) == 8.0
    assert latency([3.0, 2.0, 5.0, 6.8]) == 9.0, "not far enough ahead"
    assert latency([3.0, 2.0, UNKNOWN, UNKNOWN]) == 4.0, "a task that never ran does not hide the others"
    assert latency.chosen([2.0, 5.0, 8.0]) == [0]
    assert latency.chosen([2.0, 5.0, 6.0]) == [1]
    assert latency.chosen([2.0, float("inf"), float("inf")]) == [0]
    assert latency.candidates([2.0, 5.0, 7.5]) == [[0, 1]]
    assert latency.candidates([2.0, 5.0, 8.5]) == [[0]], "too far behind"
    assert latency.candidates([2.0, 5.0, float("inf")]) == [[0]]
    decided = replace(latency, decided=(1,))
    assert decided.chosen([2.0, 5.0, 8.0]) == [1]
    assert decided.candidates([2.0, 5.0, 8.0]) == [[1, 0]]
    assert decided([3.0, 2.0, 5.0, 8.0]) == 10.0
    assert decided.chosen([2.0, 5.0, float("inf")]) == [0], "a task is not known"


def convolution() -> Model:
    """A convolution, and a maximum with 0 that fusion joins to it."""
    x, w = Value("x", (1, 4, 6, 6), "float32"), Value("w", (8, 4, 3, 3), "float32")
    conv = conv_node("conv", x, w, strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1))
    last = pointwise_node("relu", "Relu", lambda element: te.max(element, 0.0), conv.outputs)
    weights = np.random.default_rng(0).standard_normal(w.shape).astype("float32")
    return Model(Graph("convolution", (x,), last.outputs, (conv, last), {w: weights}))


def test_layouts_and_fusion_are_decided_by_measurements(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model, records = convolution(), tmp_path / "model.jsonl"
    assert list(model.variants) == ["NHWC, fused", "NCHW, fused", "NHWC, not fused"]
    result = pb.tune_model(model, trials=200, records=records, **QUICK)
    assert "convolution is compiled as" in str(result)
    assert result.before >= result.after

    def slow_last(self: Machine, config: Config) -> Any:
        return Ok((1.0 if self.last == 8 else 1e-3,), 0.0, 1.0)

    monkeypatch.setattr(Machine, "result", slow_last)
    result = pb.tune_model(model, trials=200, **QUICK)
    assert result.variants == ("NCHW, fused",), "the only variant whose output has another last dimension"
    x = np.random.default_rng(1).standard_normal((1, 4, 6, 6)).astype("float32")
    expected = evaluate(model.graph, {model.graph.inputs[0]: x})[0]
    np.testing.assert_allclose(result.module(x)[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        pb.compile_model(model, records=records, target=TARGET, store=None)(x)[0], expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(("others", "whole", "name"), [
    (0.01, [1.0, 1.02], "NHWC, fused"),
    (0.01, [1.0, 0.995], "NHWC, fused"),
    (0.01, [1.0, 0.98], "NCHW, fused"),
    (0.05, [1.0, 1.02], "NCHW, fused"),
    (0.05, [1.0, 0.98], "NHWC, fused"),
])  # fmt: skip
def test_of_the_best_two_variants_the_faster_module_wins(
    others: float, whole: list[float], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Time variants of one kernel, with channels first, and of two more, with channels last, of `others` seconds.

    The kernel's last dimension is 6 with channels first. Two of 1% are not enough for the sums of seconds to prefer
    these, two of 5% are.
    """
    runs: list[int] = []

    def seconds(self: Finals, graphs: Any, winners: Any) -> list[float]:
        runs.append(len(graphs))
        return whole

    def first(self: Finals, graphs: Any, finalists: Any) -> dict[int, Any]:
        return {number: listed[0] for number, listed in finalists.items()}

    monkeypatch.setattr(Machine, "result", lambda self, config: Ok((1.0 if self.last == 6 else others,), 0.0, 1.0))
    monkeypatch.setattr(Finals, "fastest_kernels", first)
    monkeypatch.setattr(Finals, "seconds_of_graphs", seconds)
    model, records, store = convolution(), tmp_path / "model.jsonl", TuningStore(tmp_path / "store")
    result = pb.tune_model(model, trials=100, records=records, **{**QUICK, "store": store})
    assert result.variants == (name,)
    assert f"{model.name} is compiled as {name}: " in str(result)
    assert "; as a whole NHWC, fused " in str(result)
    again = pb.tune_model(convolution(), trials=100, records=records, **QUICK)
    assert (again.variants, again.after, runs) == ((name,), result.after, [2]), "the records decide"
    kernels = [work.kernel for work in result.module.compiled.works]
    for known in ({"records": records, "store": None}, {"store": store}):
        module = pb.compile_model(convolution(), target=TARGET, **known)
        assert [work.kernel for work in module.compiled.works] == kernels
    with monkeypatch.context() as patch:
        patch.setattr(FinalRounds, "run", lambda _: None)
        stored = pb.tune_model(convolution(), trials=100, **{**QUICK, "store": store})
    assert stored.variants == (name,), "the store decides"


def test_a_model_that_ran_has_finals_beside_one_that_did_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to measure the product of the other one, whose output has 3 columns."""
    finals: list[list[str]] = []

    def first(self: Finals, graphs: Sequence[Graph], finalists: Any) -> dict[int, Any]:
        finals.append([graph.name for graph in graphs])
        return {number: listed[0] for number, listed in finalists.items()}

    failed = Failed(FailureKind.RUN_ERROR, "no memory", 0.0, 1.0)
    monkeypatch.setattr(Machine, "result", lambda self, config: failed if self.last == 3 else Ok((1.0,), 0.0, 1.0))
    monkeypatch.setattr(Finals, "fastest_kernels", first)
    pb.tune_model([layers(name="lost"), convolution()], trials=100, **QUICK)
    assert {name for names in finals for name in names} == {"convolution"}
