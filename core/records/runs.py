"""Runs in a file of records: a run is one search, including its continuations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from pegbox.records.record import Record, check_records


def new_run() -> str:
    """Make a name that no other run has."""
    return os.urandom(4).hex()


def run_to_go_on(held: Sequence[Record]) -> str:
    """Find the run of a resumed search: that of its latest record, or a new one if it is unknown."""
    return (held[-1].run if held else "") or new_run()


def by_run(records: Iterable[Record]) -> list[list[Record]]:
    """Group the records of each run, in the order of first appearance; those without a run are one group."""
    runs: dict[str, list[Record]] = {}
    for record in check_records(records):
        runs.setdefault(record.run, []).append(record)
    return list(runs.values())
