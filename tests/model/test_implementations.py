"""Nodes of models by further implementations of their operators: with the same epilogue and constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from implementations import registered
from small_models import ONE_CORE, value

import pegbox as pb
from pegbox import te
from pegbox.errors import ArgumentError, TemplateError
from pegbox.graph import Graph, Node, evaluate, matmul_node, pointwise_node
from pegbox.graph.fused_node import fused_node
from pegbox.measure import Ok
from pegbox.model import Model, NodeTask, extract_tasks, node_task
from pegbox.model.model_task import model_tasks
from pegbox.model.module import Module
from pegbox.model.selection import Knowledge, select_kernels
from pegbox.records import History, Record
from pegbox.task import Task


@pb.template("test_columns")
def columns(
    cfg: pb.TemplateConfig, M: int, K: int, N: int, weights: str = "packed"
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """C = A B, of B its columns one after the other."""
    A, B = te.placeholder((M, K), name="A"), te.placeholder((N, K), name="B")
    k = te.reduce_axis((0, K), name="k")
    C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    cfg.define_knob("transposed", [True])
    return te.create_schedule(C.op), [A, B, C]


@columns.packs("B", weights="packed")
def transposed(task: Task, array: Any, replaced: Mapping[str, Any]) -> Any:
    return np.ascontiguousarray(array.T)


def by_columns(task: Task) -> Task | None:
    """Return the task of `columns` for a product whose second operand is packed."""
    if task.name != "matmul" or task.workload[1]["weights"] != "packed":
        return None
    return pb.create_task(columns, [task.workload[1][name] for name in "MKN"], target=task.target)


@pytest.fixture(autouse=True)
def _columns() -> Iterator[None]:
    with registered(columns=by_columns):
        yield


def test_a_further_implementation_has_the_nodes_epilogue_and_packs_its_constant() -> None:
    x, w = value("x", 4, 8), value("w", 8, 16)
    product = matmul_node("product", x, w)
    follow = pointwise_node("relu", "Relu", lambda v: te.max(v, 0.0), product.outputs)
    node: Node = fused_node([product, follow])
    rng = np.random.default_rng(0)
    given, weights = (rng.uniform(-1, 1, each.shape).astype(np.float32) for each in (x, w))
    graph = Graph("g", (x,), node.outputs, (node,), {w: weights})
    tasks = model_tasks([graph], ONE_CORE)
    names = [each.task.base.name for each in tasks[0].implementations]
    assert names[:2] == ["matmul", "test_columns"]
    other = tasks[0].implementations[1].task
    record = Record.of(other, other.space.get(0), Ok((1e-6,)))
    chosen = select_kernels(graph, tasks, Knowledge.of(History([record]), None))
    assert chosen[0].node_task.task.base.name == "test_columns"
    (expected,) = evaluate(graph, {x: given})
    np.testing.assert_allclose(Module(graph, chosen)(given)[0], expected, rtol=1e-5, atol=1e-6)


def product_model(accuracy: float | None) -> Model:
    x, w = value("x", 256, 512), value("w", 512, 512)
    product = matmul_node("product", x, w)
    weights = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    return Model(Graph("product", (x,), product.outputs, (product,), {w: weights}), accuracy=accuracy)


def test_algorithms_with_larger_errors_than_the_models_accuracy_are_left_out() -> None:
    target = "llvm -mcpu=x86-64-v4 -num-cores 1"
    names = {}
    for accuracy in (None, 1e-5, 4e-7):
        (task,) = extract_tasks(product_model(accuracy), target=target)
        names[accuracy] = [each.task.name for each in task.implementations]
        assert {each.task.given_accuracy for each in task.implementations} == {accuracy}
    assert "matmul_strassen" in names[None]
    assert names[1e-5] == names[None]
    assert "matmul_strassen" not in names[4e-7]
    assert names[4e-7][0] == "matmul"


def test_models_of_other_accuracies_share_no_task() -> None:
    both = extract_tasks([product_model(None), product_model(1e-5)], target="llvm -num-cores 1")
    assert [task.calls for task in both] == [1, 1]


@pytest.mark.parametrize("accuracy", [0.0, -1.0, 2.0, "small"])
def test_an_accuracy_is_above_0_and_at_most_1(accuracy: Any) -> None:
    with pytest.raises(ArgumentError, match="accuracy"):
        product_model(accuracy)


def test_a_default_schedule_has_the_accuracy_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    made = node_task.generated_task

    def refuses_sketches(node: Node, target: Any, *, space: Any = node_task.SKETCH) -> NodeTask:
        if space == node_task.SKETCH:
            raise TemplateError("too many sketches")
        return made(node, target, space=space)

    monkeypatch.setattr(node_task, "generated_task", refuses_sketches)
    node = pointwise_node("relu", "Relu", lambda v: te.max(v, 0.0), [value("x", 4, 8)])
    (only,) = node_task.implementations_of(node, {}, ONE_CORE, 1e-5)
    assert only.task.given_accuracy == 1e-5
