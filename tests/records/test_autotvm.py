"""Lines of AutoTVM's logs (version 0.2) as records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pegbox
from pegbox import te
from pegbox.errors import RecordError
from pegbox.measure import Failed, FailureKind, Ok
from pegbox.records import History, Journal, Record, best, load_history
from pegbox.records.journal import RecordWarning

TVM_TARGETS = ["llvm", "llvm -keys=cpu -link-params=0 -mcpu=skylake-avx512", '{"kind": "llvm", "keys": ["cpu"]}']


def line(task: Any, index: int, cost: float = 1e-3, *, target: str = "llvm -keys=cpu", **changes: Any) -> str:
    args = [*task.args, *task.kwargs.values()]
    entity = task.space.get(index).to_json()["entity"]
    form = {
        "input": [target, task.name, [args[0], args[1:3], *args[3:]], {}],
        "config": {"index": index, "code_hash": None, "entity": entity},
        "result": [[cost], 0, 0.5, 1600000000.25],
        "version": 0.2,
        "tvm_version": "0.8.0",
    }
    return json.dumps({**form, **changes})


def test_a_line_is_read_with_what_it_says(task: Any) -> None:
    record = Record.from_line(line(task, 5, 2e-3))
    assert (record.tool, record.name, record.space, record.target) == ("autotvm", "matmul", "", "llvm -keys=cpu")
    assert record.result == Ok((2e-3,), 0.5, 1600000000.25)
    assert record.is_of(task)
    assert task.space.from_json(record.config) == task.space.get(5)
    assert record.described == "matmul(64, ((1, 2), 64), 'float32')"


def test_it_is_written_as_it_was_read(task: Any) -> None:
    record = Record.from_line(line(task, 5))
    assert Record.from_line(record.to_line()) == record
    assert json.loads(record.to_line())["version"] == 0.2


@pytest.mark.parametrize(
    ("number", "kind"),
    [(1, "INVALID"), (2, "COMPILE_ERROR"), (4, "RUN_ERROR"), (5, "WRONG_RESULT"), (6, "TIMEOUT"), (7, "TIMEOUT")],
)
def test_error_numbers_have_the_meaning_of_autotvm(task: Any, number: int, kind: str) -> None:
    record = Record.from_line(line(task, 5, result=[[1e9], number, 10.0, 1600000000.0]))
    assert isinstance(record.result, Failed)
    assert record.result.kind is FailureKind[kind]
    again = Record.from_line(record.to_line())
    assert again == record


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 0.1}, r"version 0\.1 of AutoTVM's logs: pegbox reads 0\.2"),
        ({"result": [[1e9], 9, 1.0, 1.0]}, "error number 9: AutoTVM's are 0 to 8"),
        ({"result": [[], 0, 1.0, 1.0]}, "one or more costs"),
        ({"config": [1]}, "config is .* instead of dict"),
    ],
)
def test_what_autotvm_does_not_write_is_refused(task: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        Record.from_line(line(task, 5, **changes))


def test_a_line_of_version_0_1_is_refused_in_words() -> None:
    config = {"i": 25, "t": "direct", "c": None, "e": [["tile", "sp", [16, 4]]]}
    form = {"v": 0.1, "i": ["llvm", "matmul", [64], {}, ["matmul", 64], config], "r": [[2e-4], 0, 3.2, 1.5e9]}
    with pytest.raises(RecordError, match=r"version 0\.1 of AutoTVM's logs: pegbox reads 0\.2"):
        Record.from_line(json.dumps(form))


@pytest.mark.parametrize("target", TVM_TARGETS)
def test_the_best_of_a_log_is_applied_with_a_warning(task: Any, target: str) -> None:
    records = [Record.from_line(line(task, index, cost, target=target)) for index, cost in [(3, 2e-3), (4, 1e-3)]]
    with pytest.warns(RecordWarning, match="is AutoTVM's, which measured it for"):
        assert History(records, source="old.log").best_config(task) == task.space.get(4)


def test_a_log_for_other_targets_is_refused(task: Any) -> None:
    records = [Record.from_line(line(task, 3, target="cuda -keys=cuda,gpu"))]
    with pytest.raises(RecordError, match="are for the target 'cuda -keys=cuda,gpu', the task is for"):
        History(records).best_config(task)


def test_a_log_of_another_space_is_refused(task: Any) -> None:
    entity = [["tile", "sp", [-1, 5]], ["unroll", "ot", 0]]
    record = Record.from_line(line(task, 3, config={"index": 3, "code_hash": None, "entity": entity}))
    with (
        pytest.warns(RecordWarning),
        pytest.raises(RecordError, match=r"'tile' is \[-1, 5\] there, which is not a value of split 'tile'"),
    ):
        History([record]).best_config(task)


def test_choices_count_where_autotvm_numbers_them_otherwise(task: Any) -> None:
    form = json.loads(line(task, 3))
    form["config"]["index"] = 4
    record = Record.from_line(json.dumps(form))
    with pytest.warns(RecordWarning):
        assert History([record]).best_config(task) == task.space.get(3)


def test_logs_of_other_arguments_and_templates_are_not_of_the_task(task: Any, other_task: Any) -> None:
    record = Record.from_line(line(task, 3))
    assert not record.is_of(other_task)
    assert best([record], other_task) is None


def test_costs_measured_here_win_over_those_of_another_compiler(task: Any) -> None:
    records = [task.record(1, 3e-3), Record.from_line(line(task, 4, 1e-6))]
    assert best(records) == records[0]
    assert best([task.record(1, 3e-3), task.record(1, 2e-3, remeasured=True), records[1]]).cost == 2e-3  # type: ignore[union-attr]


def test_a_search_does_not_go_on_from_the_costs_of_another_compiler(task: Any, tmp_path: Path) -> None:
    path = tmp_path / "old.log"
    path.write_text(f"{line(task, 3)}\n{task.record(5).to_line()}\n")
    with pytest.warns(RecordWarning, match="1 records .* are AutoTVM's, whose costs are those of another compiler"):
        configs, _ = load_history(Journal(path), task)
    assert configs == [task.space.get(5)]


def rowwise(cfg: Any, n: int, dtype: str) -> Any:
    a = te.placeholder((n,), dtype, name="A")
    b = te.compute((n,), lambda i: a[i] + a[i], name="B")
    s = te.create_schedule(b.op)
    cfg.define_split("tile", b.op.axis[0], num_outputs=2)
    cfg["tile"].apply(s, b, b.op.axis[0])
    return s, [a, b]


class TestRecordedSpace:
    """A log answers for measurements."""

    task = pegbox.create_task(rowwise, args=(8, "float32"))

    def written(self, folder: Path, *indices: int, entity: Any = None) -> Path:
        lines = []
        for index in indices:
            config = {"index": index, "entity": entity or self.task.space.get(index).to_json()["entity"]}
            form = {
                "input": ["llvm -keys=cpu", "rowwise", [8, "float32"], {}],
                "config": config,
                "result": [[1e-3 * (index + 1)], 0, 0.5, 1600000000.0],
                "version": 0.2,
            }
            lines.append(json.dumps(form) + "\n")
        (folder / "old.log").write_text("".join(lines))
        return folder / "old.log"

    def test_a_log_is_searched_in_place_of_measuring(self, tmp_path: Path) -> None:
        recorded = pegbox.recorded_space(self.written(tmp_path, 0, 1, 3), task=self.task)
        assert len(recorded) == 3
        result = pegbox.tune(recorded, tuner="grid", trials=3, progress=False)
        assert result.best is not None
        assert result.best.config.index == 0

    def test_a_log_of_another_space_is_refused(self, tmp_path: Path) -> None:
        path = self.written(tmp_path, 0, entity=[["tile", "sp", [-1, 16]]])
        with pytest.raises(RecordError, match="a config does not fit the space of rowwise"):
            pegbox.recorded_space(path, task=self.task)

    def test_a_log_of_an_unknown_template_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(RecordError, match=r"the records are of rowwise\(8, 'float32'\) from a space .*\(unknown\)"):
            pegbox.recorded_space(self.written(tmp_path, 0))

    def test_other_shapes_learn_from_a_log(self, tmp_path: Path) -> None:
        other = pegbox.create_task(rowwise, args=(16, "float32"))
        tuner = pegbox.create_tuner("xgb", other, transfer=self.written(tmp_path, 0, 1, 2, 3))
        assert len(tuner.ask(4)) == 4
