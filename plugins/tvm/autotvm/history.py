"""The context that gives templates the best configurations of records."""

from __future__ import annotations

import os
from collections.abc import Iterable
from io import TextIOBase
from typing import Any

from pegbox.codegen.targets.target import Target
from pegbox.errors import RecordError
from pegbox.plugins.tvm.autotvm.measure.measure import MeasureInput
from pegbox.plugins.tvm.autotvm.record import lines_of, record_of
from pegbox.plugins.tvm.autotvm.task.config import ConfigEntity
from pegbox.plugins.tvm.autotvm.task.dispatcher import Chosen, Workload
from pegbox.plugins.tvm.autotvm.task.task import TASK_TABLE, Task
from pegbox.records.history import History
from pegbox.records.journal import Journal
from pegbox.records.record import Record


class ApplyHistoryBest(Chosen):
    """The best configurations of records: a file, an open file, pairs of input and result, or a list of these."""

    def __init__(self, records: Any = None) -> None:
        super().__init__()
        self._records: list[Record] = []
        self._names: list[str] = []
        if records is not None:
            self.load(records)

    def load(self, records: Any) -> None:
        """Add records. Raises `RecordError` for a file that cannot be read."""
        self._records += _records_of(records, self._names)

    def _query_inside(self, target: Target | None, workload: Workload) -> Any:
        chosen = super()._query_inside(target, workload)
        if chosen is not None or not workload or not any(r.name == workload[0] for r in self._records):
            return chosen
        if workload[0] not in TASK_TABLE:
            return None
        task = Task(workload[0], workload[1:], target).inner
        config = History(self._records, source=" and ".join(self._names) or "the records").best_config(task)
        return None if config is None else ConfigEntity.of(config)


def _records_of(records: Any, names: list[str]) -> list[Record]:
    """Whatever holds records as records of pegbox; `names` hears of the files."""
    if isinstance(records, str | os.PathLike | bytes):
        path = os.fsdecode(records)
        names.append(path)
        return Journal(path).read()
    if isinstance(records, TextIOBase):
        return [Record.from_line(line) for line in lines_of(records)]
    if isinstance(records, Iterable):
        found: list[Record] = []
        for each in records:
            is_pair = isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], MeasureInput)
            found += [record_of(*each)] if is_pair else _records_of(each, names)
        return found
    raise RecordError(f"apply_history_best({records!r}): give a file of records, pairs of input and result, or a list")


apply_history_best = ApplyHistoryBest
