"""The database of a store where it cannot be used: everything goes on without it, and a warning says why once."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pegbox.records import Record
from pegbox.store import StoreWarning, TuningStore, database

Made = Callable[..., Record]


@contextlib.contextmanager
def said(*reasons: str) -> Iterator[None]:
    """The body warns of the store once for each of these reasons, and of nothing else."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    texts = [str(each.message) for each in caught if each.category is not ResourceWarning]
    assert len(texts) == len(reasons), texts
    for text, reason in zip(texts, reasons, strict=True):
        assert reason in text


def without(store: TuningStore, record: Record, reason: str) -> None:
    """The store reads as empty, takes nothing, and says the reason once."""
    with said(reason):
        assert store.records() == []
        assert not store.keep(record)
        assert TuningStore(store.folder).records() == []


def test_another_version_is_left_as_it_is(store: TuningStore, record: Made) -> None:
    store.keep(record(0, 1.0))
    with contextlib.closing(sqlite3.connect(store.database.path)) as connection:
        connection.execute("pragma user_version = 99")
    held = store.database.path.read_bytes()
    without(store, record(1, 0.5), "is of version 99, newer")
    assert store.database.path.read_bytes() == held


@pytest.mark.parametrize("damage", [b"no database at all" * 300, b"", b"SQLite format 3\0"])
def test_a_damaged_file_is_set_aside_and_the_next_begins(store: TuningStore, record: Made, damage: bytes) -> None:
    store.folder.mkdir(mode=0o700)
    store.database.path.write_bytes(damage)
    with said("was damaged (file is not a database"):
        assert store.records() == []
        assert store.keep(record(1, 0.5))
    assert (store.folder / "store.damaged").read_bytes() == damage
    assert [each.cost for each in store.records()] == [0.5]


@pytest.mark.parametrize("place", range(0, 24_000, 1_500))
def test_damage_anywhere_in_the_file_raises_nothing(store: TuningStore, record: Made, place: int) -> None:
    for number in range(20):
        store.keep(record(0, 1.0, host=f"machine (processor {number})"))
    content = bytearray(store.database.path.read_bytes())
    start = place % len(content)
    content[start : start + 600] = b"\xff" * 600
    store.database.path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StoreWarning)
        store.records()
        store.keep(record(1, 0.5))
        store.keep(record(1, 0.5, host="machine (another)"))


@pytest.mark.parametrize("which", ["folder", "file"])
def test_what_others_may_write_to_is_not_used(store: TuningStore, record: Made, which: str) -> None:
    store.keep(record(0, 1.0))
    (store.folder if which == "folder" else store.database.path).chmod(0o777)
    without(store, record(1, 0.5), "others may write to it; chmod go-w")


def test_what_belongs_to_another_user_is_not_used(
    store: TuningStore, record: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.keep(record(0, 1.0))
    monkeypatch.setattr("pegbox.ownership.os.getuid", lambda: os.geteuid() + 1)
    without(store, record(1, 0.5), "belongs to another user")


def test_a_folder_that_cannot_be_made(tmp_path: Path, record: Made) -> None:
    (tmp_path / "file").write_text("")
    store = TuningStore(tmp_path / "file" / "store")
    with said("Not a directory"):
        assert not store.keep(record(0, 1.0))
        assert store.records() == []


def test_a_full_disk_keeps_what_there_was(store: TuningStore, record: Made) -> None:
    store.keep(record(0, 1.0))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        with said("is not used"):
            assert not store.keep(record(1, 0.5))
            assert not store.keep(record(1, 0.5))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [each.cost for each in store.records()] == [1.0]
    assert store.keep(record(1, 0.5))


def test_a_full_disk_before_the_first_record_leaves_no_database(store: TuningStore, record: Made) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        with said("is not used"):
            assert not store.keep(record(1, 0.5))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert store.records() == []
    assert store.keep(record(1, 0.5))


def test_a_store_that_can_only_be_read_is_read(
    store: TuningStore, record: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.keep(record(0, 1.0))
    monkeypatch.setattr("pegbox.store.database.os.access", lambda *_: False)
    with said("readonly"):
        assert not store.keep(record(1, 0.5))
        assert [each.cost for each in store.records()] == [1.0]
    assert os.listdir(store.folder) == ["store.db"]


def test_a_lock_that_another_process_keeps(store: TuningStore, record: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    store.keep(record(0, 1.0))
    monkeypatch.setattr("pegbox.store.store.LONG_WAIT", 0.05)
    with contextlib.closing(sqlite3.connect(store.database.path, isolation_level=None)) as other:
        other.execute("begin immediate")
        with said("locked"):
            assert not store.keep(record(1, 0.5))
            assert [each.cost for each in store.records()] == [1.0]
    assert store.keep(record(1, 0.5))


def test_file_systems_of_several_machines_have_no_shared_log(
    store: TuningStore, record: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_file_system", lambda _: "nfs4")
    store.keep(record(0, 1.0))
    with contextlib.closing(sqlite3.connect(store.database.path)) as connection:
        assert connection.execute("pragma journal_mode").fetchone() == ("delete",)


def test_the_kind_of_a_file_system_is_found() -> None:
    assert database._file_system(Path("/proc/self")) == "proc"


def test_threads_write_at_once(store: TuningStore, record: Made) -> None:
    def write(number: int) -> None:
        for cost in (3.0, 2.0, 1.0):
            store.keep(record(number, cost, host=f"machine (processor {number % 3})"))

    with said():
        threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [each.cost for each in store.records()] == [1.0] * 3


_WRITER = """
import sys
from pegbox.store.database import Database
from pathlib import Path
database = Database(Path(sys.argv[1]))
row = ("insert or replace into best values (?, '', 1.0, 1.0, '{}')", (sys.argv[2],))
rows = 0
print("ready", flush=True)
while sys.stdin.read(1):
    rows += database.write(lambda connection: connection.execute(*row).rowcount, wait=10.0) or 0
print(rows, flush=True)
"""


def _writer(store: TuningStore, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(store.folder), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_write_at_once_and_one_is_killed(store: TuningStore) -> None:
    """None of them has made the database: all begin with that."""
    writers = [_writer(store, str(number)) for number in range(3)]
    killed = writers[0]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("." * 10)
        writer.stdin.flush()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    for writer in writers[1:]:
        printed, errors = writer.communicate(timeout=60)
        assert (printed, errors) == ("10\n", "")
    with contextlib.closing(sqlite3.connect(store.database.path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert {"1", "2"} <= {key for (key,) in connection.execute("select task from best")}


def test_a_killed_process_leaves_a_half_made_database(store: TuningStore, record: Made) -> None:
    store.folder.mkdir(mode=0o700)
    (store.folder / "store.new").write_bytes(b"half")
    (store.folder / "store.new-wal").write_bytes(b"half")
    with said():
        assert store.keep(record(0, 1.0))
    assert os.listdir(store.folder) == ["store.db"]


def test_import_of_pegbox_loads_no_database() -> None:
    code = "import sys, pegbox; assert 'sqlite3' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
