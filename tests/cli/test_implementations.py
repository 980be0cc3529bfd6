"""Commands with --implementations and --accuracy, on products so small that measuring takes seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from implementations import by_rows, registered, rows

TASK = ("matmul", 8, 4, 16, "--target", "llvm -num-cores 1")


@pytest.fixture(autouse=True)
def _rows() -> Iterator[None]:
    with registered(by_rows=by_rows):
        yield


def test_tune_and_build_use_the_best_of_the_implementations(pegbox: Callable[..., Any]) -> None:
    both = (*TASK, "--implementations", "matmul,by_rows")
    ran = pegbox("tune", *both, "--trials", 12, "--tuner", "random", "--records", "both.jsonl", "--quiet")
    assert ran.code == 0
    assert "implementation: " in ran.out
    assert "matmul " in ran.out
    assert "by_rows " in ran.out
    built = pegbox("build", *both, "--records", "both.jsonl", "--out", "kernel.o")
    assert built.code == 0
    won = ran.out.partition("implementation: ")[2].partition(";")[0]
    assert f"implementation: {rows.name if won == 'by_rows' else won}" in built.out
    best = pegbox("best", "both.jsonl")
    assert "matmul(" in best.out
    assert f"{rows.name}(" in best.out


def test_an_unknown_implementation_is_an_error_with_near_names(pegbox: Callable[..., Any]) -> None:
    ran = pegbox("tune", *TASK, "--implementations", "matmul,row")
    assert ran.code != 0
    assert "there is no implementation 'row' of matmul; did you mean 'rows'" in ran.err


def test_a_number_is_of_one_task(pegbox: Callable[..., Any]) -> None:
    ran = pegbox("build", *TASK, "--implementations", "all", "--config", 1, "--out", "kernel.o")
    assert ran.code == 2
    assert "--config is the number of a configuration of one task: leave --implementations out" in ran.err


def test_candidates_beyond_the_accuracy_fail(pegbox: Callable[..., Any]) -> None:
    ran = pegbox("tune", *TASK, "--accuracy", "1e-9", "--trials", 3, "--tuner", "random", "--quiet")
    assert ran.code != 0
    assert "the task allows 1e-09; give accuracy=" in ran.out
