"""Which record is the best."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pegbox.records.history import by_task, latest, matching
from pegbox.records.record import Record

if TYPE_CHECKING:
    from pegbox.task.task import Task


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
