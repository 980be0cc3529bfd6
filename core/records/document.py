"""JSON of unknown origin, limited to values that Python can hold, print and write again, and checks of its fields."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pegbox.checks import check_text
from pegbox.errors import RecordError
from pegbox.shown import escaped

DEEPEST = 100
"""The deepest nesting of lists and objects. Walks over them are recursive, and Python allows 1,000 nested calls."""


class NotJson(RecordError):
    """The text is not a JSON document: it is damaged or cut short."""


def read_document(text: str) -> Any:
    """Read the value of a JSON text.

    Raises:
        NotJson: it is not JSON.
        RecordError: it nests too deeply, or holds a number or a character that Python cannot handle.
    """
    check_text("a line of JSON", text, error=RecordError)
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise NotJson(str(error)) from None
    except UnicodeEncodeError:
        raise RecordError("it holds half of a character, an unpaired surrogate") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # an integer with more digits than Python converts
        raise RecordError(f"it holds a number that cannot be read: {error}") from None
    if text.count("[") + text.count("{") > DEEPEST and _depth(value) > DEEPEST:
        raise _too_deep()
    return value


def _too_deep() -> RecordError:
    return RecordError(f"it nests more than {DEEPEST} levels deep")


def _depth(value: Any) -> int:
    """Count the levels of lists and objects in a value, up to one too many."""
    level, depth = [value], 0
    while depth <= DEEPEST and (level := [item for item in level if isinstance(item, list | dict) and item]):
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
        depth += 1
    return depth


_RENAMED = {"waited": "run_queue_wait", "yardstick": "baseline"}


def with_new_names(form: Mapping[str, Any]) -> Mapping[str, Any]:
    """Rename the fields of an object that have other names in older files."""
    if _RENAMED.keys().isdisjoint(form):
        return form
    return {_RENAMED.get(name, name): value for name, value in form.items()}


MOST_SECONDS = 1e12
"""The longest time, small enough that sums of times stay finite."""

LEAST_COST = 1e-200
"""The lowest cost, large enough that ratios of costs stay finite."""

_T = TypeVar("_T")
_REQUIRED: Any = object()


def field(form: Mapping[str, Any], name: str, kind: type[_T], default: _T = _REQUIRED, *, kept: str = "") -> _T:
    """Read the value of a field, as `checked` does. Raises `KeyError` if it is missing, `ValueError` if it is wrong."""
    return checked(name, form[name] if default is _REQUIRED else form.get(name, default), kind, kept=kept)


def checked(name: str, value: Any, kind: type[_T], *, kept: str = "") -> _T:
    """Return the value, which must be of the type `kind`; escape control characters of text, except those in `kept`.

    Raises `ValueError`.
    """
    if type(value) is not kind:  # isinstance would take a bool for an int
        raise ValueError(
            f"{name} is {reprlib.repr(value)}, of the type {type(value).__name__} instead of {kind.__name__}"
        )
    return cast("_T", escaped(value, kept=kept)) if isinstance(value, str) else value


def seconds(name: str, value: Any) -> float:
    """Read a time, finite and 0 or more. Raises `ValueError`."""
    if type(value) not in (int, float) or not 0 <= value <= MOST_SECONDS:
        raise ValueError(f"{name} {reprlib.repr(value)}: a time is a number of seconds, finite and 0 or more")
    return float(value)


def costs(values: list[Any]) -> tuple[float, ...]:
    """Read one or more costs in seconds per call, finite and above 0. Raises `ValueError`."""
    if not values or not all(type(value) in (int, float) and LEAST_COST <= value <= MOST_SECONDS for value in values):
        shown = reprlib.repr(values)
        raise ValueError(f"costs {shown}: a trial without an error has one or more costs, finite and above 0")
    return tuple(map(float, values))


def workload(value: Any) -> list[Any]:
    """Read a name with arguments by name. Raises `ValueError`."""
    match value:
        case [str(), dict()]:
            return list(value)
    raise ValueError(f"workload {reprlib.repr(value)}: a name and an object of arguments were expected")


def config(value: Any) -> dict[str, Any]:
    """Read a configuration: its index, and the choice of each knob as name, kind and value. Raises `ValueError`."""
    form = checked("config", value, dict)
    checked("the config's index", form.get("index", 0), int)
    for entity in checked("the config's entity", form.get("entity", []), list):
        match entity:
            case [str(), str(), _]:
                continue
        raise ValueError(f"the config has {reprlib.repr(entity)} for a knob: its name, kind and value were expected")
    return form
