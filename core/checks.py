"""Checks of arguments at public entry points; an error shows the name, the value and the valid values.

`error` is the error class to raise. Conversions are few: numbers of NumPy become Python's, text of a duration becomes
seconds.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from pegbox.errors import ArgumentError, PegboxError, UnknownArgument
from pegbox.shown import value_text

_Kind = TypeVar("_Kind")
_Called = TypeVar("_Called", bound=Callable[..., object])

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_NAME = 255  # bytes in a file's name that systems accept
_PART = r"(\d+(?:\.\d+)?)([smh]?)"
DURATIONS = "90, 90s, 1.5m, 2h or 1m30s"
"""The forms of durations, for messages."""


def check_int(
    name: str,
    value: object,
    *,
    minimum: int = 1,
    maximum: int | None = None,
    error: type[PegboxError] = ArgumentError,
) -> int:
    """Return `value` as an int within the bounds, both included; raise `error` otherwise."""
    wanted = (
        f"an integer >= {minimum}" if maximum is None else f"an integer from {_bound(minimum)} to {_bound(maximum)}"
    )
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise error(f"{name}={value_text(value)} is not an integer; give {wanted}")
    try:
        number = int(value.__index__())
    except TypeError:  # an array has __index__, but it fails unless the array holds one number
        raise error(f"{name}={value_text(value)} is not an integer; give {wanted}") from None
    if number < minimum or (maximum is not None and number > maximum):
        raise error(f"{name}={value_text(value)} is out of range; give {wanted}")
    return number


def _bound(number: int) -> str:
    """Write a bound, a huge one as a power of ten."""
    return f"{number:.0e}" if 1e20 < abs(number) < 1e308 else value_text(number)


def check_float(
    name: str,
    value: object,
    *,
    minimum: float = 0.0,
    maximum: float = math.inf,
    error: type[PegboxError] = ArgumentError,
) -> float:
    """Return `value` as a finite float within the bounds, both included; raise `error` otherwise."""
    wanted = f"a number >= {minimum:g}" if maximum == math.inf else f"a number from {minimum:g} to {maximum:g}"
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise error(f"{name}={value_text(value)} is not a number; give {wanted}")
    try:
        number = float(value.__float__())
    except (TypeError, ValueError, OverflowError):  # arrays of several, or of text; integers of hundreds of digits
        raise error(f"{name}={value_text(value)} is not a number; give {wanted}") from None
    if not math.isfinite(number) or not minimum <= number <= maximum:
        raise error(f"{name}={value_text(value)} is out of range; give {wanted}")
    return number


def check_cost(name: str, value: object) -> float:
    """Return `value` as a cost in seconds, infinite if nothing valid was measured; raise `ArgumentError` otherwise."""
    return math.inf if isinstance(value, float) and value == math.inf else check_float(name, value)


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Return `value` when it is one of `choices`; raise `ArgumentError` otherwise."""
    if isinstance(value, str) and value in choices:
        return value
    raise ArgumentError(f"{name}={value_text(value)} is not valid; choose from {', '.join(map(repr, choices))}")


def check_text(name: str, value: object, *, error: type[PegboxError] = ArgumentError) -> str:
    """Return `value` when it is text; raise `error` otherwise."""
    if isinstance(value, str):
        return value
    raise error(f"{name}={value_text(value)} is not text; give a string")


def check_flag(name: str, value: object, *, error: type[PegboxError] = ArgumentError) -> bool:
    """Return `value` as True or False; raise `error` for anything else, such as an array of several numbers."""
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise error(f"{name}={value_text(value)} is neither true nor false; give True or False") from None


def check_instance(
    name: str, value: object, kind: type[_Kind], wanted: str, *, error: type[PegboxError] = ArgumentError
) -> _Kind:
    """Return `value` when it is of the type; raise `error` otherwise. `wanted` ends the message: "give <wanted>"."""
    if isinstance(value, kind):
        return value
    raise error(f"{name}={value_text(value)} is of the type {type(value).__name__}; give {wanted}")


def check_list(
    name: str,
    value: object,
    wanted: str,
    *,
    error: type[PegboxError] = ArgumentError,
    of: type | tuple[type, ...] = object,
) -> list[Any]:
    """List the members of a list, tuple or other iterable, all of the types `of`; raise `error` otherwise.

    Text is refused: a list of its letters is never meant. `wanted` ends the message: "give <wanted>".
    """
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise error(f"{name}={value_text(value)} is not a list; give {wanted}")
    try:
        members = list(value)
    except TypeError:  # an array without axes has __iter__, but it fails
        raise error(f"{name}={value_text(value)} is not a list; give {wanted}") from None
    for place, member in enumerate(members):
        if not isinstance(member, of):
            raise error(f"{name}: {value_text(member)} is at place {place} of the list; give {wanted}")
    return members


def check_array(what: str, value: object, shape: tuple[int, ...], dtype: str) -> None:
    """Raise ArgumentError where `value` is not an array of this shape and dtype; `what` begins the message."""
    given = getattr(value, "shape", None), str(getattr(value, "dtype", ""))
    if given != (shape, dtype):
        found = f"a {type(value).__name__}" if given[0] is None else f"{given[1]} of shape {given[0]}"
        raise ArgumentError(f"{what} {dtype} of shape {shape}, got {found}")


def check_mapping(name: str, value: object, wanted: str, *, error: type[PegboxError] = ArgumentError) -> dict[str, Any]:
    """Return `value` as a dict with keys of text; raise `error` otherwise, whose message ends with `wanted`."""
    if not isinstance(value, Mapping):
        raise error(f"{name}={value_text(value)} is not a mapping; give {wanted}")
    for key in value:
        if not isinstance(key, str):
            raise error(f"{name}: the key {value_text(key)} is not text; give {wanted}")
    return dict(value)


def check_callable(
    name: str,
    value: _Called,
    wanted: str,
    *,
    error: type[PegboxError] = ArgumentError,
    arguments: int | None = None,
) -> _Called:
    """Return `value` when it can be called, with that many arguments; raise `error` otherwise.

    `wanted` ends the message: "give <wanted>".
    """
    if not callable(value):
        raise error(f"{name}={value_text(value)} cannot be called; give {wanted}")
    if arguments is not None:
        try:
            inspect.signature(value).bind(*range(arguments))
        except TypeError as why:
            raise error(f"{name}={value_text(value)}: {why}; give {wanted}") from None
        except ValueError:  # a function of a C library may have no signature
            pass
    return value


def check_path(name: str, value: object, *, error: type[PegboxError] = ArgumentError) -> Path:
    """Return `value` as a path; raise `error` if it is neither text nor a path, or is empty."""
    raw = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(raw, str) and raw and "\0" not in raw:
        try:
            longest = max(len(os.fsencode(part)) for part in Path(raw).parts or ("",))
        except UnicodeEncodeError:  # half of a surrogate pair
            longest = _LONGEST_NAME + 1
        if longest <= _LONGEST_NAME:
            return Path(raw)
    raise error(f"{name}={value_text(value)} is not a path; give a file's name as text or as a pathlib.Path")


def check_seconds(name: str, value: object) -> float:
    """Read seconds, at least 0, from a number, or from text as `read_seconds` does; raise `ArgumentError` otherwise."""
    seconds = read_seconds(value) if isinstance(value, str) else value
    if seconds is None or isinstance(seconds, bool) or not hasattr(seconds, "__float__"):
        raise ArgumentError(f"{name}={value_text(value)} is not a time; give seconds, or text such as {DURATIONS}")
    return check_float(name, seconds)


def read_seconds(text: str) -> float | None:
    """Read seconds from "90", "90s", "1.5m", "2h" or "1m30s"; None for other text."""
    if not re.fullmatch(f"(?:{_PART})+", text.strip()):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))


def check_keywords(function: Callable[..., Any], given: Iterable[str]) -> None:
    """Raise `UnknownArgument` for the first name that is not a parameter of the function or bound method."""
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name in given:
        if name not in parameters:
            owner = getattr(function, "__name__", repr(function))
            raise UnknownArgument(f"{owner} has no argument {name!r}{near_names(name, parameters)}")


def with_checked_keywords(function: _Called) -> _Called:
    """Decorate a function so that a misspelt argument raises `UnknownArgument`, which names similar ones."""

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except TypeError:
            check_keywords(function, options)
            raise

    return cast("_Called", called)


def nearest(name: object, known: Iterable[str]) -> list[str]:
    """Find the names that are most like `name`, at most three, nearest first."""
    text = name if isinstance(name, str) else value_text(name)
    import difflib  # needed only for errors

    return difflib.get_close_matches(text, list(dict.fromkeys(known)), n=3)


def did_you_mean(name: object, known: Iterable[str], *, shown: Callable[[str], str] = repr) -> str:
    """Write "; did you mean 'x'?", or nothing if no name is near. `shown` writes a name, by default in quotes."""
    close = nearest(name, known)
    return f"; did you mean {' or '.join(map(shown, close))}?" if close else ""


def near_names(name: object, known: Iterable[str]) -> str:
    """Write "; did you mean 'x'?" and the whole list: the last part of an error about an unknown name."""
    names = list(known)
    hint = did_you_mean(name, names)
    listing = ", ".join(names) if names else "none"
    return f"{hint} (known: {listing})"
