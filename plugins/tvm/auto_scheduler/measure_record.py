"""Logs of searches: files of pegbox's records (docs/measuring.md), written, read, and the best of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pegbox.errors import ArgumentError, RecordError
from pegbox.plugins.tvm.auto_scheduler.base_task import BaseTask
from pegbox.plugins.tvm.auto_scheduler.compute_dag import State
from pegbox.plugins.tvm.auto_scheduler.measure import MeasureInput, MeasureResult
from pegbox.plugins.tvm.target import Target, TargetLike
from pegbox.records import Journal, Record, best, matching

_DEFAULT = "auto_scheduler_tuning.json"


class RecordToFile:
    """The log of a search, to which each trial is appended at once."""

    def __init__(self, filename: str = _DEFAULT) -> None:
        self.journal = Journal(filename)


class RecordReader:
    """A reader of a log, oldest trial first."""

    def __init__(self, filename: str = _DEFAULT) -> None:
        self.filename = filename

    def __iter__(self) -> Iterator[tuple[MeasureInput, MeasureResult]]:
        tasks: dict[tuple[str, str], BaseTask] = {}
        for record in Journal(self.filename).read():
            if not record.remeasured:
                yield _pair(record, self.filename, tasks)

    def read_lines(
        self, max_lines: int | None = None, skip_lines: int = 0
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Read the inputs and the results of at most so many trials. Raises as `load_records`."""
        pairs = list(self)[skip_lines:][:max_lines]
        return [inp for inp, _ in pairs], [result for _, result in pairs]


def load_records(filename: str) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """Read the trials of a log, oldest first; configurations measured again at the end of a search are not trials.

    Raises:
        RecordError: the file cannot be read, or a record is from another space than its task has now.
        UnknownName: a workload is not registered.
    """
    return iter(RecordReader(filename))


def load_best_record(
    filename: str, workload_key: str | None = None, target: TargetLike | None = None
) -> tuple[MeasureInput, MeasureResult] | tuple[None, None]:
    """Read the best record of a workload on a target, or of all; (None, None) if nothing ran.

    Results that were measured again at the end of a search count more than single ones. Raises as `load_records`.
    """
    on = None if target is None else str(Target(target))
    records = Journal(filename).read()
    found = best(r for r in records if workload_key in (None, _key(r)) and on in (None, r.target))
    return (None, None) if found is None else _pair(found, filename, {})


load_best = load_best_record  # its name before TVM 0.8


def save_records(filename: str, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
    """Append records to a log. Raises `RecordError` for a result that cannot be recorded, or a file that cannot."""
    journal = Journal(filename)
    for (_, state), result in zip(inputs, results, strict=True):
        try:
            found = result.result
        except ArgumentError as error:
            raise RecordError(f"the result {result!r} cannot be recorded: {error}") from error
        journal.append(Record.of(state.task, state.config, found))


def _key(record: Record) -> str:
    """Return the workload key of a record of "name@sketch"."""
    return json.dumps([record.name.rpartition("@")[0], *record.args])


def _pair(record: Record, filename: str, tasks: dict[tuple[str, str], BaseTask]) -> tuple[MeasureInput, MeasureResult]:
    place = _key(record), record.target
    task = tasks.get(place) or tasks.setdefault(place, BaseTask(workload_key=place[0], target=place[1]))
    matching([record], task.inner, source=filename)  # says what has changed since
    state = State(task.inner, task.inner.space.from_json(record.choices))
    return MeasureInput(task, state), MeasureResult.of(record.result)
