"""Tasks of a computation that is given by its tensors."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sketch_values import check_values

import pegbox as pb
from pegbox import te
from pegbox.errors import ComputeError, TemplateError
from pegbox.plugins.sketch import sketch_template
from pegbox.records import Journal, best
from pegbox.shown import value_text

TARGET = "llvm -num-cores 1"
QUIET: dict[str, Any] = {"progress": False, "store": None, "tuner": "random"}


def product(n: int = 8) -> list[te.Tensor]:
    A, B = te.placeholder((n, 16), name="A"), te.placeholder((16, 24), name="B")
    k = te.reduce_axis((0, 16), name="k")
    return [A, B, te.compute((n, 24), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")]


def test_arguments_or_outputs_make_the_same_task() -> None:
    tensors = product()
    every = pb.create_task(tensors, space="sketch", target=TARGET)
    assert every.tensors == tuple(tensors)
    for given in (tensors[-1], tensors[-1:], tuple(tensors)):
        task = pb.create_task(given, space="sketch", target=TARGET)
        assert (task.workload, task.fingerprint) == (every.workload, every.fingerprint)
    check_values(every, every.space.get(next(iter(every.space.iterate())).index))


def test_the_same_computation_made_again_is_the_same_task_and_another_one_is_not() -> None:
    one, same, other = (pb.create_task(product(n), space="sketch", target=TARGET) for n in (8, 8, 6))
    assert one.workload == same.workload != other.workload


def test_a_search_goes_on_from_its_records_and_workers_get_the_task(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    result = pb.tune(pb.create_task(product(), space="sketch", target=TARGET), trials=3, records=file, **QUIET)
    assert result.best is not None
    again = pickle.loads(pickle.dumps(pb.create_task(product(), space="sketch", target=TARGET)))
    resumed = pb.tune(again, trials=4, records=file, resume=True, **QUIET)
    assert (len(resumed.history), len(resumed.trials)) == (3, 1)
    record = best(Journal(file).read(), again)
    assert record is not None
    check_values(again, again.space.from_json(record.config))
    with pb.apply_history_best(file):
        pb.build(again)
    assert "layout" not in again.show_ir(result.best.config)
    assert "C" in again.schedule_code(result.best.config)
    assert "def C_" in sketch_template(again, result.best.config)


def test_a_reducer_of_ones_own_is_searched_too() -> None:
    A, k = te.placeholder((8, 16), name="A"), te.reduce_axis((0, 16), name="k")
    least = te.comm_reducer(lambda a, b: te.minimum(a, b), lambda t: te.max_value(t), name="least")
    task = pb.create_task(te.compute((8,), lambda i: least(A[i, k], axis=k), name="M"), space="sketch", target=TARGET)
    assert pb.tune(task, trials=2, **QUIET).best is not None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "nothing of an empty list is computed"),
        (te.placeholder((4,), name="A"), "nothing of A is computed"),
        ([te.placeholder((4,), name="A"), 3], "3 is not a tensor"),
    ],
)
def test_what_is_no_computation_is_refused(given: object, said: str) -> None:
    with pytest.raises(TemplateError, match=said):
        pb.create_task(given, space="sketch")


def test_a_missing_input_is_named() -> None:
    with pytest.raises(TemplateError, match=r"^create_task: \[A, C\] lacks the input B; give all arguments"):
        pb.create_task(product()[::2], space="sketch")


def test_sizes_that_are_variables_are_refused() -> None:
    A = te.placeholder((te.var("n"),), name="A")
    doubled = te.compute(A.shape, lambda i: A[i] * 2.0, name="Y")
    for given in (doubled, [A, doubled]):
        with pytest.raises(ComputeError, match="its size n is a variable"):
            pb.create_task(given, space="sketch")


@pytest.mark.parametrize("collect", [set, iter, dict.fromkeys])
def test_a_collection_that_is_no_list_is_shown_once(collect: Callable[[list[te.Tensor]], object]) -> None:
    given = collect(product())
    with pytest.raises(TemplateError) as caught:
        pb.create_task(given, space="sketch")
    assert str(caught.value).startswith(f"{value_text(given)} is not a workload function")


def test_tensors_need_a_space() -> None:
    with pytest.raises(TemplateError, match="add space='sketch'"):
        pb.create_task(product())


def test_tensors_take_no_arguments() -> None:
    with pytest.raises(TemplateError, match="cannot take"):
        pb.create_task(product(), (64,), space="sketch")
