"""The file formats of other autotuners, each read into a `ResultsTable`.

- T4, the results format of the auto-tuning community: `{"results": [{"configuration": ..., "measurements": ...}]}`.
  Kernel Tuner writes it, and several converters do, each a little differently from the schema and from each other.
- The cache files of Kernel Tuner: `{"tune_params": ..., "cache": {"16,1": {...}}}`, whose last brackets are missing
  while the tuning goes on or when it was cut short.
- The output of KTT: `{"Metadata": ..., "Results": [...]}`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pegbox.errors import RecordError
from pegbox.plugins.kernel_tuner.values import number
from pegbox.records import NotJson, RecordWarning, read_document

KERNEL_TUNER_UNIT = "ms"
"""The unit of Kernel Tuner's times, unless a file names another one."""


@dataclass(frozen=True)
class Entry:
    """One configuration as a file has it; nothing is converted yet.

    `measured` maps names to (value, unit), `runtimes` are the repeats of the kernel's time, `state` is the file's word
    for success or failure, `correct` is False for a wrong answer, and `spent` has the times of compiling and such, in
    the table's unit.
    """

    configuration: Mapping[str, Any]
    measured: Mapping[str, tuple[Any, Any]]
    runtimes: Sequence[Any] = ()
    state: Any = None
    correct: bool = True
    spent: Mapping[str, Any] = field(default_factory=dict)
    timestamp: Any = None


@dataclass(frozen=True)
class ResultsTable:
    """The entries of a file in any format. `unit` is that of times, `parameters` have their values, if known."""

    format: str
    entries: Sequence[Entry]
    unit: Any = KERNEL_TUNER_UNIT
    parameters: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    kernel: str = ""
    device: str = ""


def read_table(text: str, source: str) -> ResultsTable:
    """Read a file of any of the formats. Raises `RecordError` for others, with the beginning of the content."""
    document = _document(text, source)
    match document:
        case {"results": list()} | {"results": dict()}:
            return _t4(document, source)
        case {"cache": dict()}:
            return _cache(document, source)
        case {"Results": list()}:
            return _ktt(document, source)
        case [{"configuration": dict()}, *_]:
            return _t4({"results": document}, source)
    raise RecordError(
        f"{source!r} holds neither records of pegbox nor results of Kernel Tuner or KTT: {_found(document)}, but T4 "
        "files have 'results', cache files of Kernel Tuner 'cache', and KTT's output 'Results'"
    )


def device_in(metadata: Any) -> str:
    """Find the name of the device somewhere in metadata, "" without one."""
    if isinstance(metadata, Mapping):
        for key in ("device_name", "device", "Device", "product_name"):
            if isinstance(metadata.get(key), str):
                return str(metadata[key])
    inner = metadata.values() if isinstance(metadata, Mapping) else metadata if isinstance(metadata, list) else ()
    return next((name for name in map(device_in, inner) if name), "")


def _document(text: str, source: str) -> Any:
    try:
        return read_document(text)
    except NotJson as error:
        if '"cache"' not in text:
            raise RecordError(f"{source!r} is neither a file of records nor JSON: {error}") from None
        broken = error
    except RecordError as error:
        raise RecordError(f"{source!r}: {error}") from None
    for closed in _closed(text):
        try:
            return read_document(closed)
        except RecordError:
            continue
    raise RecordError(f"{source!r}: a cache file that cannot be read: {broken}")


def _closed(text: str) -> Iterator[str]:
    """Add the brackets to an unfinished cache file; at last remove its torn last line."""
    whole = text.rstrip().rstrip(",")
    yield whole + "}}"
    yield whole + "}"
    kept, newline, torn = whole.rpartition("\n")
    if newline:
        warnings.warn(
            f"the last line is torn (a write was cut short): skipped {torn[:40]!r}", RecordWarning, stacklevel=2
        )
        yield kept.rstrip().rstrip(",") + "}}"


def _t4(document: Mapping[str, Any], source: str) -> ResultsTable:
    results = document["results"]
    listed = list(results.values()) if isinstance(results, Mapping) else results
    metadata = _object(document.get("metadata"))
    unit = metadata.get("timeunit", KERNEL_TUNER_UNIT)
    entries = [_t4_entry(item, f"{source!r}, results[{place}]") for place, item in enumerate(listed)]
    return ResultsTable("T4", entries, unit, device=device_in(metadata))


def _t4_entry(item: Any, where: str) -> Entry:
    if not isinstance(item, Mapping) or not isinstance(item.get("configuration"), Mapping):
        raise RecordError(f"{where}: a result has an object 'configuration', {_found(item)}")
    times = _object(item.get("times"))
    measured = {
        str(one["name"]): (one.get("value"), one.get("unit"))
        for one in _list(item.get("measurements"))
        if isinstance(one, Mapping) and "name" in one
    }
    correctness = number(item.get("correctness", 1))
    return Entry(
        configuration=item["configuration"],
        measured=measured,
        runtimes=_list(times.get("runtimes")),
        state=item.get("invalidity"),
        correct=correctness is None or correctness > 0,
        spent={
            "compile": times.get("compilation_time", times.get("compilation")),
            "run": times.get("benchmark"),
            "check": times.get("validation"),
        },
        timestamp=item.get("timestamp"),
    )


_CACHE_TIMES = ("compile_time", "benchmark_time", "verification_time", "framework_time", "strategy_time")


def _cache(document: Mapping[str, Any], source: str) -> ResultsTable:
    parameters = _object(document.get("tune_params"))
    keys = _list(document.get("tune_params_keys")) or list(parameters)
    if not keys or not all(isinstance(key, str) for key in keys):
        raise RecordError(f"{source!r}: the cache file does not name its parameters: 'tune_params_keys' is missing")
    entries = [_cache_entry(key, line, keys, source) for key, line in document["cache"].items()]
    return ResultsTable(
        "Kernel Tuner cache",
        entries,
        parameters={key: _list(parameters.get(key)) for key in keys},
        kernel=str(document.get("kernel_name") or ""),
        device=str(document.get("device_name") or ""),
    )


def _cache_entry(key: str, line: Any, names: Sequence[str], source: str) -> Entry:
    if not isinstance(line, Mapping):
        raise RecordError(f"{source!r}: the cache has {line!r} at {key!r}, an object was expected")
    parts = key.split(",")
    spelt = dict(zip(names, parts, strict=True)) if len(parts) == len(names) else {}
    other = {*names, *_CACHE_TIMES, "times", "timestamp"}
    objective = line.get("time")
    return Entry(
        # Old files repeat the parameters in every line; where one is missing, the key has it.
        configuration={name: line.get(name, spelt.get(name)) for name in names},
        measured={name: (value, None) for name, value in line.items() if name not in other},
        runtimes=_list(line.get("times")),
        state=objective if isinstance(objective, str) and number(objective) is None else None,
        spent={
            "compile": line.get("compile_time"),
            "run": line.get("benchmark_time"),
            "check": line.get("verification_time"),
        },
        timestamp=line.get("timestamp"),
    )


def _ktt(document: Mapping[str, Any], source: str) -> ResultsTable:
    metadata = _object(document.get("Metadata"))
    listed = [item for item in document["Results"] if isinstance(item, Mapping)]
    return ResultsTable(
        "KTT",
        [_ktt_entry(item, metadata.get("TimeUnit"), f"{source!r}, Results[{n}]") for n, item in enumerate(listed)],
        unit=metadata.get("TimeUnit"),
        kernel=str(next((item["KernelName"] for item in listed if "KernelName" in item), "")),
        device=device_in(metadata),
    )


def _ktt_entry(item: Mapping[str, Any], unit: Any, where: str) -> Entry:
    runs = [run for run in _list(item.get("ComputationResults")) if isinstance(run, Mapping)]
    try:
        configuration = {str(parameter["Name"]): parameter["Value"] for parameter in item["Configuration"]}
    except (KeyError, TypeError) as error:
        raise RecordError(f"{where}: its 'Configuration' is not a list of names and values: {error}") from None
    return Entry(
        configuration=configuration,
        measured={"time": (item.get("TotalDuration"), unit)},
        state=item.get("Status"),
        spent={"compile": sum(number(run.get("Overhead")) or 0.0 for run in runs)},
    )


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _found(document: Any) -> str:
    if isinstance(document, Mapping):
        keys = ", ".join(map(repr, list(document)[:6])) or "no keys"
        return f"found an object with {keys}"
    return f"found {type(document).__name__} {str(document)[:40]!r}"
