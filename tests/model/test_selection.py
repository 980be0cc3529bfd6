"""Tasks of models, and the kernels that are chosen for them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import softmax_node
from implementations import rows
from tuned_models import TARGET, layers

import pegbox as pb
from pegbox.codegen.runtime.machine import compile_program
from pegbox.graph import Graph, Value, evaluate
from pegbox.graph.operations import matmul_node, pointwise_node, transpose_node
from pegbox.hooks import registry
from pegbox.measure import Ok
from pegbox.model import Argument, Model, Module, NodeTask, selection
from pegbox.model.model_task import model_tasks
from pegbox.model.node_task import canonical_tensors, generated_task
from pegbox.records import Journal, Record, RecordWarning
from pegbox.store import TuningStore

X = np.random.default_rng(1).standard_normal((4, 8)).astype("float32")


@pytest.fixture
def model() -> Model:
    return layers()


def reference(model: Model, x: Any) -> Any:
    (value,) = model.graph.inputs
    return evaluate(model.graph, {value: x})[0]


def test_equal_nodes_are_one_task_with_the_number_of_calls(model: Model) -> None:
    products, head = pb.extract_tasks(model, target=TARGET)
    assert (products.calls, products.name) == (2, "MatMul 4x8, 8x8")
    assert (head.calls, head.name) == (1, "MatMul 4x8, 8x3")
    assert products.task.target.num_cores == 1


def test_tasks_of_several_models_are_counted_together() -> None:
    tasks = pb.extract_tasks([layers(2), layers(3), layers(1, width=6)], target=TARGET)
    assert [task.calls for task in tasks] == [5, 2, 1, 1]


def test_a_value_that_is_read_twice_is_another_task() -> None:
    a, b = Value("a", (4,), "float32"), Value("b", (4,), "float32")
    square = pointwise_node("square", "Mul", lambda x, y: x * y, [a, a])
    product = pointwise_node("product", "Mul", lambda x, y: x * y, [a, b])
    nodes = (square, product)
    model = Model(Graph("products", (a, b), tuple(node.outputs[0] for node in nodes), nodes, {}))
    assert [task.calls for task in pb.extract_tasks(model)] == [1, 1]
    x, y = np.arange(4, dtype="float32"), np.full(4, 3, dtype="float32")
    squared, multiplied = pb.compile_model(model, target=TARGET, store=None)(x, y)
    np.testing.assert_array_equal(squared, x * x)
    np.testing.assert_array_equal(multiplied, x * y)


def test_the_model_says_what_it_is_made_of(model: Model) -> None:
    shown = str(model)
    assert "layers: 4 operators (3 MatMul, 1 Reshape)" in shown
    assert "input   x: float32[4, 8]" in shown
    assert "    2  MatMul 4x8, 8x8" in shown


def test_a_compiled_model_computes_what_its_graph_means(model: Model) -> None:
    (y,) = pb.compile_model(model, target="llvm", num_threads=1, store=None)(X)
    np.testing.assert_allclose(y, reference(model, X), rtol=1e-5)


def test_a_second_process_compiles_nothing(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TuningStore(tmp_path)
    pb.compile_model(model, target=TARGET, store=store)
    monkeypatch.setattr(selection, "compile_program", lambda program: pytest.fail(f"{program.name} is compiled"))
    monkeypatch.setattr(selection, "lowered_predictions", lambda task: pytest.fail(f"{task.name} is predicted"))
    (y,) = pb.compile_model(layers(), target=TARGET, store=store)(X)
    np.testing.assert_allclose(y, reference(model, X), rtol=1e-5)


def test_kept_code_gives_way_to_a_measured_configuration(model: Model, tmp_path: Path) -> None:
    store = TuningStore(tmp_path)
    pb.compile_model(model, target=TARGET, store=store)
    task = pb.extract_tasks(model, target=TARGET)[0].task
    best = task.space.get(5)
    store.keep(Record.of(task, best, Ok((1e-6,))))
    first = selection.select(model.optimized, task.target, store=store)[0]
    assert (first.origin, first.config) == ("tuned", best)
    again = selection.select(model.optimized, task.target, store=store)[0]
    assert again.program.object_code == first.program.object_code


def test_records_count_more_than_the_store(model: Model, tmp_path: Path) -> None:
    task = pb.extract_tasks(model, target=TARGET)[0].task
    store, journal = TuningStore(tmp_path / "store"), Journal(tmp_path / "records.jsonl")
    store.keep(Record.of(task, task.space.get(5), Ok((1e-6,))))
    journal.append(Record.of(task, task.space.get(3), Ok((1e-3,))))
    history = pb.apply_history_best(journal)
    with history as found:
        given = selection.select(model.optimized, task.target, store=store)[0]
    assert given.config == task.space.get(3)
    assert selection.select(model.optimized, task.target, history=found)[0].config == task.space.get(3)


@pytest.fixture
def another() -> Iterator[None]:
    """An implementation of products whose kernels are those of another space."""

    def implement(node: Any, constants: Any, target: Any) -> NodeTask | None:
        if node.kind != "MatMul":
            return None
        inputs, outputs = canonical_tensors(node)
        task = pb.create_task([*inputs, *outputs], space="sketch:rules=ansor", target=target)
        return replace(generated_task(node, target), task=task)

    registry.register("node_task", "another", implement, owner="tests")
    yield
    registry.unregister("node_task", "another", owner="tests")


@pytest.mark.usefixtures("another")
def test_the_fastest_implementation_is_used_where_they_were_measured(model: Model, tmp_path: Path) -> None:
    product = pb.extract_tasks(model, target=TARGET)[0]
    first, last = (each.task for each in (product.implementations[0], product.implementations[-1]))
    assert first.name != last.name
    store = TuningStore(tmp_path)
    chosen = selection.select(model.optimized, first.target, store=None)[0]
    assert chosen.node_task.task.name == first.name
    store.keep(Record.of(first, first.space.get(0), Ok((2e-3,))))
    store.keep(Record.of(last, last.space.get(0), Ok((1e-3,))))
    chosen = selection.select(model.optimized, first.target, store=store)[0]
    assert (chosen.node_task.task.name, chosen.origin) == (last.name, "tuned")


@pytest.fixture
def second() -> Iterator[None]:
    """A second implementation of products by a template: row by row."""

    def implement(node: Any, constants: Any, target: Any) -> NodeTask:
        a, b = node.inputs
        task = pb.create_task(rows, (math.prod(a.shape[:-1]), *b.shape), target=target)
        return NodeTask(node, task, tuple(map(Argument, (a, b, *node.outputs))))

    registry.register("node_task", "second", implement, owner="tests")
    yield
    registry.unregister("node_task", "second", owner="tests")


@pytest.mark.usefixtures("second")
@pytest.mark.parametrize("number", [0, 1])
def test_predicted_kernels_of_several_templates_are_timed(
    model: Model, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[list[str]] = []

    def fastest(kernels: Any, inputs: Any, flush: Any, fresh: Any) -> int:
        timed.append([kernel.name for kernel in kernels])
        assert len(kernels) == len(inputs) == len(fresh) == 2
        assert all(len(names) == 1 for names in fresh)  # weights are constants
        return number

    monkeypatch.setattr(selection, "fastest", fastest)
    task = pb.extract_tasks(model, target=TARGET)[0]
    store = TuningStore(tmp_path)
    chosen = selection.select(model.optimized, task.task.target, store=store)
    assert chosen[0].node_task.task.workload == task.implementations[number].task.workload
    assert chosen[0].origin == "predicted, not tuned"
    timings = len(timed)
    assert timings == 2  # one of each task
    again = selection.select(model.optimized, task.task.target, store=store)
    assert again[0].program.object_code == chosen[0].program.object_code
    assert len(timed) == timings
    module = Module(model.optimized, chosen)
    np.testing.assert_allclose(module(X)[0], reference(model, X), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("second")
def test_kernels_that_this_machine_cannot_run_are_not_timed(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "architecture", lambda: "another")
    monkeypatch.setattr(selection, "fastest", None)
    task = pb.extract_tasks(model, target=TARGET)[0]
    chosen = selection.select(model.optimized, task.task.target)[0]
    assert chosen.node_task.task.workload == task.implementations[0].task.workload


def test_a_configuration_that_cannot_be_built_any_more_gives_way_to_a_predicted_one(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = pb.extract_tasks(model, target=TARGET)[0].task
    store, stored = TuningStore(tmp_path), task.space.get(5)
    store.keep(Record.of(task, stored, Ok((1e-6,))))
    refused = task.lower(stored).ll

    def compiled(program: Any) -> Any:
        if program.ll == refused:
            raise pb.errors.CompileError("not this one")
        return compile_program(program)

    monkeypatch.setattr(selection, "compile_program", compiled)
    with pytest.warns(RecordWarning, match="cannot be built any more"):
        chosen = selection.select(model.optimized, task.target, store=store)[0]
    assert chosen.origin == "predicted, not tuned"
    assert chosen.config != stored


@pytest.mark.parametrize(
    ("path", "message"),
    [("model.txt", r"no reader for '.txt'; there are .*\.onnx"), (3, "path")],
)
def test_files_of_no_known_format_are_refused(path: Any, message: str) -> None:
    with pytest.raises(pb.errors.ArgumentError, match=message):
        pb.load_model(path)
    with pytest.raises(pb.errors.ArgumentError, match="model"):
        pb.compile_model(3)  # type: ignore[arg-type]


@pytest.fixture
def no_sketches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sketch generator that refuses each computation."""

    def refuse(*args: Any) -> Any:
        raise pb.errors.TemplateError("the rules derive more than 0 sketches")

    monkeypatch.setattr("pegbox.plugins.sketch.generator.SketchGenerator.__call__", refuse)


@pytest.mark.usefixtures("no_sketches")
def test_a_node_without_sketches_has_the_default_schedule() -> None:
    a, b = Value("a", (3, 4, 5), "float32"), Value("b", (5,), "float32")
    added = pointwise_node("sum", "Add", lambda x, y: x + y, [a, b])
    scaled = pointwise_node("scaled", "Mul", lambda x: x * x, [b])
    model = Model(Graph("m", (a, b), (*added.outputs, *scaled.outputs), (added, scaled), {}))
    x, y = np.arange(60, dtype="float32").reshape(3, 4, 5), np.arange(5, dtype="float32")
    module = pb.compile_model(model, target="llvm -num-cores 2", store=None)
    for made, expected in zip(module(x, y), (x + y, y * y), strict=True):
        np.testing.assert_array_equal(made, expected)
    result = pb.tune_model(model, trials=2, target=TARGET, store=None, progress=False)
    np.testing.assert_array_equal(result.module(x, y)[0], x + y)


@pytest.mark.usefixtures("no_sketches")
def test_a_template_does_not_need_sketches(model: Model) -> None:
    (implementation,) = pb.extract_tasks(model, target=TARGET)[0].implementations
    assert implementation.task.name.startswith("matmul")


def test_the_default_schedule_is_used_where_nothing_else_can_be_compiled(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refused(task: Any) -> Iterator[Any]:
        tried.append(task.name)
        raise pb.errors.SpaceError("no configuration is valid")

    monkeypatch.setattr(selection, "lowered_predictions", refused)
    module = pb.compile_model(model, target=TARGET, store=None)
    np.testing.assert_allclose(module(X)[0], reference(model, X), rtol=1e-5)
    assert tried


def attended() -> Model:
    """A model of one attention, in parts."""
    q, k, v = (Value(name, (1, 2, n, m), "float32") for name, n, m in (("q", 6, 4), ("k", 5, 4), ("v", 5, 4)))
    turned = transpose_node("turned", k, (0, 1, 3, 2))
    scores = matmul_node("scores", q, *turned.outputs)
    weights = softmax_node("weights", *scores.outputs)
    nodes = turned, scores, weights, matmul_node("o", *weights.outputs, v)
    return Model(Graph("attended", (q, k, v), nodes[-1].outputs, nodes, {}))


@pytest.mark.parametrize("ns", [1.0, 1e9])
def test_predicted_kernels_of_attention_and_of_its_parts_are_timed(
    ns: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[list[str]] = []

    def times(kernels: Any, inputs: Any, flush: Any, fresh: Any) -> list[float]:
        timed.append([kernel.name for kernel in kernels])
        assert len(inputs) == len(fresh) == len(kernels)
        return [ns if kernel.name == "attention" else 1e3 for kernel in kernels]

    monkeypatch.setattr(selection, "times_in_turns", times)
    model, store = attended(), TuningStore(tmp_path)
    module = pb.compile_model(model, target=TARGET, store=store)
    names = [work.kernel for work in module.compiled.works]
    assert (names == ["attention"]) == (ns == 1.0)
    arrays = [np.random.default_rng(2).standard_normal(each.shape).astype("float32") for each in model.graph.inputs]
    expected = evaluate(model.graph, dict(zip(model.graph.inputs, arrays, strict=True)))[0]
    np.testing.assert_allclose(module(*arrays)[0], expected, rtol=1e-4, atol=1e-5)
    assert len(timed) == 1
    again = pb.compile_model(attended(), target=TARGET, store=store)
    assert [work.kernel for work in again.compiled.works] == names
    assert len(timed) == 1, "the kernels of one variant are in the store"


def test_an_attention_that_this_machine_cannot_run_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "architecture", lambda: "another")
    monkeypatch.setattr(selection, "times_in_turns", None)
    model = attended()
    machine = pb.Target(TARGET)
    graphs = [model.optimized, model.variants["NHWC, fused, attention in parts"]]
    graph, _ = selection.select_fastest(graphs, model_tasks(graphs, machine), selection.Knowledge())
    assert graph is graphs[0]
