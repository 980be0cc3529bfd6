"""Records: measurements stored as one JSON object per line, and their use."""

from pegbox.codegen.targets.host import describe_host
from pegbox.records.history import (
    History,
    apply_history_best,
    best,
    best_of_each,
    current_history,
    load_history,
    matching,
)
from pegbox.records.journal import Journal, RecordWarning
from pegbox.records.record import FAILED_COST, VERSION, Record

__all__ = [
    "FAILED_COST",
    "VERSION",
    "History",
    "Journal",
    "Record",
    "RecordWarning",
    "apply_history_best",
    "best",
    "best_of_each",
    "current_history",
    "describe_host",
    "load_history",
    "matching",
]
