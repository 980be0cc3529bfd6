"""The busiest process is found by two looks at /proc; this process and its children are none of the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pegbox.measure.machine import busiest
from pegbox.measure.machine.busiest import busiest_process


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(busiest, "PROC", str(tmp_path))
    return tmp_path


def process(proc: Path, pid: int, name: str, parent: int, ticks: int) -> None:
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) R {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 2 0 0 20 0 1 0 5")


def test_the_busiest_process_is_named_without_this_one_and_its_workers(proc: Path) -> None:
    def look(ticks: int) -> None:
        own = os.getpid()
        process(proc, own, "pegbox", 1, 50 + ticks)
        process(proc, 900001, "worker", own, 50 + ticks)
        process(proc, 900002, "its child", 900001, 50 + ticks)
        process(proc, 900003, "a (strange) name", 1, ticks)
        process(proc, 900004, "idle", 1, 1_000_000)

    look(0)
    found = busiest_process(lambda seconds: look(1000))
    assert found.startswith("a (strange) name (process 900003, ")
    assert found.endswith("% of a core)")


def test_nobody_is_named_where_nobody_computes_or_nothing_can_be_seen(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(proc, 900003, "idle", 1, 7)
    (proc / "900004").mkdir()
    assert busiest_process(lambda seconds: None) == ""
    monkeypatch.setattr(busiest, "PROC", "/no/such/folder")
    assert busiest_process() == ""
