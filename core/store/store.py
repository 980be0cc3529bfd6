"""The user's store: the best record of each task, kept for every later program of this user.

It lies in the user's data folder (SQLite, for many processes at once). It never stands in the way: where it cannot be
used (another version, damage, a full or read-only disk), a warning says why once, and everything goes on without it.
The truth about a search is in its file of records; the store repeats the best of it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pegbox.errors import RecordError
from pegbox.records.record import Record
from pegbox.task.task import Task

VARIABLE = "PEGBOX_STORE"
"""The environment variable that names another folder, or is "off"."""

VERSION = 1
"""The version of the tables, which SQLite keeps as `user_version`."""

_WAIT = 2.0
"""The seconds to wait for another process that writes."""

_TABLE = """
create table if not exists best (
    workload text not null, target text not null, space text not null, processor text not null,
    code text not null, cost real not null, measured real not null, record text not null,
    primary key (workload, target, space, processor)
) without rowid
"""
_KEEP = """
insert into best values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (workload, target, space, processor) do update set
    code = excluded.code, cost = excluded.cost, measured = excluded.measured, record = excluded.record
where excluded.code != best.code or excluded.cost < best.cost
"""


class StoreWarning(UserWarning):
    """The store cannot be used, and everything goes on without it."""


class Store:
    """The best records in a folder.

    Each method works on a connection of its own, so that threads and forks may share a store.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._told = False

    @property
    def path(self) -> Path:
        """The database."""
        return self.folder / "store.sqlite3"

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r})"

    def keep(self, record: Record) -> None:
        """Keep a record if it is the best of its task on its processor, or the first with the present code."""
        if not record.result.ok or record.emulated or record.tool:
            return
        row = (
            json.dumps(record.workload, sort_keys=True),
            record.target,
            record.space,
            processor_of(record),
            record.code,
            record.cost,
            record.result.timestamp,
            record.to_line(),
        )
        with self._connected(make=True) as connection:
            if connection is not None:
                connection.execute(_KEEP, row)

    def records(self) -> list[Record]:
        """All records, of all processors, the latest first."""
        lines: list[str] = []
        with self._connected() as connection:
            if connection is not None:
                lines += [line for (line,) in connection.execute("select record from best order by measured desc")]
        return [record for line in lines if (record := self._read(line)) is not None]

    def best(self, task: Task, processor: str) -> Record | None:
        """The best record of a task on a processor."""
        key = json.dumps(list(task.workload), sort_keys=True), str(task.target), task.fingerprint, processor
        found = None
        with self._connected() as connection:
            if connection is not None:
                query = "select record from best where workload = ? and target = ? and space = ? and processor = ?"
                found = connection.execute(query, key).fetchone()
        return None if found is None else self._read(found[0])

    def remove(self, record: Record) -> None:
        """Remove the record of a task on a processor."""
        key = json.dumps(record.workload, sort_keys=True), record.target, record.space, processor_of(record)
        with self._connected() as connection:
            if connection is not None:
                query = "delete from best where workload = ? and target = ? and space = ? and processor = ?"
                connection.execute(query, key)

    def _read(self, line: str) -> Record | None:
        try:
            return Record.from_line(line)
        except RecordError as error:
            self._tell(f"a record in it is damaged: {error}")
            return None

    @contextmanager
    def _connected(self, *, make: bool = False) -> Iterator[sqlite3.Connection | None]:
        """A connection inside a transaction; None where the store is not there or cannot be used."""
        connection: sqlite3.Connection | None = None
        try:
            if make:
                self._make()
            if (make or self.path.exists()) and self._is_private():
                connection = sqlite3.connect(self.path, timeout=_WAIT)
                self._prepare(connection)
        except (OSError, sqlite3.Error) as error:
            self._tell(str(error))
            if connection is not None:
                connection.close()
            connection = None
        if connection is None:
            yield None
            return
        try:
            with connection:
                yield connection
        except sqlite3.Error as error:
            self._tell(str(error))
        finally:
            connection.close()

    def _make(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _is_private(self) -> bool:
        held = self.folder.stat()
        if held.st_uid == os.getuid() and not held.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return True
        self._tell(f"others may write to the folder; chmod 700 {self.folder}")
        return False

    def _prepare(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("pragma user_version").fetchone()
        if version > VERSION:
            raise sqlite3.DatabaseError(f"it is of version {version}, newer than this pegbox reads ({VERSION})")
        if version < VERSION:
            connection.execute("pragma journal_mode = wal")
            with connection:
                connection.execute(_TABLE)
                connection.execute(f"pragma user_version = {VERSION}")
        connection.execute("pragma synchronous = normal")

    def _tell(self, why: str) -> None:
        if not self._told:
            self._told = True
            warnings.warn(f"the store {str(self.folder)!r} is not used: {why}", StoreWarning, stacklevel=4)


def processor_of(record: Record) -> str:
    """The processor that a record was measured on, without the machine's name."""
    _, bracket, processor = record.host.partition(" (")
    return processor.removesuffix(")") if bracket else record.host


def user_store() -> Store | None:
    """The store of this user; None where the environment turns it off."""
    chosen = os.environ.get(VARIABLE, "")
    return None if chosen.lower() == "off" else _store(chosen or _usual_folder())


@cache
def _store(folder: str) -> Store:
    return Store(folder)


def _usual_folder() -> str:
    import platformdirs  # slow to import

    return str(platformdirs.user_data_dir("pegbox"))
