"""The compiled code in a store: found by a key, checked before it is used, and bounded in size."""

import sqlite3
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pegbox.digest import sha256
from pegbox.store.database import Database

MOST_BYTES = 256 << 20
"""The largest number of bytes of code in a store; beyond it, the least recently used code is dropped."""

_DAY = 86_400.0
"""The seconds after which another use is recorded: a write takes as long as the rest of a first call."""

_LATER = 1e-3
"""The seconds by which new code counts as used after all other code, if the clock went back."""

_KEEP = """
insert or replace into kernels (key, task, used, bytes, sha256, described, object_code) values (?, ?, ?, ?, ?, ?, ?)
"""
_DROP = """
delete from kernels where key in (
    select key from (select key, sum(bytes) over (order by used desc, key) as total from kernels) where total > ?
)
"""


class KeptCode(NamedTuple):
    """Object code, with text that describes it."""

    described: str
    object_code: bytes

    @property
    def sha256(self) -> str:
        """The hash that reveals damage."""
        return str(sha256(self.described.encode() + b"\0" + self.object_code).hexdigest())


class Kernels:
    """The compiled code in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, key: str) -> KeptCode | None:
        """Find the code under a key; None if there is none, or it is damaged."""
        query = "select described, object_code, sha256, used from kernels where key = ?"
        rows = self._database.read(query, (key,))
        if not rows:
            return None
        described, object_code, sha256, used = rows[0]
        found = KeptCode(str(described), bytes(object_code)) if isinstance(object_code, bytes) else None
        if found is None or found.sha256 != sha256:
            self._database.say("has damaged code, which is compiled again")
            self.drop(key)
            return None
        now = time.time()
        if abs(now - used) > _DAY:  # a clock may have gone back
            self._database.write(lambda c: c.execute("update kernels set used = ? where key = ?", (now, key)), wait=0.0)
        return found

    def keep(self, key: str, task: str, code: KeptCode, *, fits: Callable[[str | None], bool]) -> None:
        """Keep code under a key, unless a search has found something better meanwhile.

        Args:
            task: the key of its task and processor: a better record drops the code.
            fits: a function that decides whether the code belongs to the best record of the task, a line of JSON, or
                None if there is none.
        """
        row = (len(code.object_code), code.sha256, code.described, code.object_code)

        def change(connection: sqlite3.Connection) -> None:
            (latest,) = connection.execute("select max(used) from kernels").fetchone()
            found = connection.execute("select record from best where task = ?", (task,)).fetchone()
            if fits(None if found is None else found[0]):
                connection.execute(_KEEP, (key, task, max(time.time(), (latest or 0) + _LATER), *row))
                connection.execute(_DROP, (MOST_BYTES,))

        self._database.write(change)

    def drop(self, key: str) -> None:
        """Drop the code under a key."""
        self._database.write(lambda connection: connection.execute("delete from kernels where key = ?", (key,)))

    def clear(self, tasks: Iterable[str]) -> None:
        """Drop the code of tasks."""

        def change(connection: sqlite3.Connection) -> None:
            connection.executemany("delete from kernels where task = ?", [(task,) for task in tasks])

        self._database.write(change)

    def sizes(self) -> list[tuple[str, str, int]]:
        """List the task's key, the template's name, and the bytes of each piece of code."""
        found = self._database.read("select task, bytes from kernels")
        return [(str(task), _template_of(str(task)), int(size)) for task, size in found]


def _template_of(task: str) -> str:
    """Read the name of the template in the key of a task; empty if there is none."""
    import json  # slow to import

    try:
        return str(json.loads(task)[0][0])
    except (ValueError, LookupError, TypeError):
        return ""


def row_key(*parts: object) -> str:
    """Make a key from texts, numbers and tuples of them."""
    return str(sha256(repr(parts).encode()).hexdigest())
