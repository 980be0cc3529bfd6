"""A call begins in machine code: each kernel hands the calls of other shapes on to the one before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.errors import ArgumentError
from pegbox.measure import Ok
from pegbox.operators import Operator, chain
from pegbox.records import Record

TARGET = "llvm -num-cores 1"
B = np.arange(20, dtype=np.float32).reshape(4, 5)


def rows(n: int) -> np.ndarray[Any, Any]:
    return np.arange(4 * n, dtype=np.float32).reshape(n, 4)


@pytest.fixture
def product(monkeypatch: pytest.MonkeyPatch) -> Operator:
    monkeypatch.setattr(chain, "_LONGEST", 3)
    return pb.operator("matmul", target=TARGET)


def test_calls_of_known_shapes_do_not_come_back_to_the_operator(product: Operator, monkeypatch: Any) -> None:
    for n in (1, 2, 3):
        product(rows(n), B)
    asked: list[Any] = []
    monkeypatch.setattr(Operator, "_called", lambda self, arrays, out: asked.append(arrays))
    out = np.empty((2, 5), np.float32)
    for n in (1, 2, 3, 2):
        np.testing.assert_allclose(product(rows(n), B), rows(n) @ B)
    assert product(rows(2), B, out=out) is out
    assert asked == []
    product(rows(4), B)
    assert len(asked) == 1


def test_more_shapes_than_a_chain_holds_are_called_all_the_same(product: Operator) -> None:
    for _ in range(2):
        for n in range(1, 9):
            np.testing.assert_allclose(product(rows(n), B), rows(n) @ B)
    assert len(product._chain.linked) == 3
    linked = product._chain.linked
    product(rows(1), B)
    assert product._chain.linked is linked, "a call of a shape that the chain has no room for changes nothing"


def test_a_tuned_kernel_takes_the_place_of_the_old_one(product: Operator) -> None:
    product(rows(2), B)
    old = product.implementation(rows(2), B)
    product(rows(3), B)
    product.tune(
        rows(2), B, trials=1, tuner="random", progress=False, measure_options={"repeats": 1, "min_repeat_ms": 0.1}
    )
    new = product.implementation(rows(2), B)
    assert product._chain.linked == (new,)
    product._chain.link(old)  # by a call that found it before
    assert product._chain.linked == (new,)


def test_faults_reach_the_operator_through_the_chain(product: Operator) -> None:
    for n in (1, 2, 3):
        product(rows(n), B)
    with pytest.raises(ArgumentError, match="gets K = 4 from A, but B has 3 there"):
        product(rows(2), B[:3])
    with pytest.raises(ArgumentError, match="masked"):
        product(np.ma.masked_array(rows(2)), B)


def test_a_block_of_records_goes_before_the_chain(product: Operator, monkeypatch: Any) -> None:
    product(rows(2), B)
    task = pb.create_task("matmul", args=(2, 4, 5), target=TARGET)
    asked: list[Any] = []
    monkeypatch.setattr(Operator, "_called", lambda self, arrays, out: asked.append(arrays))
    with pb.apply_history_best([Record.of(task, task.space.get(3), Ok((1e-3,)))]):
        product(rows(2), B)
    assert len(asked) == 1
    product(rows(2), B)
    assert len(asked) == 1


def test_the_same_without_machine_code(product: Operator, monkeypatch: Any) -> None:
    from pegbox.codegen.runtime.kernel import Kernel

    monkeypatch.setattr(Kernel, "function", lambda self, otherwise, **options: otherwise)
    for n in (1, 2, 1, 2):
        np.testing.assert_allclose(product(rows(n), B), rows(n) @ B)
