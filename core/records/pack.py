"""Packing of records: one line per configuration, for simulations. The lines are records like any other."""

from __future__ import annotations

import dataclasses
import gzip
import lzma
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pegbox.checks import check_path
from pegbox.errors import ArgumentError, RecordError
from pegbox.measure.result import Ok, Result
from pegbox.output import Content, check_output, write_file
from pegbox.records.journal import Journal
from pegbox.records.library import choose_records, find_source
from pegbox.records.record import Record
from pegbox.records.recorded_space import latest_results, seconds_of

_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".jsonl": bytes,
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".xz": lambda data: lzma.compress(data, preset=9 | lzma.PRESET_EXTREME),
}

_PACKED = {
    ".jsonl": Content("a file of records", re.compile(rb"\s*[{#]")),
    ".gz": Content("packed by gzip", re.compile(rb"\x1f\x8b")),
    ".xz": Content("packed by xz", re.compile(rb"\xfd7zXZ")),
}


def pack_space(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    args: Sequence[Any] | None = None,
    host: str | None = None,
    target: str | None = None,
) -> int:
    """Write the records of one workload to `out` (.jsonl, .jsonl.gz, .jsonl.xz), each configuration once.

    A configuration keeps its latest costs, and its trial's seconds of compiling and running. `args`, `host` and
    `target` choose as for `recorded_space`. Return the number of configurations.

    Raises:
        ArgumentError: `out` has no suffix of a packed file, or is the source, or cannot be written, as on a full disk.
        RecordError: as in `recorded_space`, or the file could finally not be written.
    """
    path, packed = find_source(source), check_path("out", out)
    check_packed(packed)
    if packed.exists() and packed.samefile(path):
        raise ArgumentError(f"pack to {str(packed)!r}: this is the source; choose another file")
    records = choose_records(Journal(path).read(), str(path), args=args, host=host, target=target)
    lines = [record.to_line() for record in _compact(records)]
    data = _PACKERS[packed.suffix]("".join(f"{line}\n" for line in lines).encode())
    write_file(packed, data, error=RecordError)
    return len(lines)


def check_packed(packed: Path) -> None:
    """Raise `ArgumentError` as `check_output` does, and if the name has no suffix of a packed file."""
    if packed.suffix not in _PACKERS:
        raise ArgumentError(f"pack to {str(packed)!r}: the name must end in .jsonl, .jsonl.gz or .jsonl.xz")
    check_output(packed, _PACKED[packed.suffix])


def _compact(records: Sequence[Record]) -> list[Record]:
    """Make one record for each configuration, with similar ones together, and remeasured ones last."""
    keys = [str(record.config).encode() for record in records]
    last = dict(zip(keys, records, strict=True))
    results = latest_results(records, keys).items()
    found = [dataclasses.replace(last[key], result=_short(result), run="") for key, result in results]
    # Trials that follow the last remeasurement would be newer than it (`history.best`).
    return sorted(found, key=lambda record: (record.remeasured, record.config.get("index", 0)))


def _short(result: Result) -> Result:
    """Round a cost to six digits and a time to a tenth of a millisecond, more than their precision."""
    compiling, running = (round(seconds, 4) for seconds in seconds_of(result))
    phases = {"compile": compiling, "run": running}
    short = dataclasses.replace(
        result,
        total_seconds=round(compiling + running, 4),
        timestamp=float(round(result.timestamp)),
        phases=phases,
    )
    if isinstance(short, Ok):
        return dataclasses.replace(short, costs=tuple(float(f"{cost:.6g}") for cost in short.costs))
    return short
