"""`tvm.autotvm.record`: logs of trials. Lines are records of pegbox; those of AutoTVM (version 0.2) are read, too."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from io import TextIOBase
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_choice
from pegbox.codegen.targets.target import Target as PegboxTarget
from pegbox.errors import RecordError, TargetError
from pegbox.output import write_file
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.autotvm.measure.measure import MeasureInput, MeasureResult
from pegbox.plugins.tvm.autotvm.task.config import ConfigEntity
from pegbox.plugins.tvm.autotvm.task.task import TASK_TABLE, Task
from pegbox.plugins.tvm.target import Target
from pegbox.records.history import best_of_each, trials_of
from pegbox.records.journal import Journal
from pegbox.records.record import Record

if TYPE_CHECKING:
    import pegbox.task.task as pegbox_task
    from pegbox.space import Config

__getattr__ = names(__name__, {"ApplyHistoryBest": "pegbox.plugins.tvm.autotvm.history"})


class LoggedTask(Task):
    """The task of a line in a log, whose template may be unknown here."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.name, record.args, _target_named(record.target))
        self.record = record

    def config_of(self, config: ConfigEntity) -> Config:
        # AutoTVM counts some knobs' values in another order: the choices alone count.
        form = config.to_json_dict()
        entity = [list(choice) for choice in form["entity"]]
        return self.inner.space.from_json(replace(self.record, config={**form, "entity": entity}).choices)

    @cached_property
    def inner(self) -> pegbox_task.Task:
        return _made(TASK_TABLE.get(self.name), self.name, self.args, self.target)


@lru_cache(maxsize=64)
def _made(template: object, name: str, args: tuple[Any, ...], target: Target) -> pegbox_task.Task:
    """A log has many lines of one task, whose space is made once; `template` is a key."""
    return Task(name, args, target).inner


@lru_cache(maxsize=64)
def _target_named(text: str) -> Target:
    """The target of a line; this machine for one that pegbox does not know, which is AutoTVM's."""
    try:
        return Target(PegboxTarget(text))
    except TargetError:
        return Target()


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """A text for an input, equal for equal ones."""
    config = str(inp.config) if include_config else ""
    return f"{_target(inp)}{inp.task.name}{inp.task.args}{inp.task.kwargs}{config}"


def _target(inp: MeasureInput) -> str:
    return inp.task.record.target if isinstance(inp.task, LoggedTask) else str(inp.target)


def record_of(inp: MeasureInput, result: Any, **options: Any) -> Record:
    """The record of a trial; `options` are those of `Record.of`.

    Raises:
        RecordError: the configuration is of another space than its task's.
    """
    try:
        measured = MeasureResult(*result).to_result()
        if isinstance(inp.task, LoggedTask):
            form = {key: value for key, value in inp.config.to_json_dict().items() if key != "code_hash"}
            return replace(inp.task.record, config=form, result=measured)
        return Record.of(inp.task.inner, inp.task.config_of(inp.config), measured, **options)
    except ValueError as error:
        raise RecordError(f"the result {result!r} cannot be recorded: {error}") from error


def encode(inp: MeasureInput, result: Any, protocol: str = "json") -> str:
    """The line of a trial in a log."""
    if protocol == "pickle":
        raise RecordError("protocol='pickle': logs are lines of JSON here; leave protocol out")
    check_choice("protocol", protocol, ["json"])
    return record_of(inp, result).to_line()


def decode(row: str, protocol: str = "json") -> tuple[MeasureInput, MeasureResult] | None:
    """The input and the result that a line holds; None for a comment and an empty line."""
    check_choice("protocol", protocol, ["json"])
    return None if not row.strip() or row.startswith("#") else _pair(Record.from_line(row))


def _pair(record: Record) -> tuple[MeasureInput, MeasureResult]:
    task = LoggedTask(record)
    config = ConfigEntity.from_json_dict({"index": None, "entity": [], **record.config})
    return MeasureInput(task.target, task, config), MeasureResult.of(record.result)


def load_from_file(filepath: str | os.PathLike[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The trials of a log, oldest first. What was measured again at the end of a search is no trial of its own."""
    yield from map(_pair, trials_of(Journal(filepath).read()))


def load_from_buffer(file: TextIOBase) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The trials of an open log."""
    yield from map(_pair, trials_of(map(Record.from_line, lines_of(file))))


def lines_of(file: Iterable[str]) -> Iterator[str]:
    """The lines that hold a trial."""
    return (line for line in file if line.strip() and not line.startswith("#"))


def pick_best(in_file: str, out_file: Any) -> None:
    """Write the best record of each workload to another file, by name or open."""
    lines = [record.to_line() + "\n" for record in best_of_each(Journal(in_file).read())]
    if isinstance(out_file, str | os.PathLike):
        write_file(out_file, "".join(lines), error=RecordError)
    else:
        out_file.writelines(lines)


def split_workload(in_file: str, clean: bool = True) -> None:
    """Write the records of each workload to a file of their own: in_file.000.wkl, in_file.001.wkl, ...

    With `clean`, a configuration that is there twice is written once.
    """
    groups: dict[str, list[Record]] = {}
    for record in Journal(in_file).read():
        groups.setdefault(record.described + record.target, []).append(record)
    for place, records in enumerate(groups.values()):
        kept = {str(record.config): record for record in records}.values() if clean else records
        lines = [record.to_line() + "\n" for record in kept]
        write_file(f"{in_file}.{place:03}.wkl", "".join(lines), error=RecordError)
