"""Values in other tools' results files: numbers, units, and the ways to mark a failure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pegbox.measure import FailureKind

SENTINEL = 1e19
"""A time that no kernel reaches: Kernel Tuner writes 1e20 for configurations that did not run."""

_SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "millisecond", "milliseconds", "milisecond", "miliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1e-9),
}

# The enumeration of the T4 schema, Kernel Tuner's classes of errors, KTT's states. All others are INVALID.
_FAILURES = {
    **dict.fromkeys(("timeout", "timelimitexceeded"), FailureKind.TIMEOUT),
    **dict.fromkeys(("compile", "compilation", "compilationfailed"), FailureKind.COMPILE_ERROR),
    **dict.fromkeys(("compilationfailedconfig", "devicelimitsexceeded"), FailureKind.COMPILE_ERROR),
    **dict.fromkeys(("runtime", "runtimefailedconfig", "computationfailed", "errorconfig"), FailureKind.RUN_ERROR),
    **dict.fromkeys(("correctness", "validationfailed"), FailureKind.WRONG_RESULT),
}
_FINE = frozenset({"", "correct", "ok", "valid", "none"})


def number(value: Any) -> float | None:
    """Read a number or its text; None for anything else, including NaN and booleans."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(found) else found


def cost_number(value: Any) -> float | None:
    """Read a cost: finite, above 0, and not the sentinel of a failure; None for anything else."""
    found = number(value)
    return found if found is not None and 0.0 < found < SENTINEL else None


def failure_of(word: Any) -> FailureKind | None:
    """Return the kind of failure that a word names, None if it names success. Unknown words are failures, too."""
    text = str(word if word is not None else "").strip().lower().replace(" ", "").replace("_", "")
    return None if text in _FINE else _FAILURES.get(text, FailureKind.INVALID)


def seconds_in(unit: Any) -> float | None:
    """Return the seconds in a unit, None if it is not a known unit of time."""
    return _SECONDS.get(str(unit or "").strip().lower())


def plain_column(values: Iterable[Any]) -> list[Any]:
    """Unify the values of one parameter: "16" and 16.0 are 16 if all values are numbers."""
    listed = list(values)
    if all(value is None or isinstance(value, bool) or _finite(value) is not None for value in listed):
        return [value if value is None or isinstance(value, bool) else _finite(value) for value in listed]
    # JSON lacks infinities and NaN: they become text.
    return [str(value) if isinstance(value, float) and not math.isfinite(value) else value for value in listed]


def timestamp_of(text: Any) -> float:
    """Read seconds since the epoch, 0 if the text is not a time."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def _finite(value: Any) -> int | float | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = number(value)
    if found is None or not math.isfinite(found):
        return None
    return int(found) if found.is_integer() else found
