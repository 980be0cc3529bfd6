"""The database of a store: one SQLite file, which many processes of a user may read and write at once.

It never interrupts a program: if it cannot be used (another version, a full or read-only disk, another process's lock),
a `StoreWarning` gives the reason once, reads find nothing and writes do nothing. A damaged file is renamed, so that the
next write starts another.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pegbox.ownership import is_own

VERSION = 1
"""The version of the tables, which SQLite keeps as `user_version`."""

SHORT_WAIT = 0.5
"""The seconds for a call to wait for another process."""

LONG_WAIT = 10.0
"""The seconds for the end of a search to wait for another process."""

_TABLES = """
create table best (
    task text primary key, code text not null, cost real not null, measured real not null, record text not null
) without rowid;
create table kernels (
    key text primary key, task text not null, used real not null, bytes integer not null, sha256 text not null,
    described text not null, object_code blob not null
);
create index kernels_of_task on kernels (task);
"""
_NAMES = {"best", "kernels"}
"""The names of the tables."""

_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "fuse.sshfs")
"""Network file systems, on which SQLite's write-ahead log fails because its processes share memory."""

_DAMAGE = ("file is not a database", "malformed", "no such table", "no such column")

Row: TypeAlias = tuple[Any, ...]
_T = TypeVar("_T")
_said: set[str] = set()


class StoreWarning(UserWarning):
    """A warning that the store cannot be used, and that the program continues without it."""


class _Unusable(Exception):
    """A fault that makes a store unusable."""


class Database:
    """The database in a folder, created by the first write.

    Each method opens its own connection, so that threads and forks may share a database.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "store.db"

    def read(self, query: str, values: Sequence[object] = ()) -> list[Row]:
        """Return the rows of a query; none if there is no database."""

        def rows(connection: sqlite3.Connection) -> list[Row]:
            return connection.execute(query, values).fetchall()

        return self._run(rows, wait=SHORT_WAIT, make=False) or []

    def write(self, change: Callable[[sqlite3.Connection], _T], *, wait: float = SHORT_WAIT) -> _T | None:
        """Make a change completely or not at all, and return the function's value; None if nothing can be written.

        Args:
            change: a function that executes statements within a transaction.
            wait: the seconds to wait for another writing process.
        """

        def changed(connection: sqlite3.Connection) -> _T:
            connection.execute("begin immediate")
            try:
                result = change(connection)
            except BaseException:
                if connection.in_transaction:  # a full disk may have rolled it back already
                    connection.execute("rollback")
                raise
            connection.execute("commit")
            return result

        return self._run(changed, wait=wait, make=True)

    def say(self, why: str) -> None:
        """Warn about the store, once for each reason."""
        message = f"the store {str(self.folder)!r} {why}"
        if message not in _said:
            _said.add(message)
            from pegbox.origin import users_level  # slow to import

            warnings.warn(message, StoreWarning, stacklevel=users_level())

    def _run(self, function: Callable[[sqlite3.Connection], _T], *, wait: float, make: bool) -> _T | None:
        for last in (False, True):
            try:
                with self._connected(wait, make=make) as connection:
                    return None if connection is None else function(connection)
            except sqlite3.Error as error:
                if last or not any(sign in str(error) for sign in _DAMAGE) or not self._set_aside(error, wait):
                    self.say(f"is not used: {error}")
                    return None
            except (OSError, _Unusable) as error:
                self.say(f"is not used: {error}")
                return None
        return None

    @contextlib.contextmanager
    def _connected(self, wait: float, *, make: bool) -> Iterator[sqlite3.Connection | None]:
        """Open a connection; None if there is no database, and none may be created."""
        there = self._is_there()
        if make and not there:
            self._make(wait)
            there = self._is_there()
        if not there:
            yield None
            return
        connection = self._open(wait)
        try:
            (version,) = connection.execute("pragma user_version").fetchone()
            if version > VERSION:
                raise _Unusable(f"it is of version {version}, newer than this pegbox reads ({VERSION})")
            tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
            if tables and not tables >= _NAMES:
                raise _Unusable(f"its {self.path.name} is another program's; name another folder")
            if version < 1:
                raise sqlite3.DatabaseError("file is not a database of pegbox")
            yield connection
        finally:
            connection.close()

    def _is_there(self) -> bool:
        """Decide if there is a database; raise `_Unusable` if other users may write to it."""
        for path in (self.folder, self.path):
            try:
                held = path.stat()
            except FileNotFoundError:
                return False
            if path is self.folder and not stat.S_ISDIR(held.st_mode):
                raise _Unusable("it is not a folder")
            if not is_own(held):
                raise _Unusable(f"{path} belongs to another user, or others may write to it; chmod go-w {path}")
        return True

    def _open(self, wait: float) -> sqlite3.Connection:
        # SQLite cannot create the files of its log in a folder without write permission.
        options = "mode=rw" if os.access(self.folder, os.W_OK) else "mode=ro&immutable=1"
        uri = f"{self.path.absolute().as_uri()}?{options}"
        connection = sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None)
        connection.text_factory = _text
        connection.execute("pragma synchronous = normal")
        return connection

    def _make(self, wait: float) -> None:
        """Create the folder and the database, unless another process was faster."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked(wait):
            if self.path.exists():
                return
            part = self.path.with_suffix(".new")
            for left in self.folder.glob(f"{part.name}*"):  # left by a process that was killed
                left.unlink()
            os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            connection = sqlite3.connect(part, isolation_level=None)
            try:
                connection.execute("pragma auto_vacuum = full")  # the file shrinks with its content
                connection.executescript(f"begin; {_TABLES} pragma user_version = {VERSION}; commit;")
                if _file_system(self.folder) not in _NETWORK:
                    connection.execute("pragma journal_mode = wal")
            finally:
                connection.close()
            part.rename(self.path)

    def _set_aside(self, error: sqlite3.Error, wait: float) -> bool:
        """Rename a damaged database, unless another process has done so; return whether it is gone."""
        aside = self.path.with_suffix(".damaged")
        try:
            with self._locked(wait):
                if self._is_sound(wait):
                    return True
                self.path.replace(aside)
                for log in ("-wal", "-shm"):  # SQLite would apply the old log to the new database
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(f"{self.path}{log}", f"{aside}{log}")
        except FileNotFoundError:
            return True
        except (OSError, _Unusable):
            return False
        self.say(f"was damaged ({error}); it begins anew, and the damaged file is {aside.name} there")
        return True

    def _is_sound(self, wait: float) -> bool:
        try:
            with contextlib.closing(self._open(wait)) as connection:
                found = connection.execute("pragma quick_check(1)").fetchall()
                connection.execute("select count(*), max(record) from best").fetchall()
                connection.execute("select count(*), max(described) from kernels").fetchall()
                return found == [("ok",)]
        except sqlite3.Error:
            return False

    @contextlib.contextmanager
    def _locked(self, wait: float) -> Iterator[None]:
        """Keep other processes from creating and renaming databases."""
        import fcntl  # readers do without it

        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            end = time.monotonic() + wait
            while True:
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise _Unusable("another process keeps its lock") from None
                    time.sleep(0.01)
                    continue
                except OSError:  # some network file systems have no locks
                    pass
                break
            yield
        finally:
            with contextlib.suppress(OSError):  # a fork made meanwhile has the file open, and would keep the lock
                fcntl.flock(folder, fcntl.LOCK_UN)
            os.close(folder)


def _text(content: bytes) -> str:
    """Decode text that may be damaged: the reader refuses only that row."""
    return content.decode("utf-8", "replace")


def _file_system(folder: Path) -> str:
    """Name the kind of a folder's file system; empty if the system does not tell."""
    path, best, kind = str(folder.resolve()), "", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                _, place, system, *_ = line.split(" ")
                if (path == place or path.startswith(place.rstrip("/") + "/")) and len(place) >= len(best):
                    best, kind = place, system
    except (OSError, ValueError):
        return ""
    return kind
