"""Operators with several implementations: calls use the fastest that is known."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import pytest
from implementations import by_doubling, by_rows, registered

import pegbox as pb
from pegbox.errors import ArgumentError, UnknownName
from pegbox.measure import Ok
from pegbox.operators import Operator, choice
from pegbox.records import Record
from pegbox.store import TuningStore

TARGET = "llvm -num-cores 1"
A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(20, dtype=np.float32).reshape(4, 5)
BOTH = ["matmul", "by_rows"]
QUICK = {"tuner": "random", "progress": False, "measure_options": {"repeats": 1, "min_repeat_ms": 0.1}}


@pytest.fixture(autouse=True)
def _rows() -> Iterator[None]:
    with registered(by_rows=by_rows):
        yield


@pytest.fixture
def product() -> Operator:
    return pb.operator("matmul", target=TARGET, implementations=BOTH)


@pytest.mark.parametrize("fastest", [0, 1])
def test_a_shape_that_was_not_tuned_uses_the_fastest_of_the_predicted_kernels(
    product: Operator, monkeypatch: pytest.MonkeyPatch, fastest: int
) -> None:
    timed: list[list[str]] = []

    def choose(kernels: list[pb.Kernel], inputs: object) -> int:
        timed.append([kernel.name for kernel in kernels])
        return fastest

    monkeypatch.setattr(choice, "fastest", choose)
    found = product.implementation(A, B)
    assert timed == [["matmul", "test_product_rows"]]
    assert found.task is not None
    assert (found.task.name, found.origin) == (timed[0][fastest], "predicted, not tuned")
    np.testing.assert_array_equal(product(A, B), A @ B)


@pytest.mark.parametrize("winner", ["matmul", "test_product_rows"])
def test_the_best_of_the_store_decides(product: Operator, store: TuningStore, winner: str) -> None:
    plain = pb.create_task("matmul", (3, 4, 5), target=TARGET)
    for task in plain.with_implementations(BOTH).tasks.values():
        seconds = 1e-6 if task.name == winner else 1e-3
        store.keep(Record.of(task, next(task.space.iterate()), Ok((seconds,))))
    found = product.implementation(A, B)
    assert found.task is not None
    assert (found.task.name, found.origin) == (winner, "tuned")
    again = pb.operator("matmul", target=TARGET, implementations=BOTH)
    assert again.implementation(A, B).kernel.name == winner


def test_a_tuned_shape_uses_the_winner_at_once(product: Operator) -> None:
    result = product.tune(A, B, trials=8, **QUICK)
    found = product.implementation(A, B)
    assert found.task is not None
    assert (found.task.name, found.config) == (result.task.name, result.best.config)
    np.testing.assert_array_equal(product(A, B), A @ B)


@pytest.mark.parametrize("names", [["matmul", "sketch"], ["sketch"]])
def test_operands_are_packed_for_the_implementation_in_use(names: list[str]) -> None:
    product = pb.operator("matmul", target=TARGET, implementations=names)
    weights = product.pack(B)
    np.testing.assert_array_equal(product(A, weights), A @ B)
    product.tune(A, weights, trials=8, **QUICK)
    np.testing.assert_array_equal(product(A, weights), A @ B)
    np.testing.assert_array_equal(product(A + 1, weights), (A + 1) @ B)


def test_records_in_effect_decide(product: Operator) -> None:
    plain = pb.create_task("matmul", (3, 4, 5), target=TARGET)
    rows = plain.with_implementations(["by_rows"]).first
    record = Record.of(rows, rows.space.get(1), Ok((1e-3,)))
    with pb.apply_history_best([record]):
        found = product.implementation(A, B)
    assert found.config == rows.space.get(1)


def test_one_that_computes_something_else_is_refused_by_a_search() -> None:
    with registered(doubled=by_doubling):
        product = pb.operator("matmul", target=TARGET, implementations=["matmul", "doubled"])
        with pytest.raises(ArgumentError, match="'doubled' does not implement"):
            product.tune(A, B, trials=2, **QUICK)


def test_bad_names_are_refused() -> None:
    with pytest.raises(ArgumentError, match="implementations=3 is not a list"):
        pb.operator("matmul", implementations=3)  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="no implementation 'row' of matmul; did you mean 'rows'"):
        pb.operator("matmul", target=TARGET, implementations=["row"])(A, B)
    with pytest.raises(ArgumentError, match="tune the shapes one by one"):
        pb.operator("matmul", target=TARGET, implementations="all").tune(shapes=[((3, 4), (4, 5))], trials=2)


def test_an_operator_with_implementations_is_pickled(product: Operator) -> None:
    copied: Operator = pickle.loads(pickle.dumps(product))
    assert copied._library.implementations == ("matmul", "by_rows")
