"""Calls of public names with one argument replaced by an odd value, and what is wrong with how they end."""

from __future__ import annotations

import contextlib
import inspect
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pegbox
from odd.given import EXEMPT, GIVEN, World
from odd.names import Name, bases
from pegbox.errors import PegboxError

LONGEST = 20
"""Seconds, with a wide margin, after which a call counts as one that hangs."""


_SOURCE = f"{Path(pegbox.__file__).parent}/"


class Missing(LookupError):
    """A name without an example of a valid argument."""


class Hangs(BaseException):
    """A call that takes too long."""


def is_exempt(name: Name) -> bool:
    """Decide if `EXEMPT` says why the callable is left out."""
    owner, _, method = name.label.partition(".")
    return name.label in EXEMPT or (bool(method) and f"{owner}." in EXEMPT)


def valid_arguments(name: Name, world: World) -> dict[str, Any]:
    """Give a value to each argument that is required, or that the call would be refused without."""
    found: dict[str, Any] = {}
    for parameter in name.parameters:
        keys = _keys(name, parameter)
        if parameter in name.required:
            keys += [*(f"{base}.{parameter}" for base in bases(name)), parameter]
        known = next((key for key in keys if key in GIVEN), None)
        if known is not None:
            found[parameter] = GIVEN[known](world)
        elif parameter in name.required:
            raise Missing(
                f"{name} is public, and no valid value of its argument {parameter!r} is known: add {keys[0]!r} to "
                "GIVEN in tests/helpers/odd/given.py"
            )
    return found


def _keys(name: Name, parameter: str) -> list[str]:
    member = name.label.split(".")[1:]
    return [".".join([base, *member, parameter]) for base in bases(name)]


def call(name: Name, world: World, arguments: dict[str, Any]) -> Any:
    """Call it, and go on with what is only begun by the call: a generator, a context manager."""
    instance = None if name.owner is None else _instance(name, world)
    function = name.function if instance is None else getattr(instance, name.function)
    named = dict(arguments)
    by_place = [named.pop(place) for place in name.places if place in named]
    several = named.pop(name.variadic, [])
    if not isinstance(several, list | tuple):
        several = [several]
    made = function(*by_place, *several, **named)
    if isinstance(made, contextlib.AbstractContextManager) and inspect.isgenerator(getattr(made, "gen", None)):
        with made:
            return None
    if inspect.isgenerator(made):
        list(islice(made, 3))
    return made


def _instance(name: Name, world: World) -> Any:
    for base in bases(name):
        if base in GIVEN:
            return GIVEN[base](world)
    label = name.label.split(".")[0]
    raise Missing(
        f"{name.room}.{label} is public, and no instance of it is known: add {label!r} to GIVEN in "
        "tests/helpers/odd/given.py"
    )


def fault(do: Callable[[], Any]) -> str:
    """Say what is wrong with how a call ends; empty text where it returns, or raises an error of pegbox's.

    A TypeError that Python raises because the function does not take such arguments is right too.
    """
    try:
        with _limit(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            do()
    except PegboxError as error:
        return "" if str(error) else f"{type(error).__name__} without a message"
    except Hangs:
        return f"takes more than {LONGEST} s"
    except (Exception, SystemExit) as error:
        places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
        ours = [place.partition(_SOURCE)[2] for place in places if _SOURCE in place]
        if isinstance(error, TypeError) and not ours:
            return ""
        return f"{traceback.format_exception_only(error)[-1].strip()[:160]} [{ours[-1] if ours else places[-1]}]"
    return ""


@contextlib.contextmanager
def _limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
