"""Processes that predict kernels: the kernels are the same as without them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tuned_models import TARGET, layers

import pegbox as pb
from pegbox.codegen.targets.cores import usable_cores
from pegbox.graph import evaluate
from pegbox.model import prediction_pool, selection
from pegbox.model.prediction_pool import FEW, PredictionPool
from pegbox.search import predicted_configs
from pegbox.task.task import Task


@pytest.fixture(autouse=True)
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction_pool, "FEW", 1)
    monkeypatch.setattr(prediction_pool, "usable_cores", lambda: (usable_cores()[0],) * 2)


@pytest.fixture
def product() -> Task:
    return pb.create_task("matmul", args=(4, 6, 8), target=TARGET)


def test_a_process_predicts_what_this_one_would(product: Task) -> None:
    with PredictionPool(2) as predictions:
        made = predictions.submit(product)
        assert made is not None
        found = made.result()
    assert found is not None
    config, program = found
    assert config == next(predicted_configs(product))
    assert (program.name, program.target) == ("matmul", product.target)


def test_a_model_is_compiled_by_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def unused(task: Task) -> Iterator[None]:
        pytest.fail(f"{task.name} is predicted here")

    monkeypatch.setattr(selection, "lowered_predictions", unused)
    model = layers()
    x = np.random.default_rng(1).standard_normal((4, 8)).astype("float32")
    (y,) = pb.compile_model(model, target=TARGET, store=None)(x)
    np.testing.assert_allclose(y, evaluate(model.graph, {model.graph.inputs[0]: x})[0], rtol=1e-5)


def test_what_a_process_cannot_predict_is_predicted_here(product: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction_pool, "pack_task", lambda task: b"damaged")
    with PredictionPool(2) as predictions:
        made = predictions.submit(product)
        assert made is not None
        assert made.result() is None
    model = layers()
    x = np.random.default_rng(1).standard_normal((4, 8)).astype("float32")
    (y,) = pb.compile_model(model, target=TARGET, store=None)(x)
    np.testing.assert_allclose(y, evaluate(model.graph, {model.graph.inputs[0]: x})[0], rtol=1e-5)


def test_a_task_that_cannot_leave_this_process_stays(product: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction_pool, "pack_task", lambda task: None)
    with PredictionPool(2) as predictions:
        assert predictions.submit(product) is None


def test_few_tasks_and_one_core_need_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction_pool, "FEW", FEW)
    assert PredictionPool(FEW).size == 0
    assert PredictionPool(FEW + 1).size == 2
    monkeypatch.setattr(prediction_pool, "usable_cores", lambda: (0,))
    assert PredictionPool(100).size == 0
