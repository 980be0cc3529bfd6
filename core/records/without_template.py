"""Records without their template: a recorded space of the knobs alone, made from the choices that the records name.

A template changes, and a recorded space of the old one can no longer be checked against it. The measurements are still
a problem for tuners that learn from knobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pegbox.records.journal import Journal
from pegbox.records.library import choose_records, label
from pegbox.records.record import Record
from pegbox.records.recorded_space import RecordedSpace, latest_results
from pegbox.space import Config, ConfigSpace

_SPLIT = "sp"
"""The kind of a choice that is a list of factors; the first, -1, is inferred from the others."""


def recorded_knobs(path: Path) -> RecordedSpace:
    """Open records of one workload as a space of knobs with values: each factor of a split is a knob.

    There is no task, so that tuners see no features of programs. Raises `RecordError` as `recorded_space` does.
    """
    records = choose_records(Journal(path).read(), str(path))
    choices = [dict(_choices(record.config)) for record in records]
    space, configs = knobs_of(choices)
    results = latest_results(records, [str(config.digits).encode() for config in configs])
    by_key = {str(config.digits).encode(): config for config in configs}
    first: Record = records[0]
    return RecordedSpace(
        label(first),
        space,
        {by_key[key]: result for key, result in results.items()},
        source=str(path),
        host=first.host,
        target=first.target,
    )


def knobs_of(choices: Sequence[Mapping[str, Any]]) -> tuple[ConfigSpace, list[Config]]:
    """Make one knob for each name, with the values that occur, numbers in ascending order; return the knobs and the
    configurations.

    A name that a configuration lacks has the value None there.
    """
    space = ConfigSpace()
    names = dict.fromkeys(name for choice in choices for name in choice)
    columns: list[list[int]] = []
    for name in names:
        values = [choice.get(name) for choice in choices]
        found = list(dict.fromkeys(values))
        candidates = sorted(found, key=_order)
        space.define_knob(name, candidates)
        places = {value: place for place, value in enumerate(candidates)}
        columns.append([places[value] for value in values])
    return space, [space.config(row) for row in zip(*columns, strict=True)]


def _choices(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, kind, value in config.get("entity", ()):
        if kind == _SPLIT and isinstance(value, list):
            for place, factor in enumerate(value[1:] if value[:1] == [-1] else value, start=1):
                yield f"{name}_{place}", factor
        else:
            yield name, value if isinstance(value, int | float | str | bool) or value is None else str(value)


def _order(value: Any) -> tuple[int, float, str]:
    """Put None before numbers, and numbers before text."""
    if value is None:
        return 0, 0.0, ""
    return (2, 0.0, value) if isinstance(value, str) else (1, float(value), "")
