"""Recorded spaces: what is read of a file, and what is refused."""

from __future__ import annotations

import dataclasses
import gzip
import json
import lzma
import re
from pathlib import Path
from typing import Any

import pytest
from shipped_spaces import shipped_space

import pegbox as pb
from pegbox.errors import RecordError
from pegbox.measure import Failed, FailureKind, Ok
from pegbox.records import Journal, Record
from pegbox.records import library as records_library
from pegbox.records.recorded_space import RecordedSpace, seconds_of
from pegbox.space import ConfigSpace, ListedSpace

TEMPLATES = str(Path(__file__).parents[1] / "helpers" / "task_templates.py")


@pytest.fixture(scope="module")
def rows() -> Any:
    return pb.create_task(f"{TEMPLATES}:rows", args=(8, 4))


@pytest.fixture(scope="module")
def wide_rows() -> Any:
    return pb.create_task(f"{TEMPLATES}:rows", args=(16, 4))


def trial(task: Any, index: int, cost: float, *, build: float = 0.5, **changes: Any) -> Record:
    """A record of `task` on the machine "here", a tenth of a second of running in it."""
    options = {"remeasured": changes.pop("remeasured", False)}
    result = changes.pop("result", Ok((cost,), build + 0.1, 1.0, {"build": build, "timing": 0.1}))
    made = Record.of(task, task.space.get(index), result, tuner="random", seed=0, **options)
    return dataclasses.replace(made, **{"host": "here (a CPU)", **changes})


def write(path: Path, records: list[Record]) -> Path:
    path.write_text("".join(record.to_line() + "\n" for record in records))
    return path


@pytest.fixture
def file(tmp_path: Path, rows: Any) -> Path:
    return write(tmp_path / "space.jsonl", [trial(rows, index, 1e-3 * (1 + index)) for index in range(6)])


def test_every_config_with_its_result_and_the_task_from_its_template(file: Path, rows: Any) -> None:
    recorded = pb.recorded_space(file)
    assert recorded.task is not None
    assert recorded.task.workload == rows.workload
    assert recorded.name == "test_rows-8x4"
    assert recorded.flop == rows.flop
    assert recorded.best_cost == 1e-3
    assert recorded.host == "here (a CPU)"
    assert recorded.target == str(rows.target)
    assert recorded.results[rows.space.get(3)].cost == 4e-3
    assert isinstance(recorded.space, ListedSpace)
    assert [config.index for config in recorded.space.iterate()] == list(range(6))
    assert "6 configurations, 6 of them ran" in str(recorded)


def test_a_whole_space_is_searched_as_it_is(tmp_path: Path) -> None:
    task = pb.create_task(f"{TEMPLATES}:rows", args=(1, 2))
    records = [trial(task, config.index, 1.0) for config in task.space.iterate()]
    recorded = pb.recorded_space(write(tmp_path / "all.jsonl", records))
    assert type(recorded.space) is pb.ConfigSpace
    assert recorded.space is recorded.full_space


@pytest.mark.parametrize("name", ["data.py:f", "./data.py:f", "data:f", "data:f.g"])
def test_the_name_of_a_template_in_a_record_imports_and_runs_nothing(
    name: str, tmp_path: Path, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "data.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    record = dataclasses.replace(trial(rows, 0, 1.0, name=name), ref="")
    file = write(tmp_path / "space.jsonl", [record])
    with pytest.raises(RecordError, match=r"there is no template '.*import the template first, or give task="):
        pb.recorded_space(file)
    hinted = write(tmp_path / "hinted.jsonl", [dataclasses.replace(record, ref=name)])
    with pytest.raises(RecordError, match=rf"of {re.escape(name)}, which is not imported because a file of records"):
        pb.load_result(hinted)
    with pytest.raises(RecordError):
        pb.compare([pb.recorded_space(file)], ["random", "ga"], trials=1)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_files_read_alike(file: Path, suffix: str, pack: Any) -> None:
    packed = Path(f"{file}{suffix}")
    packed.write_bytes(pack(file.read_bytes()))
    assert pb.recorded_space(packed).results == pb.recorded_space(file).results
    assert len(Journal(packed).read()) == 6
    with pytest.raises(RecordError, match=r"space\.jsonl.*is compressed: unpack it"):
        Journal(packed).check_writable()


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_what_is_no_packed_file_says_so(file: Path, suffix: str) -> None:
    wrong = Path(f"{file}{suffix}")
    wrong.write_bytes(file.read_bytes())
    with pytest.raises(RecordError, match=rf"it is not a .*{suffix} file"):
        pb.recorded_space(wrong)


def test_what_was_measured_again_counts_but_a_trial_takes_what_it_took(tmp_path: Path, rows: Any) -> None:
    again = Ok((3e-3, 5e-3, 4e-3), 0.02, 2.0, {"timing": 0.02})
    records = [trial(rows, 0, 1e-3, build=0.7), trial(rows, 1, 2e-3), trial(rows, 0, 0, result=again, remeasured=True)]
    recorded = pb.recorded_space(write(tmp_path / "space.jsonl", records))
    result = recorded.results[rows.space.get(0)]
    assert result.cost == 4e-3
    assert seconds_of(result) == pytest.approx((0.7, 0.1))
    assert recorded.best_cost == 2e-3


def test_the_share_of_good_ones(file: Path) -> None:
    assert pb.recorded_space(file).share_within(0.5) == pytest.approx(2 / 6)


# --- which of several -------------------------------------------------------------------------------------------------


def test_two_hosts_are_refused_until_one_is_chosen(tmp_path: Path, rows: Any) -> None:
    other = trial(rows, 1, 2e-3, host="there (another)")
    file = write(tmp_path / "two.jsonl", [trial(rows, 0, 1e-3), other])
    with pytest.raises(RecordError, match=r"several hosts.*'here \(a CPU\)' \(1 records\).*--host"):
        pb.recorded_space(file)
    assert pb.recorded_space(file, host="there").best_cost == 2e-3
    assert pb.recorded_space(file, host="here (a CPU)").best_cost == 1e-3
    with pytest.raises(RecordError, match=r"no records of the host 'nowhere'; it holds here \(a CPU\), there"):
        pb.recorded_space(file, host="nowhere")


def test_two_workloads_need_a_word(tmp_path: Path, rows: Any, wide_rows: Any) -> None:
    file = write(tmp_path / "two.jsonl", [trial(rows, 0, 1e-3), trial(wide_rows, 0, 2e-3)])
    with pytest.raises(RecordError, match=r"several workloads: test_rows\(n=8, .*test_rows\(n=16.*args=\(8, 4\)"):
        pb.recorded_space(file)
    assert pb.recorded_space(file, args=(16, 4)).best_cost == 2e-3
    assert pb.recorded_space(file, task=rows).best_cost == 1e-3
    with pytest.raises(RecordError, match=r"no record of args=\(2, 2\); it holds test_rows"):
        pb.recorded_space(file, args=(2, 2))


def test_two_targets_need_a_word_or_a_task_that_is_for_one(tmp_path: Path, rows: Any) -> None:
    other = pb.create_task(rows.template, args=(8, 4), target="llvm -mcpu=skylake -num-cores 7")
    file = write(tmp_path / "two.jsonl", [trial(rows, 0, 1e-3), trial(other, 1, 2e-3)])
    with pytest.raises(RecordError, match=r"several targets.*num-cores 7"):
        pb.recorded_space(file)
    assert pb.recorded_space(file, target=str(other.target)).best_cost == 2e-3
    assert pb.recorded_space(file, task=other).best_cost == 2e-3


def test_a_task_for_another_target_is_answered_all_the_same(file: Path) -> None:
    task = pb.create_task(f"{TEMPLATES}:rows", args=(8, 4), target="llvm -mcpu=skylake -num-cores 7")
    assert pb.recorded_space(file, task=task).best_cost == 1e-3


# --- what is refused --------------------------------------------------------------------------------------------------


def test_records_of_another_shape_or_template(file: Path, wide_rows: Any) -> None:
    with pytest.raises(RecordError, match=r"no record of test_rows\(n=16, .*it holds test_rows\(n=8, m=4"):
        pb.recorded_space(file, task=wide_rows)
    other = pb.create_task(f"{TEMPLATES}:rows_tir", args=(8, 4))
    with pytest.raises(RecordError, match=r"no record of test_rows_tir\(n=8, m=4\)"):
        pb.recorded_space(file, task=other)


def test_another_definition_of_the_space_shows_both(tmp_path: Path, rows: Any) -> None:
    file = write(tmp_path / "old.jsonl", [trial(rows, 0, 1e-3, space="ab" * 32)])
    own = rows.space.fingerprint[:12]
    with pytest.raises(RecordError, match=f"fingerprint abababababab, but the space of test_rows.*has {own}"):
        pb.recorded_space(file)
    mixed = write(tmp_path / "mixed.jsonl", [trial(rows, 0, 1e-3), trial(rows, 1, 1e-3, space="ab" * 32)])
    with pytest.raises(RecordError, match=f"several definitions of the space .{own} and abababababab"):
        pb.recorded_space(mixed)


def test_a_template_that_is_not_known_here(tmp_path: Path, rows: Any) -> None:
    record = dataclasses.replace(trial(rows, 0, 1e-3), name="nowhere", workload=("nowhere", {"n": 1}), ref="")
    own = rows.space.fingerprint[:12]
    with pytest.raises(RecordError, match=f"nowhere.n=1. .*{own}.*import the template first, or give task="):
        pb.recorded_space(write(tmp_path / "space.jsonl", [record]))


def test_a_record_says_where_its_template_is_found_and_the_error_how_to_give_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops").mkdir()
    text = re.sub(r"@pb.template.*", "", Path(TEMPLATES).read_text(encoding="utf-8"))  # no names are taken twice
    Path("ops/mine.py").write_text(text, encoding="utf-8")
    task = pb.create_task("ops/mine.py:rows", args=(8, 4), target="llvm -num-cores 1")
    record = trial(task, 0, 1e-3)
    assert record.ref == "ops/mine.py:rows"
    call = rf"create_task\('ops/mine.py:rows', args=\(8, 4\), target='{task.target}'\)"
    words = rf"on the command line ops/mine.py:rows 8 4 --target '{task.target}'"
    with pytest.raises(RecordError, match=f"{call}, {words}"):
        pb.load_result(write(tmp_path / "mine.jsonl", [dataclasses.replace(record, name="mine")]))
    namesake = dataclasses.replace(record, name="matmul", args=(8, 8, 8))
    with pytest.raises(RecordError, match=r"on the command line ops/mine\.py:rows 8 8 8"):
        pb.load_result(write(tmp_path / "namesake.jsonl", [namesake]))
    assert trial(pb.create_task("matmul", args=(8, 8, 8)), 0, 1e-3).ref == ""  # pegbox's own
    monkeypatch.chdir(tmp_path / "ops")
    there = pb.create_task(f"{TEMPLATES}:rows", args=(8, 4))
    assert there.ref == f"{Path(TEMPLATES).name}:rows"  # no folder of this machine


def test_nothing_valid(tmp_path: Path, rows: Any) -> None:
    failed = Failed(FailureKind.CRASH, "killed by SIGSEGV", 0.1, 1.0, {"build": 0.1})
    file = write(tmp_path / "space.jsonl", [trial(rows, index, 0, result=failed) for index in range(3)])
    with pytest.raises(RecordError, match=r"none of its 3 configurations ran.*the first failed with crash: killed by"):
        pb.recorded_space(file)


def test_an_empty_file_and_no_file(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(RecordError, match=r"empty\.jsonl' holds no records"):
        pb.recorded_space(tmp_path / "empty.jsonl")
    with pytest.raises(RecordError, match=r"'no-such-space' is neither a file nor a recorded space that ships"):
        pb.recorded_space("no-such-space")


@pytest.mark.parametrize(("cost", "shown"), [("NaN", "nan"), ("-0.5", "-0.5"), ("Infinity", "inf"), ("0", "0")])
def test_a_cost_that_is_none_names_line_and_value(file: Path, cost: str, shown: str) -> None:
    lines = file.read_text().splitlines()
    lines[2] = lines[2].replace("[[0.003]", f"[[{cost}]")
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(RecordError, match=rf"space\.jsonl', line 3: .*costs \[{shown}\]"):
        pb.recorded_space(file)


def test_a_config_that_does_not_fit(file: Path) -> None:
    lines = file.read_text().splitlines()
    form = json.loads(lines[1])
    form["config"]["index"] += 1
    file.write_text("\n".join([lines[0], json.dumps(form), *lines[2:]]) + "\n")
    with pytest.raises(RecordError, match=r"a config does not fit the space of test_rows.*its index names"):
        pb.recorded_space(file)


def test_a_torn_last_line_is_skipped(file: Path) -> None:
    with file.open("a") as stream:
        stream.write('{"input": ["llvm')
    with pytest.warns(UserWarning, match="line 7 is torn"):
        assert len(pb.recorded_space(file)) == 6


# --- those that ship --------------------------------------------------------------------------------------------------


def test_shipped_ones_are_opened_by_name(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows-8x4.jsonl.xz").write_bytes(lzma.compress(file.read_bytes()))
    monkeypatch.setattr(records_library, "SHIPPED", tmp_path)
    assert pb.recorded_spaces() == ("rows-8x4",)
    assert pb.recorded_space("rows-8x4").best_cost == 1e-3
    with pytest.raises(RecordError, match=r"'rows-9x9' is neither a file nor .*\(rows-8x4\)"):
        pb.recorded_space("rows-9x9")


@pytest.mark.parametrize("name", pb.recorded_spaces())
def test_every_shipped_space_is_of_the_template_as_it_is_now(name: str) -> None:
    recorded = shipped_space(name)
    assert recorded.task is not None
    assert recorded.num_ok


def test_a_space_without_a_template(rows: Any) -> None:
    recorded = RecordedSpace("t4", rows.space, {rows.space.get(0): Ok((1.0,))})
    assert recorded.task is None
    assert recorded.workload is None
    assert recorded.best_cost == 1.0


def test_another_space_on_another_target_is_reported_by_the_target(tmp_path: Path, rows: Any) -> None:
    elsewhere = trial(rows, 0, 1e-3, target="llvm -mcpu=znver4 -num-cores 7", space="0" * 64)
    file = write(tmp_path / "elsewhere.jsonl", [elsewhere])
    for read in (pb.load_result, pb.recorded_space):
        with pytest.raises(RecordError, match=r"are for the target .*-num-cores 7.*give that target"):
            read(file, rows)


def test_the_valid_configurations_of_a_far_larger_space_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    space = ConfigSpace()
    for name in "abcdef":
        space.define_knob(name, range(10))
    monkeypatch.setattr(ConfigSpace, "num_valid", lambda self: pytest.fail("minutes, where there are constraints"))
    recorded = RecordedSpace("part", space, {space.get(0): Ok((1.0,))})
    assert isinstance(recorded.space, ListedSpace)
