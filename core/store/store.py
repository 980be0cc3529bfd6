"""The user's store: the best record of each task, kept for every later program of this user.

The authoritative result of a search is its file of records; the store repeats the best of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_path, check_text
from pegbox.codegen.targets.host import describe_host, processor_of
from pegbox.errors import RecordError
from pegbox.store.database import LONG_WAIT, Database
from pegbox.store.kernels import Kernels

if TYPE_CHECKING:
    import sqlite3

    from pegbox.records.record import Record
    from pegbox.space import Config
    from pegbox.task.group import Tasks
    from pegbox.task.task import Task

VARIABLE = "PEGBOX_STORE"
"""The environment variable that names another folder, or is "off"."""

_KEEP = "insert or replace into best (task, code, cost, measured, record) values (?, ?, ?, ?, ?)"


class TuningStore:
    """The best record of each task on each processor, in a folder that the first record creates.

    A task here is a workload on a target from a space. If the folder cannot be used, `StoreWarning` gives the reason
    once, and the store behaves as if empty.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = check_path("TuningStore: folder", folder)
        self.database = Database(self.folder)
        self.kernels = Kernels(self.database)

    def __repr__(self) -> str:
        return f"TuningStore({str(self.folder)!r})"

    def keep(self, record: Record, *, beside: Iterable[Record] = ()) -> bool:
        """Keep a record if it is the best of its task on its processor; return whether it is.

        Failed trials, and records of emulators, of other tools and of functions, are not kept. A record of other code
        of the template is replaced. A configuration that was the fastest in a model replaces an earlier record, and no
        earlier one replaces it. The kernels of a replaced configuration are dropped.

        Args:
            beside: records of the same search. If one has the kept configuration, its cost counts from now on, since it
                was measured under the same conditions.
        """
        from pegbox.records.record import FUNCTION, check_records

        again = check_records(beside)
        (record,) = check_records([record])
        if not record.result.ok or record.emulated or record.tool or record.target == FUNCTION:
            return False
        key, line = key_of_record(record), record.to_line()

        def change(connection: sqlite3.Connection) -> bool:
            found = connection.execute("select record from best where task = ?", (key,)).fetchone()
            held = None if found is None else self._read(found[0])
            if held is not None and _gives_way(record, held, again):
                return bool(held.config == record.config)
            row = (key, record.code, record.cost, record.result.timestamp, line)
            connection.execute(_KEEP, row)
            if held is None or held.config != record.config or held.code != record.code:
                connection.execute("delete from kernels where task = ?", (key,))
            return True

        return bool(self.database.write(change, wait=LONG_WAIT))

    def records(self) -> list[Record]:
        """Read all records, of all processors, the latest first."""
        lines = self.database.read("select record from best order by measured desc, task")
        return [record for (line,) in lines if (record := self._read(line)) is not None]

    def best(self, task: Tasks, *, processor: str | None = None) -> Record | None:
        """Find the best record of a task, or of all tasks of a group, on a processor, by default on this machine's."""
        from pegbox.records.history import fastest_record
        from pegbox.task.group import tasks_of

        where = processor_of(describe_host()) if processor is None else processor
        keys = [self.key_of(each, where) for each in tasks_of(task)]
        lines = [self.database.read("select record from best where task = ?", (key,)) for key in keys]
        found = [record for each in lines if each and (record := self._read(each[0][0])) is not None]
        return fastest_record(found)

    def key_of(self, task: Task, processor: str) -> str:
        """Write the key of a task on a processor; empty if records cannot hold its arguments."""
        from pegbox.records.record import plain, workload_of

        check_text("processor", processor)
        workload = workload_of(task)
        try:
            accuracy = getattr(task, "given_accuracy", None)
            return task_key(plain(workload), str(task.target), task.fingerprint, processor, accuracy)
        except RecordError:
            return ""

    def best_config(self, task: Tasks) -> Config | None:
        """Find the best configuration of a task, or of all tasks of a group, on this machine's processor.

        A configuration measured with other code of the template causes a `RecordWarning`.
        """
        from pegbox.records.history import History

        found = self.best(task)
        if found is None:
            return None
        try:
            return History([found], source=f"the store {str(self.folder)!r}").best_config(task)
        except RecordError as error:
            self.database.say(f"has a damaged record: {error}")
            return None

    def merge(self, records: Iterable[Record]) -> int:
        """Keep the best among records of each task on each processor; return the number kept.

        Records that do not name their machine are left out, as are those that `keep` leaves out.
        """
        from pegbox.records.history import best_of_each
        from pegbox.records.record import check_records

        by_processor: dict[str, list[Record]] = {}
        for record in check_records(records):
            by_processor.setdefault(record.processor, []).append(record)
        by_processor.pop("", None)
        return sum(self.keep(best) for each in by_processor.values() for best in best_of_each(each))

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write all records to a file of records, without code; return their number.

        Raises:
            RecordError: the file cannot be written.
        """
        from pegbox.output import write_file

        records = self.records()
        write_file(check_path("path", path), "".join(f"{record.to_line()}\n" for record in records), error=RecordError)
        return len(records)

    def remove(self, record: Record) -> None:
        """Remove the record of a task on a processor, and the kernels of the task."""
        from pegbox.records.record import check_records

        (record,) = check_records([record])
        key = key_of_record(record)

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("delete from best where task = ?", (key,))
            connection.execute("delete from kernels where task = ?", (key,))

        self.database.write(change)

    def _read(self, line: str) -> Record | None:
        from pegbox.records.record import Record

        try:
            return Record.from_line(line)
        except RecordError as error:
            self.database.say(f"has a damaged record: {error}")
            return None


def _gives_way(record: Record, held: Record, beside: Sequence[Record]) -> bool:
    """Decide if a record is no better than the kept one."""
    from pegbox.task.code_fingerprint import differ

    if held.code and record.code and differ(held.code, record.code):
        return False
    if held.in_model and record.result.timestamp < held.result.timestamp:
        return True
    if record.in_model and record.result.timestamp >= held.result.timestamp:
        return False
    if held.config == record.config:  # the later measurement counts, unless the earlier one was more careful
        return held.remeasured and not record.remeasured
    again = next((each for each in beside if each.config == held.config and each.result.ok), held)
    return again.cost <= record.cost


def key_of_record(record: Record) -> str:
    """Write the key of a record's task on its processor."""
    return task_key(record.workload, record.target, record.space, record.processor, record.accuracy)


def task_key(workload: Sequence[Any], target: str, space: str, processor: str, accuracy: float | None = None) -> str:
    """Write the key of a task on a processor; a task with a given accuracy has its own best."""
    import json  # slow to import

    given = [] if accuracy is None else [accuracy]
    return json.dumps([list(workload), target, space, processor, *given], sort_keys=True)


def user_store() -> TuningStore | None:
    """Return the store of this user; None if the environment turns it off, or does not name a folder."""
    chosen = os.environ.get(VARIABLE, "").strip()
    if chosen.lower() == "off":
        return None
    folder = os.path.expanduser(chosen) or _usual_folder()
    return None if folder is None else TuningStore(folder)


def _usual_folder() -> Path | None:
    """Name the folder by the rule of the XDG base directories, which ignores relative paths; None without a home."""
    data = os.environ.get("XDG_DATA_HOME", "")
    home = os.path.expanduser("~")
    if not os.path.isabs(data) and not os.path.isabs(home):  # the user has no home
        return None
    return Path(data if os.path.isabs(data) else f"{home}/.local/share") / "pegbox"


def best_config(task: Tasks) -> Config | None:
    """Find the best configuration of a task, or of all tasks of a group, in the user's store; None if there is none.

    It was measured on this machine's processor.
    """
    store = user_store()
    return None if store is None else store.best_config(task)
