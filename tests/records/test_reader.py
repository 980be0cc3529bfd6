"""Readers of other tools' results: plugins, of which the one that accepts a file reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import pegbox as pb
from pegbox.errors import RecordError
from pegbox.hooks import registry
from pegbox.measure import Ok
from pegbox.records.journal import RecordWarning
from pegbox.records.library import reader_of
from pegbox.records.recorded_space import RecordedSpace


class LogReader:
    """Reads {"log": seconds}."""

    def accepts(self, path: Path) -> bool:
        return '"log"' in path.read_text()

    def read(self, path: Path, *, objective: str | None = None) -> RecordedSpace:
        space = pb.ConfigSpace()
        space.define_knob("a", [1])
        return RecordedSpace("log", space, {space.get(0): Ok((json.loads(path.read_text())["log"],))})


@pytest.fixture
def log_reader() -> Iterator[None]:
    registry.register("results_reader", "zz_log", LogReader, owner="tests")
    yield
    registry.unregister("results_reader", "zz_log", owner="tests")


@pytest.fixture
def broken_reader() -> Iterator[None]:
    registry.register("results_reader", "broken", "no_such_module_at_all:Reader", owner="tests")
    yield
    registry.unregister("results_reader", "broken", owner="tests")


def test_a_reader_of_a_plugin_goes_before_the_built_in_one(log_reader: None, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"log": 0.5}')
    assert pb.recorded_space(tmp_path / "a.json").best_cost == 0.5
    (tmp_path / "b.json").write_text('{"other": 0.5}')
    with pytest.raises(RecordError, match="neither records of pegbox nor results of Kernel Tuner"):
        pb.recorded_space(tmp_path / "b.json")


def test_files_called_jsonl_are_records_of_pegbox(log_reader: None, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"log": 0.5}')
    assert reader_of(tmp_path / "a.jsonl") is None


def test_a_broken_reader_does_not_keep_others_from_reading(
    log_reader: None, broken_reader: None, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"log": 0.5}')
    with pytest.warns(RecordWarning, match="'broken' of tests cannot be imported.*; read without it"):
        assert isinstance(reader_of(tmp_path / "a.json"), LogReader)
