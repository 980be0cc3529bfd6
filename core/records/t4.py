"""Results of Kernel Tuner (T4 files and cache files) and of KTT as recorded spaces.

Real files differ from the schemas, so that this reads what they mean rather than what they should say. The space is
made of the parameters and of the values found, one option knob each, and holds the configurations that are in the
file; times become seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pegbox.errors import RecordError
from pegbox.measure.result import Ok, Result
from pegbox.records.recorded import RecordedSpace
from pegbox.records.t4_files import device_beside, read_unpacked, stem_of
from pegbox.records.t4_forms import Sheet, read_sheet
from pegbox.records.t4_results import Reader
from pegbox.records.t4_values import plain_column
from pegbox.space import Config, ConfigSpace


def read_results(path: str | os.PathLike[str], *, objective: str | None = None) -> RecordedSpace:
    """A recorded space from a results file of Kernel Tuner or KTT (.json, also packed as .gz, .xz or .zip).

    Args:
        objective: what tuners minimise, by its name in the file; the time of the kernel by default. Of a rate, such as
            "GFLOP/s", the reciprocal is minimised.

    Several times of a configuration are the costs of its result. A configuration that is there twice has the costs of
    both where both ran, else the later result.

    Raises:
        RecordError: the file cannot be read, is of none of these forms, has no such objective, or nothing ran.
    """
    file = Path(path)
    sheet = read_sheet(read_unpacked(file).decode(errors="replace"), str(file))
    if not sheet.entries:
        raise RecordError(f"{str(file)!r}: a {sheet.form} file without a result")
    if not any(entry.configuration for entry in sheet.entries):
        raise RecordError(f"{str(file)!r}: its {len(sheet.entries)} configurations have no parameters")
    reader = Reader(sheet, str(file), objective)
    space, configs = _space(sheet)
    return RecordedSpace(
        _name(file, sheet),
        space,
        _merged(zip(configs, map(reader.result, sheet.entries), strict=True)),
        flop=reader.flop,
        source=str(file),
        host=sheet.device or device_beside(file),
    )


def _space(sheet: Sheet) -> tuple[ConfigSpace, list[Config]]:
    """One option knob per parameter, and the configuration of each entry. What an entry leaves out is None there."""
    names = dict.fromkeys([*sheet.parameters, *(name for entry in sheet.entries for name in entry.configuration)])
    space = ConfigSpace()
    columns: list[list[int | None]] = []
    for name in names:
        declared = list(sheet.parameters.get(name, ()))
        values = plain_column([*declared, *(entry.configuration.get(name) for entry in sheet.entries)])
        space.define_knob(name, _ordered(values, declared=bool(declared)))
        columns.append([space.knobs[name].find(value) for value in values[len(declared) :]])
    return space, [space.config([digit or 0 for digit in row]) for row in zip(*columns, strict=True)]


def _ordered(values: Sequence[Any], *, declared: bool) -> list[Any]:
    """The order of the file where it declares the values, else ascending numbers, else that of appearance."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return sorted(values) if numbers and not declared else list(values)


def _merged(results: Iterable[tuple[Config, Result]]) -> Mapping[Config, Result]:
    found: dict[Config, Result] = {}
    for config, result in results:
        before = found.get(config)
        if isinstance(before, Ok) and isinstance(result, Ok):
            again = () if set(result.costs) <= set(before.costs) else result.costs  # a cache gives the same again
            result = Ok((*before.costs, *again), before.total_seconds, result.timestamp, before.phases)
        found[config] = result
    return found


def _name(file: Path, sheet: Sheet) -> str:
    stem = stem_of(file)
    return f"{sheet.kernel}-{stem}" if sheet.kernel and sheet.kernel.lower() not in stem.lower() else stem
