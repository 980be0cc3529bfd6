"""`tvm.autotvm.record`: logs, which are files of pegbox's records; lines of AutoTVM's (version 0.2) are read, too."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pegbox
from pegbox.errors import RecordError
from pegbox.plugins.tvm.autotvm.measure import MeasureInput, MeasureResult
from pegbox.plugins.tvm.autotvm.task.task import Task
from pegbox.records import Journal, Record, best_of_each, current_history, matching, trials_of
from pegbox.report import write_file

if TYPE_CHECKING:
    from typing_extensions import Self

    from pegbox import Config
    from pegbox.plugins.tvm.target import TargetLike


def record_of(inp: MeasureInput, result: MeasureResult) -> Record:
    """Make the record of a trial. Raises `RecordError` for a result that cannot be recorded."""
    try:
        return Record.of(inp.task.inner, inp.config, MeasureResult(*result).to_result())
    except ValueError as error:
        raise RecordError(f"the result {result!r} cannot be recorded: {error}") from error


def encode(inp: MeasureInput, result: MeasureResult) -> str:
    """Write the line of a trial in a log."""
    return record_of(inp, result).to_line()


def decode(row: str) -> tuple[MeasureInput, MeasureResult] | None:
    """Read a line of a log; None for a comment and an empty line. Raises as `load_from_file`."""
    return None if not row.strip() or row.startswith("#") else _pair(Record.from_line(row), {}, "this line")


def load_from_file(filepath: str | os.PathLike[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """Read the trials of a log, oldest first; configurations measured again at the end of a search are not trials.

    Raises:
        RecordError: the file cannot be read, or a record is from another space than its task has now.
        UnknownName: a template is not defined.
    """
    tasks: dict[tuple[Any, ...], Task] = {}
    for record in trials_of(Journal(filepath).read()):
        yield _pair(record, tasks, os.fspath(filepath))


def _pair(record: Record, tasks: dict[tuple[Any, ...], Task], source: str) -> tuple[MeasureInput, MeasureResult]:
    place = record.name, record.args, record.target
    if place not in tasks:  # the target of AutoTVM's line is another compiler's
        tasks[place] = Task(record.name, record.args, None if record.tool else record.target)
    task = tasks[place]
    matching([record], task.inner, source=source)  # says what has changed since
    config = task.inner.space.from_json(record.choices)
    return MeasureInput(task.target, task, config), MeasureResult.of(record.result)


def pick_best(in_file: str, out_file: str) -> None:
    """Write the best record of each workload to another file. Raises `RecordError` if a file cannot be used."""
    lines = [record.to_line() + "\n" for record in best_of_each(Journal(in_file).read())]
    write_file(out_file, "".join(lines), error=RecordError)


class ApplyHistoryBest:
    """The context that gives templates the best configurations of a log, of pairs of input and result, or of iterables
    of these.

    It is pegbox's `apply_history_best`, which builds of tasks obey, too.
    """

    def __init__(self, records: str | os.PathLike[str] | Iterable[Any] | None = None) -> None:
        self._sources = [] if records is None else list(_sources(records))
        self._stack = ExitStack()

    def query(self, target: TargetLike | None, workload: tuple[Any, ...]) -> Config | None:
        """Return the best configuration of a workload; None without one. Raises `RecordError` as pegbox's."""
        with self:
            history = current_history()
            assert history is not None
            return history.best_config(Task(workload[0], workload[1:], target).inner)

    def __enter__(self) -> Self:
        self._stack.enter_context(pegbox.apply_history_best(self._sources))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


def _sources(records: Any) -> Iterator[Any]:
    """Yield the logs and the records in `records`, in their order."""
    if isinstance(records, tuple) and len(records) == 2 and isinstance(records[0], MeasureInput):
        yield record_of(*records)
    elif isinstance(records, Iterable) and not isinstance(records, str | os.PathLike):
        for each in records:
            yield from _sources(each)
    else:
        yield records


apply_history_best = ApplyHistoryBest
