"""Compiled code in the store: found, checked, bounded in size, and dropped when a better record is kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

import pegbox as pb
from pegbox.records import Record
from pegbox.store import StoreWarning, TuningStore, kernels
from pegbox.store.kernels import KeptCode

Made = Callable[..., Record]
CODE = KeptCode("{}", b"\x7fELF" * 100)


def always(_: str | None) -> bool:
    return True


def held(store: TuningStore) -> list[str]:
    return [key for (key,) in store.database.read("select key from kernels order by key")]


def test_code_is_found_under_its_key(store: TuningStore) -> None:
    assert store.kernels.find("a") is None
    store.kernels.keep("a", "task", CODE, fits=always)
    assert store.kernels.find("a") == CODE
    assert store.kernels.find("b") is None
    assert store.kernels.sizes() == [("task", 400)]
    store.kernels.clear()
    assert store.kernels.find("a") is None


def test_the_file_shrinks_when_code_is_dropped(store: TuningStore) -> None:
    for key in "abc":
        store.kernels.keep(key, "task", KeptCode("{}", os.urandom(200_000)), fits=always)
    assert store.database.path.stat().st_size > 600_000
    store.kernels.clear()
    assert store.database.path.stat().st_size < 100_000


@pytest.mark.parametrize("change", ["object_code = x'7f45'", "described = '[]'", "sha256 = ''", "object_code = 'text'"])
def test_damaged_code_is_dropped(store: TuningStore, change: str) -> None:
    store.kernels.keep("a", "task", CODE, fits=always)
    store.database.write(lambda connection: connection.execute(f"update kernels set {change}"))
    with pytest.warns(StoreWarning, match="damaged code"):
        assert store.kernels.find("a") is None
    assert held(store) == []


def test_what_was_not_used_for_the_longest_time_gives_way(store: TuningStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "MOST_BYTES", 1000)
    now = [1e9]
    monkeypatch.setattr("pegbox.store.kernels.time.time", lambda: now[0])
    for key in "abc":
        store.kernels.keep(key, "task", CODE, fits=always)
        now[0] += 1
    assert held(store) == ["b", "c"]
    now[0] += 100_000
    assert store.kernels.find("b") == CODE
    store.kernels.keep("d", "task", CODE, fits=always)
    assert held(store) == ["b", "d"]
    now[0] = 5.0  # the clock goes back
    store.kernels.keep("e", "task", CODE, fits=always)
    assert "e" in held(store)


def test_code_that_is_larger_than_the_store_is_not_kept(store: TuningStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "MOST_BYTES", 100)
    store.kernels.keep("a", "task", CODE, fits=always)
    assert held(store) == []


def test_a_better_record_drops_the_code_of_its_task(store: TuningStore, task: pb.Task, record: Made) -> None:
    first = record(0, 3.0)
    name = store.key_of(task, first.processor)
    store.kernels.keep("other", "another task", CODE, fits=always)
    for step, kept in (
        (first, False),  # there was none: the code was that of a prediction
        (record(1, 4.0), True),  # no better
        (record(0, 2.0), True),  # the same configuration, measured again
        (record(2, 1.0), False),
        (replace(record(2, 1.0), code="cpython-311:0"), False),
    ):
        store.kernels.keep("a", name, CODE, fits=always)
        store.keep(step)
        assert held(store) == (["a", "other"] if kept else ["other"])
    store.kernels.keep("a", name, CODE, fits=always)
    store.remove(first)
    assert held(store) == ["other"]


def test_code_is_not_kept_where_the_best_record_is_another(store: TuningStore, task: pb.Task, record: Made) -> None:
    store.keep(record(0, 1.0))
    seen: list[str | None] = []

    def fits(line: str | None) -> bool:
        seen.append(line)
        return False

    store.kernels.keep("a", store.key_of(task, record(0, 1.0).processor), CODE, fits=fits)
    store.kernels.keep("a", "another task", CODE, fits=fits)
    assert seen == [record(0, 1.0).to_line(), None]
    assert held(store) == []
