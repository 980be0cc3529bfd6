"""op.tune: later calls use the best, of one shape or of several under one budget."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.errors import ArgumentError
from pegbox.measure import Ok
from pegbox.operators import Operator
from pegbox.records import Record
from pegbox.search import TuneResult
from pegbox.space import Config
from pegbox.store import TuningStore

TARGET = "llvm -num-cores 1"
A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(20, dtype=np.float32).reshape(4, 5)
QUICK = {"tuner": "random", "progress": False, "measure_options": {"repeats": 1, "min_repeat_ms": 0.1}}


@pb.workload("tuning_test_gathered")
def gathered(n: int, m: int) -> list[te.Tensor]:
    index, x = te.placeholder((m,), name="I", dtype="int32"), te.placeholder((n,), name="X")
    return [index, x, te.compute((m,), lambda i: x[index[i]], name="Y")]


@pytest.fixture
def product() -> Operator:
    return pb.operator("matmul", target=TARGET)


def test_a_tuned_shape_is_used_at_once_and_others_are_not_touched(product: Operator, tmp_path: Path) -> None:
    other = product.implementation(A[:2], B)
    result = product.tune(A, B, trials=2, records=tmp_path / "trials.jsonl", **QUICK)
    assert isinstance(result, TuneResult)
    assert result.best is not None
    found = product.implementation(A, B)
    assert (found.origin, found.config) == ("tuned", result.best.config)
    np.testing.assert_allclose(product(A, B), A @ B)
    assert product.implementation(A[:2], B) is other
    assert len((tmp_path / "trials.jsonl").read_text().splitlines()) >= 2


def _configs(result: TuneResult) -> list[Config]:
    return [trial.config for trial in result.trials]


def test_the_configuration_in_use_is_measured_first_and_wins_or_loses_by_times(product: Operator) -> None:
    predicted = product.implementation(A, B).config
    assert _configs(product.tune(A, B, trials=1, **QUICK)) == [predicted]
    result = product.tune(A, B, trials=2, **QUICK)
    assert _configs(result)[0] == predicted
    assert predicted in [trial.config for trial in result.finalists]


def test_a_search_begins_with_what_a_first_call_would_use(product: Operator, tmp_path: Path) -> None:
    task = product.implementation(A, B).task
    assert task is not None
    best, recorded, named = islice(task.space.iterate(), 3)
    store = TuningStore(tmp_path)
    other = pb.operator("matmul", target=TARGET, store=store)
    assert _configs(other.tune(A, B, trials=1, store=None, **QUICK)) == [product.implementation(A, B).config]
    store.keep(Record.of(task, best, Ok((1.0,))))
    another = pb.operator("matmul", target=TARGET, store=store)
    assert _configs(another.tune(A, B, trials=1, store=None, **QUICK)) == [best]
    with pb.apply_history_best([Record.of(task, recorded, Ok((1.0,)))]):
        assert _configs(another.tune(A, B, trials=1, store=None, **QUICK)) == [recorded]
    assert _configs(another.tune(A, B, trials=1, store=None, first=[named], **QUICK)) == [named]


def test_a_search_of_a_kept_kernel_begins_with_its_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEGBOX_STORE", str(tmp_path))
    chosen = pb.operator("matmul", target=TARGET, first_use=4).implementation(A, B).config
    again = pb.operator("matmul", target=TARGET)
    assert again.implementation(A, B).origin == "kept"
    assert _configs(again.tune(A, B, trials=1, **QUICK)) == [chosen]


def test_a_better_one_of_the_store_is_used_after_a_search_that_did_not_measure_it(
    product: Operator, tmp_path: Path
) -> None:
    store = TuningStore(tmp_path)
    first = pb.operator("matmul", target=TARGET, store=store)
    used = first.implementation(A, B)
    assert used.task is not None
    assert used.config is not None
    better = used.task.space.get(used.config.index + 1)
    store.keep(Record.of(used.task, better, Ok((1e-12,))))
    first.tune(A, B, trials=1, **QUICK)
    assert first.implementation(A, B).config == better
    for shapes, begun in (([((3, 4), (4, 5))], [[used.config]]), ([((3, 4), (4, 5))], [[better]])):
        second = pb.operator("matmul", target=TARGET, store=store)
        second.tune(shapes=shapes, first=begun, trials=1, **QUICK)
        assert second.implementation(A, B).config == better


def test_what_was_tuned_replaces_the_fallback_in_a_block_of_records(product: Operator) -> None:
    task = pb.create_task("matmul", args=(2, 4, 5), target=TARGET)
    with pb.apply_history_best([Record.of(task, task.space.get(3), Ok((1e-3,)))]):
        product(A, B)
        product.tune(A, B, trials=1, **QUICK)
        assert product.implementation(A, B).origin == "tuned"


def test_packed_operands_are_tuned_packed(product: Operator) -> None:
    packed = product.pack(B)
    np.testing.assert_allclose(product(A, packed), A @ B)
    product.tune(A, packed, trials=1, **QUICK)
    assert product.implementation(A, packed).origin == "tuned"
    np.testing.assert_allclose(product(A, packed), A @ B)


def test_indices_are_tuned_with_those_that_are_given() -> None:
    take = pb.operator(gathered, target=TARGET)
    index = np.array([2, 0, 1, 1], np.int32)
    take.tune(index, A[0], trials=1, **QUICK)
    np.testing.assert_array_equal(take(index, A[0]), A[0][index])


def test_several_shapes_share_the_trials(product: Operator, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shapes = [((3, 4), (4, 5)), ((2, 4), (4, 5))]
    best = product.tune(shapes=shapes, trials=3, **{**QUICK, "progress": True}, records=tmp_path / "all.jsonl")
    assert [trial is not None for trial in best] == [True, True]
    assert [product.implementation(a, B).origin for a in (A, A[:2])] == ["tuned", "tuned"]
    np.testing.assert_allclose(product(A, B), A @ B)
    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    assert sum('"remeasured": true' not in line for line in lines) == 3
    assert "trials, best" in capsys.readouterr().err


def test_the_shape_of_one_input_is_enough(product: Operator) -> None:
    sums = pb.operator("row_sum", target=TARGET)
    sums.tune(shapes=[(3, 4)], dtype="float64", trials=1, **QUICK)
    assert sums.implementation(A.astype("float64")).origin == "tuned"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shapes": []}, r"give the inputs' shapes of each call"),
        ({"shapes": 3}, r"shapes=3 is not a list"),
        ({"shapes": [((3, 4), (4, 0))], "trials": 1}, "out of range"),
        ({"shapes": [((3, 4), (5, 6))], "trials": 1}, "gets K = 4 from A"),
        ({"shapes": [((3, 4), (4, 5))], "dtype": "floaty", "trials": 1}, "dtype='floaty'"),
        ({"shapes": [((3, 4), (4, 5))]}, "has no limit; give trials="),
        ({"shapes": [((3, 4), (4, 5))], "trials": 0}, "trials=0"),
        ({"shapes": [((3, 4), (4, 5))], "trails": 1}, r"no argument 'trails'; did you mean 'trials'"),
    ],
)
def test_shapes_and_limits_that_mean_nothing_are_refused(
    product: Operator, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        product.tune(**options)  # type: ignore[call-overload]


def test_arrays_and_shapes_together_are_refused(product: Operator) -> None:
    with pytest.raises(ArgumentError, match="not both"):
        product.tune(A, B, shapes=[((3, 4), (4, 5))], trials=1)  # type: ignore[call-overload]
