"""Records: measurements stored as one JSON object per line, their use, and readers of other tools' results.

Names are imported when they are first used, so that a history loads no simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.codegen.targets.host import describe_host
    from pegbox.packed_file import check_archive, read_unpacked
    from pegbox.records.autotvm import autotvm_number, autotvm_result
    from pegbox.records.document import NotJson, read_document
    from pegbox.records.history import (
        History,
        apply_history_best,
        best,
        best_of_each,
        by_task,
        current_history,
        latest_baseline,
        load_history,
        matching,
        trials_of,
    )
    from pegbox.records.journal import Journal, RecordWarning
    from pegbox.records.library import ResultsReader, registered_task
    from pegbox.records.pack import check_packed
    from pegbox.records.record import FAILED_COST, VERSION, Record, call
    from pegbox.records.recorded_space import RecordedSpace
    from pegbox.records.runs import by_run

__all__ = [
    "FAILED_COST", "VERSION", "History", "Journal", "NotJson", "Record", "RecordWarning", "RecordedSpace",
    "ResultsReader", "apply_history_best", "autotvm_number", "autotvm_result", "best", "best_of_each", "by_run",
    "by_task", "call", "check_archive", "check_packed", "current_history", "describe_host", "latest_baseline",
    "load_history", "matching", "read_document", "read_unpacked", "registered_task", "trials_of",
]  # fmt: skip

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
