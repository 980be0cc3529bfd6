"""Records of less accurate kernels: a task that allows less takes no notice of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import pegbox as pb
from pegbox.errors import RecordError
from pegbox.measure import Ok
from pegbox.records import History, Journal, Record
from pegbox.search.loop.recorder import open_recording
from pegbox.store import TuningStore
from pegbox.task import Task

TARGET = "llvm -num-cores 1"


def product(accuracy: float | None = None) -> Task:
    return pb.create_task("matmul", (8, 8, 16), target=TARGET, accuracy=accuracy)


def record(seconds: float, error: float | None, *, number: int = 0, accuracy: float | None = None) -> Record:
    task = product(accuracy)
    config = list(zip(range(number + 1), task.space.iterate(), strict=False))[-1][1]
    return Record.of(task, config, Ok((seconds,), error=error))


def test_an_error_and_an_accuracy_read_back() -> None:
    for each in (record(1.0, 3e-6), record(1.0, 0.0), record(1.0, None), record(1.0, 1e-7, accuracy=1e-6)):
        assert Record.from_line(each.to_line()) == each


def test_lines_without_an_error_are_as_before() -> None:
    form = json.loads(record(1.0, None).to_line())
    assert form.keys() & {"error", "accuracy"} == set()
    assert json.loads(record(1.0, 0.0).to_line())["error"] == 0.0


@pytest.mark.parametrize("error", [-1e-6, "small", True])
def test_what_is_no_error_is_refused(error: object) -> None:
    form = {**json.loads(record(1.0, 1e-6).to_line()), "error": error}
    with pytest.raises(RecordError, match="an error is a number, finite and 0 or more"):
        Record.from_line(json.dumps(form))


def test_a_strict_task_uses_the_best_that_is_accurate_enough() -> None:
    fast, slow = record(1.0, 3e-6), record(2.0, 1e-7, number=1)
    history = History([fast, slow])
    assert history.best_record(product()) == fast
    assert history.best_record(product(1e-6)) == slow
    assert history.best_record(product(1e-8)) is None


def test_records_without_an_error_were_within_the_default() -> None:
    history = History([record(1.0, None)])
    default = product().accuracy
    assert history.best_record(product()) is not None
    assert history.best_record(product(2 * default)) is not None
    assert history.best_record(product(default / 2)) is None


def test_records_of_a_task_that_allowed_more_are_not_the_defaults() -> None:
    loose = record(1.0, 1e-3, accuracy=1e-2)
    assert History([loose]).best_record(product()) is None
    assert History([loose]).best_record(product(1e-2)) == loose


def test_a_resumed_search_forgets_what_is_not_accurate_enough(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "trials.jsonl")
    for each in (record(1.0, 3e-6), record(2.0, 1e-7, number=1)):
        journal.append(each)
    recordings = [
        open_recording(journal, product(accuracy), resume=True, tuner="random", seed=0) for accuracy in (None, 1e-6)
    ]
    assert [len(each.history) for each in recordings] == [2, 1]


def test_the_store_keeps_a_best_for_each_accuracy_that_was_given(tmp_path: Path) -> None:
    store = TuningStore(tmp_path)
    store.keep(record(1.0, 3e-6))
    store.keep(record(2.0, 1e-7, number=1, accuracy=1e-6))
    assert [store.best(product(accuracy)).cost for accuracy in (None, 1e-6)] == [1.0, 2.0]  # type: ignore[union-attr]
    assert store.best(product(1e-7)) is None
    store.remove(replace(record(2.0, 1e-7, number=1, accuracy=1e-6)))
    assert store.best(product(1e-6)) is None
