"""Packing records for shipping: every reader reads them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox.errors import ArgumentError, RecordError
from pegbox.measure import Failed, FailureKind, Ok
from pegbox.records import Journal, Record, best
from pegbox.records.recorded_space import seconds_of

TEMPLATES = str(Path(__file__).parents[1] / "helpers" / "task_templates.py")


@pytest.fixture(scope="module")
def task() -> Any:
    return pb.create_task(f"{TEMPLATES}:rows", args=(8, 4))


@pytest.fixture
def file(tmp_path: Path, task: Any) -> Path:
    journal = Journal(tmp_path / "space.jsonl")
    phases = {"lower": 0.0123456, "build": 0.4, "timing": 0.1}
    for index in (9, 3, 4, 1):
        journal.append(Record.of(task, task.space.get(index), Ok((1.23456789e-3 * index,), 0.5123456, 1.0, phases)))
    journal.append(Record.of(task, task.space.get(2), Failed(FailureKind.CRASH, "killed", 0.2, 1.0, {"build": 0.1})))
    again = Ok((2e-3, 2.1e-3), 0.01, 2.0, {"timing": 0.01})
    journal.append(Record.of(task, task.space.get(1), again, remeasured=True))
    return journal.path


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.xz"])
def test_each_configuration_once_with_its_latest_result(file: Path, tmp_path: Path, suffix: str, task: Any) -> None:
    out = tmp_path / f"packed{suffix}"
    assert pb.pack_space(file, out) == 5
    records = Journal(out).read()
    assert [record.config["index"] for record in records] == [2, 3, 4, 9, 1]  # those measured again last
    assert records[-1].remeasured
    packed, whole = pb.recorded_space(out), pb.recorded_space(file)
    for config, result in whole.results.items():
        assert packed.results[config].cost == pytest.approx(result.cost, rel=1e-5)
        assert seconds_of(packed.results[config]) == pytest.approx(seconds_of(result), abs=1e-4)
    found, before = best(records), best(Journal(file).read())
    assert found is not None
    assert before is not None
    assert found.config == before.config


def test_packing_again_changes_nothing(file: Path, tmp_path: Path) -> None:
    pb.pack_space(file, tmp_path / "a.jsonl.xz")
    pb.pack_space(tmp_path / "a.jsonl.xz", tmp_path / "b.jsonl.xz")
    assert (tmp_path / "a.jsonl.xz").read_bytes() == (tmp_path / "b.jsonl.xz").read_bytes()


def test_what_cannot_be_packed(file: Path, tmp_path: Path, task: Any) -> None:
    with pytest.raises(ArgumentError, match=r"must end in \.jsonl, \.jsonl\.gz or \.jsonl\.xz"):
        pb.pack_space(file, tmp_path / "packed.zip")
    with pytest.raises(ArgumentError, match="this is the source"):
        pb.pack_space(file, file)
    with pytest.raises(ArgumentError, match="cannot be written: there is no folder"):
        pb.pack_space(file, tmp_path / "no folder" / "packed.jsonl")
    other = dataclasses.replace(Journal(file).read()[0], host="elsewhere")
    Journal(file).append(other)
    with pytest.raises(RecordError, match="several hosts"):
        pb.pack_space(file, tmp_path / "packed.jsonl")
    assert pb.pack_space(file, tmp_path / "packed.jsonl", host="elsewhere") == 1
