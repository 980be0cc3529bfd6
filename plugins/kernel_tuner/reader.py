"""Results of Kernel Tuner (T4 files and cache files) and of KTT as recorded spaces.

Real files differ from the schemas, so that this reads what they mean rather than what they should say. The space is
made of the parameters and of the values found, one option knob each, and holds the configurations that are in the
file; times become seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pegbox.errors import RecordError
from pegbox.measure import Ok, Result
from pegbox.plugins.kernel_tuner.formats import ResultsTable, device_in, read_table
from pegbox.plugins.kernel_tuner.results import Results
from pegbox.plugins.kernel_tuner.values import plain_column
from pegbox.records import RecordedSpace, read_document, read_unpacked
from pegbox.space import Config, ConfigSpace

_PACKED = (".gz", ".xz", ".zip")
_RECORD = re.compile(rb'\{\s*"input"\s*:')


class KernelTunerReader:
    """A reader of results files of Kernel Tuner and KTT (.json, also packed as .gz, .xz or .zip)."""

    def accepts(self, path: Path) -> bool:
        """Accept any JSON document but records, line by line: `read` explains the defects of other formats."""
        content = read_unpacked(path, "results").lstrip()
        return content[:1] in (b"{", b"[") and _RECORD.match(content) is None

    def read(self, path: Path, *, objective: str | None = None) -> RecordedSpace:
        """Read the file as a recorded space.

        Several times of a configuration are the costs of its result. A configuration that is there twice has the costs
        of both where both ran, else the later result.

        Args:
            objective: the quantity to minimise, by its name in the file; by default the time of the kernel. For a
                rate, such as "GFLOP/s", the reciprocal is minimised.

        Raises:
            RecordError: the file cannot be read, has none of these formats, has no such objective, or nothing ran.
        """
        table = read_table(read_unpacked(path, "results").decode(errors="replace"), str(path))
        if not table.entries:
            raise RecordError(f"{str(path)!r}: a {table.format} file without a result")
        if not any(entry.configuration for entry in table.entries):
            raise RecordError(f"{str(path)!r}: its {len(table.entries)} configurations have no parameters")
        results = Results(table, str(path), objective)
        space, configs = _space(table)
        stem = _stem(path)
        named = not table.kernel or table.kernel.lower() in stem.lower()
        return RecordedSpace(
            stem if named else f"{table.kernel}-{stem}",
            space,
            _merged(zip(configs, map(results.of, table.entries), strict=True)),
            flop=results.flop,
            source=str(path),
            host=table.device or _device_next_to(path),
        )


def _space(table: ResultsTable) -> tuple[ConfigSpace, list[Config]]:
    """Make one option knob per parameter, and the configuration of each entry; a parameter that it omits is None.

    Values keep the order in which the file declares them; otherwise numbers ascend.
    """
    names = dict.fromkeys([*table.parameters, *(name for entry in table.entries for name in entry.configuration)])
    space = ConfigSpace()
    columns: list[list[int | None]] = []
    for name in names:
        declared = list(table.parameters.get(name, ()))
        values = plain_column([*declared, *(entry.configuration.get(name) for entry in table.entries)])
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        space.define_knob(name, sorted(values) if numbers and not declared else values)
        columns.append([space.knobs[name].find(value) for value in values[len(declared) :]])
    return space, [space.config([digit or 0 for digit in row]) for row in zip(*columns, strict=True)]


def _merged(results: Iterable[tuple[Config, Result]]) -> Mapping[Config, Result]:
    found: dict[Config, Result] = {}
    for config, result in results:
        before = found.get(config)
        if isinstance(before, Ok) and isinstance(result, Ok):
            again = () if set(result.costs) <= set(before.costs) else result.costs  # a cache gives the same again
            result = Ok((*before.costs, *again), before.total_seconds, result.timestamp, before.phases)
        found[config] = result
    return found


def _stem(path: Path) -> str:
    """Return the name without the parts that say its format: `A100_T4.json.gz` is `A100`."""
    name = path.name
    while name.endswith(_PACKED):
        name = name.rpartition(".")[0]
    return name.removesuffix(".json").removesuffix("-results").removesuffix("_T4")


def _device_next_to(path: Path) -> str:
    """Return the device in the metadata file that Kernel Tuner writes next to its results, "" without one."""
    for packing in ("", *_PACKED):
        metadata = path.with_name(f"{_stem(path)}-metadata.json{packing}")
        if metadata.is_file():
            try:
                return device_in(read_document(read_unpacked(metadata, "metadata").decode(errors="replace")))
            except RecordError:
                return ""
    return ""
