"""Results of Kernel Tuner (T4 files and cache files) and of KTT as recorded spaces.

Real files differ from the schemas, so that this reads what they mean rather than what they should say. The space is
made of the parameters and of the values found, one option knob each, and holds the configurations that are in the
file; times become seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pegbox.errors import RecordError
from pegbox.measure import Ok, Result
from pegbox.plugins.kernel_tuner.files import device_beside, is_json_document, stem_of
from pegbox.plugins.kernel_tuner.forms import Sheet, read_sheet
from pegbox.plugins.kernel_tuner.results import Results
from pegbox.plugins.kernel_tuner.values import plain_column
from pegbox.records import RecordedSpace, read_unpacked
from pegbox.space import Config, ConfigSpace


class KernelTunerReader:
    """Reads results files of Kernel Tuner and KTT (.json, also packed as .gz, .xz or .zip)."""

    def accepts(self, path: Path) -> bool:
        """Any JSON document that is not a record of pegbox: `read` says what is wrong with those of other forms."""
        return is_json_document(path)

    def read(self, path: Path, *, objective: str | None = None) -> RecordedSpace:
        """The file as a recorded space.

        Several times of a configuration are the costs of its result. A configuration that is there twice has the costs
        of both where both ran, else the later result.

        Args:
            objective: what tuners minimise, by its name in the file; the time of the kernel by default. Of a rate, such
                as "GFLOP/s", the reciprocal is minimised.

        Raises:
            RecordError: the file cannot be read, is of none of these forms, has no such objective, or nothing ran.
        """
        sheet = read_sheet(read_unpacked(path, "results").decode(errors="replace"), str(path))
        if not sheet.entries:
            raise RecordError(f"{str(path)!r}: a {sheet.form} file without a result")
        if not any(entry.configuration for entry in sheet.entries):
            raise RecordError(f"{str(path)!r}: its {len(sheet.entries)} configurations have no parameters")
        results = Results(sheet, str(path), objective)
        space, configs = _space(sheet)
        return RecordedSpace(
            _name(path, sheet),
            space,
            _merged(zip(configs, map(results.of, sheet.entries), strict=True)),
            flop=results.flop,
            source=str(path),
            host=sheet.device or device_beside(path),
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
