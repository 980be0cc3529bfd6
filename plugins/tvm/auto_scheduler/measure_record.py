"""Records of searches: written, read, and the best of them. The files are pegbox's own (docs/measuring.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegbox.errors import RecordError
from pegbox.output import write_file
from pegbox.packed_file import read_unpacked
from pegbox.plugins.tvm.auto_scheduler.base_task import BaseTask
from pegbox.plugins.tvm.auto_scheduler.measure import MeasureCallback, MeasureInput, MeasureResult
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.plugins.tvm.target import Target, TargetLike
from pegbox.records.history import best
from pegbox.records.journal import Journal
from pegbox.records.record import Record

if TYPE_CHECKING:
    from pegbox.plugins.tvm.auto_scheduler.state_object import StateObject

_DEFAULT = "auto_scheduler_tuning.json"


class RecordToFile(MeasureCallback):
    """Writes every trial to a file, at once."""

    def __init__(self, filename: str = _DEFAULT) -> None:
        self.filename = filename
        self.journal = Journal(filename)

    def callback(self, policy: Any, inputs: list[MeasureInput], results: list[MeasureResult]) -> None:
        """Append records."""
        save_records(self.filename, inputs, results)


class RecordedInput(MeasureInput):
    """What a record is of; task and state are made when they are asked for.

    Attributes:
        workload_key: of its task.
        target: as text.
        space, config: where its state is found.
    """

    def __init__(self, record: Record) -> None:
        self.workload_key = workload_key_of(record)
        self.target = record.target
        self.space = record.space
        self.config: Mapping[str, Any] = record.config

    @cached_property
    def task(self) -> BaseTask:  # type: ignore[override]
        """The task. Raises `UnknownName` where its workload is not registered."""
        return BaseTask(workload_key=self.workload_key, target=self.target)

    @cached_property
    def state(self) -> StateObject:  # type: ignore[override]
        """The state. Raises `RecordError` where its space is another one."""
        return self.task.state_of(self.space, self.config)


def workload_key_of(record: Record) -> str:
    """The workload key of what a record is of."""
    name = record.name.rpartition("@")[0] or record.name
    values = record.workload[1].values() if record.kwargs else record.args
    return json.dumps((name, *values))


class RecordReader:
    """Reads a file of records, oldest first; what was measured again at the end of a search is no further one."""

    def __init__(self, filename: str = _DEFAULT) -> None:
        self.filename = filename

    def read_lines(
        self, max_lines: int | None = None, skip_lines: int = 0
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Inputs and results of so many records.

        Raises:
            RecordError: the file cannot be read, or is of another tool.
        """
        pairs = list(self)[skip_lines:]
        chosen = pairs if max_lines is None or max_lines < 0 else pairs[:max_lines]
        return [inp for inp, _ in chosen], [result for _, result in chosen]

    def __iter__(self) -> Iterator[tuple[RecordedInput, MeasureResult]]:
        for record in read_records(self.filename):
            if not record.remeasured:
                yield RecordedInput(record), MeasureResult.of(record.result)


def read_records(filename: str) -> list[Record]:
    """The records of a file.

    Raises:
        RecordError: it cannot be read, or is a log of TVM's auto-scheduler.
    """
    for line in read_unpacked(Path(filename), "records").splitlines():
        if line.strip() and not line.startswith(b"#"):
            _refuse_ansor(filename, line)
            break
    return Journal(filename).read()


def _refuse_ansor(filename: str, line: bytes | str) -> None:
    """Raises `RecordError` for a record of TVM's: `{"i": [task, steps], "r": [...], "v": "v0.6"}`."""
    try:
        form = json.loads(line)
    except ValueError:
        return
    if isinstance(form, dict) and "i" in form and "r" in form:
        raise RecordError(
            f"{filename!r} is a log of TVM's auto-scheduler ({form.get('v', 'no version')}): its records are steps of "
            "TVM's states, which mean no configuration of pegbox's space; tune again into another file"
        )


def load_records(filename: str) -> Iterator[tuple[RecordedInput, MeasureResult]]:
    """Inputs and results of a file of records. Raises `RecordError` as `RecordReader.read_lines`."""
    return iter(RecordReader(filename))


def save_records(filename: str, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
    """Append records to a file. Raises `RecordError` where it cannot be written."""
    journal = Journal(filename)
    for inp, result in zip(inputs, results, strict=True):
        journal.append(_record(inp, result))


def _record(inp: MeasureInput, result: MeasureResult) -> Record:
    task, config = inp.task.of_state(inp.state)
    return Record.of(task, config, result.result)


def dump_record_to_string(inp: MeasureInput, res: MeasureResult) -> str:
    """A record as a line of text."""
    return _record(inp, res).to_line()


def load_record_from_string(record: str) -> tuple[MeasureInput, MeasureResult]:
    """The record of a line. Raises `RecordError` for what is none."""
    _refuse_ansor("this line", record)
    found = Record.from_line(record)
    return RecordedInput(found), MeasureResult.of(found.result)


def distill_record_file(in_file: str, out_file: str) -> None:
    """Write the best record of each workload to another file, with those that are there already.

    Raises:
        RecordError: a file cannot be read.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in [*(read_records(out_file) if os.path.exists(out_file) else []), *read_records(in_file)]:
        groups.setdefault((workload_key_of(record), record.target), []).append(record)
    lines = [found.to_line() + "\n" for group in groups.values() if (found := best(group)) is not None]
    write_file(out_file, "".join(lines), error=RecordError)


def load_best_record(
    filename: str,
    workload_key: str | None = None,
    target: TargetLike | None = None,
    include_compatible: bool = False,
) -> tuple[RecordedInput, MeasureResult] | tuple[None, None]:
    """The best record of a workload on a target, or of all; (None, None) where nothing ran.

    What was measured again with care at the end of a search counts more than its single timings, as in all of pegbox.
    """
    if include_compatible:
        means_nothing("include_compatible=True", "the configurations of one shape mean nothing to another one")
    on = None if target is None else str(Target(target))
    own = [
        record
        for record in read_records(filename)
        if workload_key in (None, workload_key_of(record)) and on in (None, record.target)
    ]
    found = best(own)
    return (None, None) if found is None else (RecordedInput(found), MeasureResult.of(found.result))


load_best = load_best_record  # as it was called before TVM 0.8
