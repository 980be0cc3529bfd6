"""The store of best records: what is kept, what gives way, and who finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import pegbox as pb
from pegbox.errors import ArgumentError, RecordError
from pegbox.measure import Failed, FailureKind
from pegbox.records import Record, RecordWarning
from pegbox.store import StoreWarning, TuningStore, best_config, user_store

Made = Callable[..., Record]


def test_an_empty_store_has_no_folder_and_no_records(store: TuningStore, task: pb.Task) -> None:
    assert (store.records(), store.best(task), best_config(task)) == ([], None, None)
    assert not store.folder.exists()


def test_the_best_of_a_task_stays_in_a_folder_of_the_user_alone(
    store: TuningStore, task: pb.Task, record: Made
) -> None:
    assert [store.keep(record(index, cost)) for index, cost in enumerate((3.0, 1.0, 2.0))] == [True, True, False]
    assert store.records() == [record(1, 1.0)]
    assert best_config(task) == task.space.get(1)
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in store.folder.iterdir()} == {0o600}


def test_a_clock_that_goes_back_does_not_bring_back_a_slower_record(store: TuningStore, record: Made) -> None:
    store.keep(record(0, 2.0, when=2e9))
    assert store.keep(record(1, 1.0, when=1e9))
    assert not store.keep(record(2, 1.5, when=3e9))
    assert [each.cost for each in store.records()] == [1.0]


def test_each_processor_has_its_best_and_only_this_one_counts(store: TuningStore, task: pb.Task, record: Made) -> None:
    store.keep(record(0, 0.1, host="far (another processor)"))
    assert best_config(task) is None
    store.keep(record(1, 1.0))
    assert best_config(task) == task.space.get(1)
    assert len(store.records()) == 2
    found = store.best(task, processor="another processor")
    assert found is not None
    assert found.cost == 0.1


def test_failures_emulators_and_other_tools_are_not_kept(store: TuningStore, record: Made) -> None:
    good = record(0, 1.0)
    for bad in (
        replace(good, result=Failed(FailureKind.CRASH, "", 0.1, 1.0)),
        replace(good, host="emulated by QEMU"),
        replace(good, tool="autotvm"),
    ):
        assert not store.keep(bad)
    assert not store.folder.exists()


def test_other_code_of_the_template_gives_way(store: TuningStore, task: pb.Task, record: Made) -> None:
    edited = replace(record(0, 1.0), code=f"{task.code}0")
    store.keep(edited)
    with pytest.warns(RecordWarning, match="other code"):
        assert best_config(task) == task.space.get(0)
    assert store.keep(record(1, 2.0))
    assert best_config(task) == task.space.get(1)


def test_the_code_of_another_python_is_not_other_code(store: TuningStore, record: Made) -> None:
    store.keep(replace(record(0, 1.0), code="cpython-42:0000"))
    assert not store.keep(record(1, 2.0))


def test_a_configuration_counts_with_its_latest_measurement_unless_that_was_less_careful(
    store: TuningStore, record: Made
) -> None:
    store.keep(record(0, 1.0))
    assert store.keep(record(0, 2.0, remeasured=True))
    assert store.keep(record(0, 1.5))  # it is the kept one, whose careful cost stays
    assert [each.cost for each in store.records()] == [2.0]


def test_a_search_corrects_the_cost_of_the_kept_configuration(store: TuningStore, record: Made) -> None:
    lucky, honest, winner = record(0, 1.0), record(0, 3.0, remeasured=True), record(1, 2.0, remeasured=True)
    store.keep(lucky)
    assert not store.keep(winner)
    assert store.keep(winner, beside=[honest, winner])
    assert [each.cost for each in store.records()] == [2.0]


def test_a_record_is_removed(store: TuningStore, record: Made) -> None:
    store.keep(record(0, 1.0))
    store.keep(record(0, 1.0, host="far (away)"))
    store.remove(record(5, 9.0))
    assert [each.processor for each in store.records()] == ["away"]


def test_only_records_are_kept(store: TuningStore) -> None:
    with pytest.raises(RecordError, match="records"):
        store.keep("matmul")  # type: ignore[arg-type]


@pytest.mark.parametrize("off", ["off", "OFF", " off "])
def test_the_environment_turns_it_off(off: str, task: pb.Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEGBOX_STORE", off)
    assert user_store() is None
    assert best_config(task) is None


@pytest.mark.parametrize(("data", "root"), [("", "home/.local/share"), ("relative", "home/.local/share"), ("/d", "/d")])
def test_the_usual_folder_is_that_of_users_data(
    data: str, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEGBOX_STORE", "")
    monkeypatch.setenv("XDG_DATA_HOME", data)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = user_store()
    assert found is not None
    assert found.folder == tmp_path / root / "pegbox"


def test_the_usual_folder_is_that_of_platformdirs(monkeypatch: pytest.MonkeyPatch) -> None:
    unix = pytest.importorskip("platformdirs.unix")
    monkeypatch.setenv("PEGBOX_STORE", "")
    for data in ("", "/d", "/d/e/"):
        monkeypatch.setenv("XDG_DATA_HOME", data)
        found = user_store()
        assert found is not None
        assert found.folder == unix.Unix("pegbox", appauthor=False).user_data_path


def test_a_folder_in_the_home_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PEGBOX_STORE", "~/kept")
    found = user_store()
    assert found is not None
    assert found.folder == tmp_path / "kept"


@pytest.mark.parametrize("damage", ["'{'", "cast(x'ff00fe' as text)", "'[]'", "'{}'"])
def test_a_damaged_record_is_as_good_as_none(store: TuningStore, task: pb.Task, record: Made, damage: str) -> None:
    store.keep(record(0, 1.0))
    store.database.write(lambda connection: connection.execute(f"update best set record = {damage}"))
    with pytest.warns(StoreWarning, match="damaged record") as said:
        assert (store.records(), best_config(task)) == ([], None)
    assert len(said) == 1
    assert store.keep(record(1, 5.0))
    assert best_config(task) == task.space.get(1)


def test_a_user_without_a_home_has_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEGBOX_STORE", "")
    monkeypatch.setenv("XDG_DATA_HOME", "")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert user_store() is None


def test_options_take_a_store_or_none(task: pb.Task) -> None:
    with pytest.raises(ArgumentError, match="store"):
        pb.tune(task, trials=1, store="elsewhere")  # type: ignore[arg-type]
