"""The earlier measurements of a task, for resuming a search.

`with apply_history_best("matmul.jsonl"): ...` is the latter.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from pegbox.checks import check_list
from pegbox.errors import RecordError, SpaceError
from pegbox.measure.result import Result
from pegbox.records.journal import Journal
from pegbox.records.record import Record, call

if TYPE_CHECKING:
    from pegbox.space import Config
    from pegbox.task.task import Task

_current: ContextVar[History | None] = ContextVar("pegbox_history", default=None)


def load_history(journal: Journal, task: Task) -> tuple[list[Config], list[Result]]:
    """The configs of `task` that the journal holds, each once with its latest result, in the order of first measuring.

    Records of other workloads are skipped. Raises `RecordError` as `matching` does, or when the file cannot be read;
    a file that does not exist yet is an empty history.
    """
    if not journal.path.exists():
        return [], []
    configs: dict[Config, Result] = {}
    for record in latest(matching(journal.read(), task, source=str(journal.path))):
        configs[to_config(record, task, source=str(journal.path))] = record.result
    return list(configs), list(configs.values())


def matching(records: Iterable[Record], task: Task, *, source: str = "the records") -> list[Record]:
    """The records of this task's workload, target and space.

    A file may hold several workloads, and several targets of one. Raises `RecordError`, with both shown, when the
    workload is there but only for other targets, or comes from a space that is not the task's: applying such a record
    would silently mean another schedule.
    """
    own = [record for record in records if record.is_of(task)]
    target, space = str(task.target), task.fingerprint
    here = [record for record in own if record.target == target]
    if own and not here:
        others = " and ".join(sorted({repr(record.target) for record in own}))
        raise RecordError(
            f"{source}: the records of {call(*task.workload)} are for the target {others}, the task is for "
            f"{target!r}: give that target, or another file"
        )
    if strangers := sorted({record.space for record in here} - {space}):
        raise RecordError(
            f"{source}: the records of {call(*task.workload)} are from the space "
            f"{' and '.join(fingerprint[:12] for fingerprint in strangers)}, the task's space is {space[:12]}: the "
            "template, its knobs, or the computation and rules that it was derived from have changed since; tune again "
            "into another file"
        )
    return here


def latest(records: Iterable[Record]) -> list[Record]:
    """The latest record of each config, in the order in which the configs first appear."""
    found: dict[str, Record] = {}
    for record in records:
        found[json.dumps(record.config, sort_keys=True)] = record
    return list(found.values())


def by_task(records: Iterable[Record]) -> list[list[Record]]:
    """The records of each workload on each target from each space, in the order of first appearance."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        key = (json.dumps(record.workload, sort_keys=True), record.target, record.space)
        groups.setdefault(key, []).append(record)
    return list(groups.values())


def to_config(record: Record, task: Task, *, source: str = "the records") -> Config:
    """The record's config in the task's space; raises `RecordError` when the space does not hold it."""
    try:
        return task.space.from_json(record.config)
    except SpaceError as error:
        raise RecordError(f"{source}: a config does not fit the space of {task.name}: {error}") from error


def best(records: Iterable[Record], task: Task | None = None) -> Record | None:
    """The fastest record, or None when no trial succeeded.

    A config counts with its latest measurement. Where the best were measured again at the end of a run, those that
    were not among them have lost: their first costs are the luckier ones, being single measurements.

    Args:
        records: oldest first, as a journal gives them.
        task: take only records of this task; raises `RecordError` when they are from another space or target.
    """
    kept = list(records) if task is None else matching(records, task)
    last = max((place for place, record in enumerate(kept) if record.remeasured), default=-1)
    places = {id(record): place for place, record in enumerate(kept)}
    ok = [record for record in latest(kept) if record.result.ok]
    standing = [record for record in ok if record.remeasured or places[id(record)] > last]
    return min(standing or ok, key=lambda record: record.cost, default=None)


def best_of_each(records: Iterable[Record]) -> list[Record]:
    """The best record of each workload on each target from each space, in the order of first appearance."""
    return [found for group in by_task(records) if (found := best(group)) is not None]


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
