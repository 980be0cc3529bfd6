from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pegbox.errors import RecordError
from pegbox.measure import Baseline, Failed, FailureKind, Ok, Result
from pegbox.records import FAILED_COST, VERSION, Record


@pytest.mark.parametrize(
    "result",
    [
        Ok((1.5e-3, 1.25e-3), 0.5, 1700000000.25, {"lower": 0.01, "build": 0.04}),
        Ok((0.1,), partial=True, threads=2),
        *(Failed(kind, "said »so«\nand more", 0.5, 1.0, {"lower": 0.01}) for kind in FailureKind if kind > 0),
    ],
)
def test_a_record_reads_back_equal(task: Any, result: Result) -> None:
    record = task.record(5, result, tuner="xgb", seed=3, remeasured=True)
    line = record.to_line()
    assert "\n" not in line
    assert Record.from_line(line) == record


def test_a_record_with_former_field_names_reads_back_equal(task: Any) -> None:
    baseline = Baseline(cores=2, flop=4e6, read=1.0, written=1.0, numpy=3e-3)
    record = task.record(5, Ok((1e-3,), run_queue_wait=0.5), baseline=baseline)
    line = record.to_line()
    old = line.replace('"run_queue_wait"', '"waited"').replace('"baseline"', '"yardstick"')
    assert set(json.loads(line)) - set(json.loads(old)) == {"run_queue_wait", "baseline"}
    assert Record.from_line(old) == record


def test_scripts_written_for_autotvm_find_their_fields(task: Any) -> None:
    form = json.loads(task.record(5, Ok((1e-3, 2e-3), 0.5, 1700000000.0)).to_line())
    assert form["input"] == [task.target, "matmul", [64, [1, 2], 64], {"dtype": "float32"}]
    assert form["config"] == task.space.get(5).to_json()
    assert form["result"] == [[1e-3, 2e-3], 0, 0.5, 1700000000.0]
    assert form["version"] == VERSION


def test_what_was_not_measured_is_refused(task: Any) -> None:
    record = task.record(5, Failed(FailureKind.NOT_RECORDED, "not among them"))
    with pytest.raises(RecordError, match="config 5 of matmul was not measured"):
        record.to_line()


def test_error_numbers_in_old_files_keep_their_meaning() -> None:
    assert [kind.name for kind in sorted(FailureKind) if kind > 0] == [
        "INVALID",
        "COMPILE_ERROR",
        "RUN_ERROR",
        "CRASH",
        "WRONG_RESULT",
        "TIMEOUT",
        "INACCURATE",
    ]


def test_a_failed_trial_sorts_behind_every_good_one_in_such_scripts(task: Any, crash: Failed) -> None:
    form = json.loads(task.record(5, crash).to_line())
    assert form["result"][0][0] == FAILED_COST
    assert form["result"][1] == FailureKind.CRASH
    assert form["message"] == crash.message


def test_numpy_numbers_as_arguments_are_plain_numbers(task: Any) -> None:
    plain = task.record(5)
    task.args = (np.int64(64), (np.int32(1), 2), 64)
    record = task.record(5)
    assert record == plain
    assert Record.from_line(record.to_line()) == plain


def test_an_argument_that_json_cannot_hold_is_shown(task: Any) -> None:
    task.args = (64, object(), 64)
    with pytest.raises(RecordError, match="object object"):
        task.record(5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": VERSION + 1}, "newer"),
        ({"space": None}, "'space' is missing"),
        ({"result": [[], 0, 1.0, 1.0]}, "costs"),
        ({"result": [[-1.0], 0, 1.0, 1.0]}, "costs"),
        ({"result": [[float("inf")], 0, 1.0, 1.0]}, "inf"),
        ({"result": [[float("nan")], 0, 1.0, 1.0]}, "nan"),
        ({"result": [[1.0], 0, float("nan"), 1.0]}, "seconds nan"),
        ({"result": [[1.0], 0, 1.0, 1.0], "phases": {"build": -1}}, "-1"),
        ({"result": [[1.0], -1, 1.0, 1.0]}, "error number -1"),
        ({"result": [[1.0], 99, 1.0, 1.0]}, "99"),
        ({"result": 5}, "wrong form"),
        ({"input": ["llvm"]}, "wrong form"),
        ({"config": 3}, "wrong form"),
    ],
)
def test_a_line_of_another_form_says_what_is_wrong(task: Any, change: dict[str, Any], words: str) -> None:
    form = {**json.loads(task.record(5).to_line()), **change}
    form = {key: value for key, value in form.items() if value is not None or key == "seed"}
    with pytest.raises(RecordError, match=words):
        Record.from_line(json.dumps(form))


@pytest.mark.parametrize("line", ["", "[]", "5", '"text"', "{", '{"input": ['])
def test_a_line_that_is_no_record_is_refused(line: str) -> None:
    with pytest.raises(RecordError):
        Record.from_line(line)
