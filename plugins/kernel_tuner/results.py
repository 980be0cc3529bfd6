"""The conversion of a table's entries to results: objective, unit, failures."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from pegbox.errors import RecordError
from pegbox.measure import Failed, FailureKind, Ok, Result
from pegbox.plugins.kernel_tuner.formats import KERNEL_TUNER_UNIT, Entry, ResultsTable
from pegbox.plugins.kernel_tuner.values import SENTINEL, cost_number, failure_of, number, seconds_in, timestamp_of
from pegbox.records import RecordWarning

TIMES = ("time", "runtime", "duration", "kernel_time")
"""The names of a kernel's time; the first one in a file is the objective."""

_GFLOPS = "gflop/s"
_FLOP_SPREAD = 0.01


class Results:
    """The conversion of a table's entries to results for one objective.

    The cost of a rate ("GFLOP/s", "GB/s") is its reciprocal. `flop` is the work of one call, if the file has times and
    GFLOP/s that agree on it.

    Raises:
        RecordError: there is no such objective, or a value is not above 0.
    """

    def __init__(self, table: ResultsTable, source: str, objective: str | None) -> None:
        self.table, self.source = table, source
        self.objective = _objective(table, source, objective)
        self.is_time = self.objective.lower() in TIMES
        self.is_rate = self.objective.lower().endswith("/s")
        self._check_units()
        self.unit = seconds_in(table.unit) or seconds_in(KERNEL_TUNER_UNIT) or 1.0
        self._check_positive()
        self.flop = self._flop()

    def of(self, entry: Entry) -> Result:
        spent = {phase: (cost_number(value) or 0.0) * self.unit for phase, value in entry.spent.items()}
        value, unit = self._measured(entry)
        costs = self._costs(value, unit, entry.runtimes)
        kind = failure_of(entry.state) or _failure_in(value)
        if kind is None and not entry.correct:
            kind = FailureKind.WRONG_RESULT
        elif kind is None and not costs:
            kind = FailureKind.RUN_ERROR
        if kind is None and not spent.get("run") and self.is_time:
            spent["run"] = sum(costs)
        phases = {phase: seconds for phase, seconds in spent.items() if seconds}
        total, timestamp = sum(phases.values()), timestamp_of(entry.timestamp)
        if kind is None:
            return Ok(costs, total, timestamp, phases)
        said = f", {entry.state}" if failure_of(entry.state) is not None and entry.state != value else ""
        message = f"{self.table.format} says {self.objective} = {value!r}{said}"
        return Failed(kind, message, total, timestamp, phases)

    def _measured(self, entry: Entry) -> tuple[Any, Any]:
        return entry.measured.get(self.objective, (None, None))

    def _costs(self, value: Any, unit: Any, runtimes: Sequence[Any]) -> tuple[float, ...]:
        found, repeats = _costs_in(value), _costs_in(runtimes)
        # Repeats whose median differs from the value belong to something else: an earlier run, or another unit.
        if self.is_time and repeats and (not found or min(repeats) <= statistics.fmean(found) <= max(repeats)):
            found = repeats
        if self.is_rate:
            per_second = 1e9 if self.objective.lower() == _GFLOPS else 1.0
            return tuple(1.0 / (one * per_second) for one in found)
        scale = seconds_in(unit) or (self.unit if self.is_time else 1.0)
        return tuple(one * scale for one in found)

    def _flop(self) -> float:
        if not self.is_time:
            return 1.0 if self.objective.lower() == _GFLOPS else 0.0  # the cost is then seconds per operation
        found = [flop for entry in self.table.entries for flop in self._flop_of(entry)]
        middle = statistics.median(found) if found else 0.0
        return middle if all(abs(flop - middle) <= _FLOP_SPREAD * middle for flop in found) else 0.0

    def _flop_of(self, entry: Entry) -> Iterator[float]:
        value, unit = self._measured(entry)
        rate = next((rate for name, (rate, _) in entry.measured.items() if name.lower() == _GFLOPS), None)
        time, speed = cost_number(value), cost_number(rate)
        if time is not None and speed is not None:
            yield time * (seconds_in(unit) or self.unit) * speed * 1e9

    def _check_units(self) -> None:
        said = [self.table.unit, *(self._measured(entry)[1] for entry in self.table.entries if self.is_time)]
        for unit in dict.fromkeys(str(unit) for unit in said if unit and seconds_in(unit) is None):
            message = (
                f"{self.source!r}: times in {unit!r}, which is not a known unit of time; taken as {KERNEL_TUNER_UNIT}"
            )
            warnings.warn(message, RecordWarning, stacklevel=5)

    def _check_positive(self) -> None:
        """Refuse other quantities that are not above 0; a time of 0 means "not measured"."""
        values = [self._measured(entry)[0] for entry in self.table.entries if failure_of(entry.state) is None]
        bad = [value for value in values if (found := number(value)) is not None and found <= 0]
        if bad and not self.is_time:
            raise RecordError(
                f"{self.source!r}: {self.objective!r} is not above 0 in {len(bad)} of {len(values)} "
                f"configurations ({bad[0]!r} in the first); the minimised quantity must be above 0, as seconds are"
            )


def _objective(table: ResultsTable, source: str, wanted: str | None) -> str:
    """Find the name of the objective. Raises `RecordError`, with a list of the measured quantities, without one."""
    names = dict.fromkeys(name for entry in table.entries for name in entry.measured)
    if wanted is not None and wanted in names:
        return wanted
    by_lower = {name.lower(): name for name in reversed(list(names))}
    times = [by_lower[name] for name in TIMES if name in by_lower]
    if wanted is None and times:
        return times[0]
    if any(entry.runtimes for entry in table.entries) and wanted in (None, TIMES[0]):
        return TIMES[0]
    numeric = dict.fromkeys(
        name for entry in table.entries for name, (value, _) in entry.measured.items() if number(value) is not None
    )
    has = ", ".join(numeric) or "nothing"
    if wanted is not None:
        raise RecordError(f"{source!r} measured nothing called {wanted!r}; it has {has}")
    offer = f"; say what to minimise: objective={next(iter(numeric))!r}" if numeric else ""
    raise RecordError(f"{source!r} has no objective called time; it measured {has}{offer}")


def _costs_in(value: Any) -> list[float]:
    listed = value if isinstance(value, list) else [value]
    return [cost for cost in map(cost_number, listed) if cost is not None]


def _failure_in(value: Any) -> FailureKind | None:
    """Return the failure that a value means: a word, or the sentinel."""
    found = number(value)
    if found is not None:
        return FailureKind.INVALID if SENTINEL <= found < float("inf") else None
    return failure_of(value) if isinstance(value, str) and value.lower() != "nan" else None
