"""Logs by AutoTVM's names."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from autotvm_tasks import matmul, sample_records, sample_task

from pegbox.errors import RecordError, UnknownName
from pegbox.measure import Failed, FailureKind, Ok
from pegbox.plugins.tvm import autotvm
from pegbox.plugins.tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from pegbox.plugins.tvm.autotvm.record import decode, encode, load_from_file
from pegbox.records import Journal, best
from pegbox.records.journal import RecordWarning


def logged(path: Path, pairs: list[tuple[MeasureInput, MeasureResult]]) -> str:
    write = autotvm.callback.log_to_file(str(path))
    for inp, result in pairs:
        write(None, [inp], [result])
    return str(path)


def autotvm_line(index: int, cost: float, *, n: int = 128, **changes: Any) -> str:
    """Return a line as AutoTVM writes it."""
    form = {
        "input": ["llvm -keys=cpu ", "testing/matmul", [n, n, n, "float32"], {}],
        "config": sample_task(n).config_space.get(index).to_json() | {"code_hash": None},
        "result": [[cost], 0, 0.25, 1600000000.5],
        "version": 0.2,
        "tvm_version": "0.9.0",
    }
    return json.dumps({**form, **changes}) + "\n"


def test_a_line_is_written_and_read() -> None:
    task = sample_task()
    inp = MeasureInput(task.target, task, task.config_space.get(5))
    result = MeasureResult((2.0, 2.23, 0.23), MeasureErrorNo.NO_ERROR, 2.3, time.time())
    found = decode(encode(inp, result))
    assert found is not None
    assert found[1] == result
    assert (found[0].task.workload, found[0].config) == (task.workload, inp.config)


@pytest.mark.parametrize("costs", [(), (-1.0,), (0.0,), (float("inf"),), (1.0, float("nan"))])
def test_costs_that_are_no_times_are_not_recorded(costs: tuple[float, ...]) -> None:
    task = sample_task()
    inp = MeasureInput(task.target, task, task.config_space.get(5))
    with pytest.raises(RecordError, match=r"cannot be recorded: costs \[.*finite and above 0"):
        encode(inp, MeasureResult(costs, MeasureErrorNo.NO_ERROR, 2.3, time.time()))


def test_comments_and_empty_lines_are_nothing() -> None:
    assert decode("# a comment") is None
    assert decode("\n") is None


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        (FailureKind.INVALID, MeasureErrorNo.INSTANTIATION_ERROR),
        (FailureKind.COMPILE_ERROR, MeasureErrorNo.COMPILE_HOST),
        (FailureKind.RUN_ERROR, MeasureErrorNo.RUNTIME_DEVICE),
        (FailureKind.WRONG_RESULT, MeasureErrorNo.WRONG_ANSWER),
        (FailureKind.TIMEOUT, MeasureErrorNo.RUN_TIMEOUT),
    ],
)
def test_failures_have_the_numbers_of_autotvm(kind: FailureKind, number: int) -> None:
    result = MeasureResult.of(Failed(kind, "it broke", 0.5, 1.7e9))
    assert (result.error_no, result.all_cost, str(result.costs[0])) == (number, 0.5, "it broke")
    assert result.to_result() == Failed(kind, "it broke", 0.5, 1.7e9)
    task = sample_task()
    found = decode(encode(MeasureInput(task.target, task, task.config_space.get(5)), result))
    assert found is not None
    assert found[1].error_no == number


def test_a_log_is_read_by_scripts_and_by_pegbox(tmp_path: Path) -> None:
    pairs = sample_records(10)
    path = logged(tmp_path / "a.log", pairs)
    assert [(str(inp.config), result) for inp, result in load_from_file(path)] == [
        (str(inp.config), result) for inp, result in pairs
    ]
    records = Journal(path).read()
    found = best(records, pairs[0][0].task.inner)
    assert found is not None
    assert (found.result, found.config["index"]) == (Ok((1.0,), 0.5, 1.7e9), 0)


def test_the_best_of_each_workload_is_picked(tmp_path: Path) -> None:
    path = logged(tmp_path / "a.log", [*sample_records(3)[::-1], *sample_records(3, n=64)[1:]])
    autotvm.record.pick_best(path, str(tmp_path / "best.log"))
    found = [(inp.task.args[0], inp.config.index) for inp, _ in load_from_file(tmp_path / "best.log")]
    assert found == [(128, 0), (64, 1)]


def test_history_best_of_several_files(tmp_path: Path) -> None:
    paths = [logged(tmp_path / "a.log", sample_records(5)[3:]), logged(tmp_path / "b.log", sample_records(3)[1:])]
    task = sample_task()
    nested = [iter([paths[0]]), (paths[1],), iter(sample_records(3)[2:])]
    for source in (paths, iter(paths), paths[1], sample_records(5)[1:], iter(nested)):
        found = autotvm.apply_history_best(source).query(task.target, task.workload)
        assert found is not None
        assert found.index == 1
    assert autotvm.apply_history_best(None).query(task.target, task.workload) is None
    with pytest.raises(RecordError, match="3 is at place 0 of the list"):
        autotvm.apply_history_best([(3,)]).query(task.target, task.workload)


def test_records_of_another_space_are_refused(tmp_path: Path) -> None:
    line = encode(*sample_records(1)[0])
    (tmp_path / "old.log").write_text(line.replace(json.loads(line)["space"], "0" * 64) + "\n")
    with pytest.raises(RecordError, match="are from the space 000000000000"):
        list(load_from_file(tmp_path / "old.log"))


class TestLogsOfAutotvm:
    def test_they_are_loaded(self, tmp_path: Path) -> None:
        (tmp_path / "old.log").write_text(autotvm_line(9, 2e-3) + autotvm_line(18, 1e-3))
        pairs = [*load_from_file(tmp_path / "old.log")]
        assert [inp.config.index for inp, _ in pairs] == [9, 18]
        assert pairs[0][0].task.flop == 2 * 128**3
        assert pairs[1][1] == MeasureResult((1e-3,), 0, 0.25, 1600000000.5)

    def test_their_best_is_applied_with_a_warning(self, tmp_path: Path) -> None:
        (tmp_path / "old.log").write_text(autotvm_line(9, 2e-3) + autotvm_line(18, 1e-3))
        task = sample_task()
        with autotvm.apply_history_best(str(tmp_path / "old.log")), pytest.warns(RecordWarning, match="is AutoTVM's"):
            s, (_, _, C) = matmul(*task.args)
        assert [iv.extent for iv in s[C].leaf_iter_vars] == [32, 32, 128, 4, 4]

    def test_of_another_space_they_are_refused(self, tmp_path: Path) -> None:
        form = {"index": 0, "code_hash": None, "entity": [["tile", "sp", [-1, 2]]]}
        (tmp_path / "old.log").write_text(autotvm_line(9, 2e-3, config=form))
        context = autotvm.apply_history_best(str(tmp_path / "old.log"))
        task = sample_task()
        with (
            pytest.warns(RecordWarning),
            pytest.raises(RecordError, match="it names knobs that the space does not have: 'tile'"),
        ):
            context.query(task.target, task.workload)

    def test_of_templates_that_are_unknown_they_are_refused(self, tmp_path: Path) -> None:
        line = autotvm_line(9, 2e-3, input=["llvm -keys=cpu", "conv2d.x86", [[1, 3], "float32"], {}])
        (tmp_path / "old.log").write_text(line)
        with pytest.raises(UnknownName, match=r"no template 'conv2d\.x86' has been defined"):
            list(load_from_file(tmp_path / "old.log"))
