"""Use the best records instead of choosing configs by hand: `with apply_history_best("matmul.jsonl"): ...`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from pegbox.checks import check_list
from pegbox.errors import RecordError
from pegbox.records.best import best
from pegbox.records.history import matching, to_config
from pegbox.records.journal import Journal
from pegbox.records.record import Record

if TYPE_CHECKING:
    from pegbox.space import Config
    from pegbox.task.task import Task

_current: ContextVar[History | None] = ContextVar("pegbox_history", default=None)


class History:
    """Records to choose from; `source` is where they are from, for messages."""

    def __init__(self, records: Iterable[Record], *, source: str = "the records") -> None:
        self.records = tuple(records)
        self.source = source

    def best_config(self, task: Task) -> Config | None:
        """The config of the best record of this task, or None when its workload was never measured well.

        Raises `RecordError`, with both shown, when the records of its workload are for another target or space.
        """
        found = best(matching(self.records, task, source=self.source))
        return None if found is None else to_config(found, task, source=self.source)

    def __str__(self) -> str:
        known = sorted({f"{record.name}{record.args}" for record in self.records})
        return f"{len(self.records)} records of {', '.join(known) or 'nothing'} from {self.source}"


def current_history() -> History | None:
    """The history of the innermost `apply_history_best` around the caller (in its thread or task), or None."""
    return _current.get()


@contextmanager
def apply_history_best(source: str | os.PathLike[str] | Journal | Iterable[Record]) -> Iterator[History]:
    """Within the block, builds of tasks take the best config from these records.

    Args:
        source: a file of records, a journal, or records. Raises `RecordError` at once when the file cannot be read.
    """
    history = _history(source)
    token = _current.set(history)
    try:
        yield history
    finally:
        _current.reset(token)


def _history(source: str | os.PathLike[str] | Journal | Iterable[Record]) -> History:
    if isinstance(source, (str, os.PathLike)):
        source = Journal(source)
    if isinstance(source, Journal):
        return History(source.read(), source=str(source.path))
    wanted = "a file of records, a journal, or a list of records"
    return History(check_list("apply_history_best: source", source, wanted, error=RecordError, of=Record))
