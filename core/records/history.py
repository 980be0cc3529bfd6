"""What earlier runs measured of a task, for going on from there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pegbox.errors import RecordError, SpaceError
from pegbox.measure.result import Result
from pegbox.records.journal import Journal
from pegbox.records.record import Record, call

if TYPE_CHECKING:
    from pegbox.space import Config
    from pegbox.task.task import Task


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
    target, space = str(task.target), task.space.fingerprint
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
            "template or its knobs have changed since; tune again into another file"
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
