"""Factories of plugins: their options, read from text, and calls whose errors name the plugin and the line.

A factory's keyword-only parameters are its options, with types from their annotations and their defaults. Nothing is
declared twice.
"""

from __future__ import annotations

import contextlib
import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pegbox.checks import did_you_mean
from pegbox.errors import ArgumentError, PegboxError, PluginError
from pegbox.origin import explained, located
from pegbox.shown import value_text

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


@dataclass(frozen=True)
class Option:
    """A keyword option of a factory. `hint` is its type, `default` is `inspect.Parameter.empty` if it has none."""

    name: str
    hint: Any
    default: Any

    def __str__(self) -> str:
        shown = f"{self.name}: {_hint_name(self.hint)}"
        return shown if self.default is inspect.Parameter.empty else f"{shown} = {self.default!r}"


def signature_of(factory: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a factory.

    Raises:
        ArgumentError: it has none, like some built-in types.
    """
    try:
        return inspect.signature(factory)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{value_text(factory)} is not a factory: {error}; give a class or function") from None


def options_of(factory: Callable[..., Any], *, but: Collection[str] = (), leading: int = 1) -> dict[str, Option]:
    """Find the options that a factory takes by name, in the order of its signature, except those in `but`.

    The `leading` parameters are positional, like a tuner's space, and not options.
    """
    parameters = signature_of(factory).parameters
    hints = _hints(factory)
    found: dict[str, Option] = {}
    for place, parameter in enumerate(parameters.values()):
        by_place = parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and place >= leading
        if not (by_place or parameter.kind is inspect.Parameter.KEYWORD_ONLY) or parameter.name in but:
            continue
        plain = Any if parameter.default is None or parameter.default is parameter.empty else type(parameter.default)
        hint = hints.get(parameter.name, plain)
        found[parameter.name] = Option(parameter.name, hint, parameter.default)
    return found


def bind_options(
    owner: str,
    factory: Callable[..., Any],
    given: Mapping[str, object],
    *,
    but: Collection[str] = (),
    leading: int = 1,
) -> dict[str, Any]:
    """Check the names of `given`, and convert text to the types that `factory` declares.

    `owner` begins messages, e.g. "tuner 'xgb'". The factory itself checks values other than text. Raises
    `ArgumentError` that lists the valid options with their defaults.
    """
    known = options_of(factory, but=but, leading=leading)
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in inspect.signature(factory).parameters.values())
    bound: dict[str, object] = {}
    for name, value in given.items():
        if name not in known and (not open_ended or name in but):
            listed = "; ".join(map(str, known.values())) or "none"
            near = did_you_mean(name, known)
            unknown = f"{value_text(name)} (given {name}={value_text(value)})"
            raise ArgumentError(
                f"{owner} has no option {unknown}{f'{near} Its' if near else '; its'} options: {listed}"
            )
        hint = known[name].hint if name in known else Any
        bound[name] = _convert(owner, name, value, hint) if isinstance(value, str) else value
    return bound


def _hints(factory: Callable[..., Any]) -> dict[str, Any]:
    target = factory.__init__ if isinstance(factory, type) else factory  # type: ignore[misc]
    parameters = inspect.signature(factory).parameters
    known = {name: p.annotation for name, p in parameters.items() if not isinstance(p.annotation, str)}
    hints = {name: hint for name, hint in known.items() if hint is not inspect.Parameter.empty}
    # Some names exist for type checkers only: the types of the defaults are used then.
    with contextlib.suppress(NameError, TypeError):
        hints.update(typing.get_type_hints(target))
    return hints


def _hint_name(hint: Any) -> str:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):  # Python 3.10 turns one into the other
        return " | ".join(map(_hint_name, typing.get_args(hint)))
    if hint is types.NoneType:
        return "None"
    if typing.get_origin(hint) is not None:
        return str(hint).replace("typing.", "")
    return "any" if hint is Any else str(getattr(hint, "__name__", hint))


def _convert(owner: str, name: str, text: str, hint: Any) -> object:
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    for candidate in sorted(members, key=lambda member: member is str):  # str last, because it accepts anything
        try:
            return _as(text, candidate)
        except (ValueError, KeyError):
            continue
    words = "; write yes or no" if bool in members else ""
    raise ArgumentError(f"{owner}: cannot read {name}={text!r} as {_hint_name(hint)}{words}")


def _as(text: str, hint: Any) -> object:
    if hint is bool and text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    if hint in (int, float, str):
        return hint(text)
    if hint is type(None) and text.lower() == "none":
        return None
    if typing.get_origin(hint) is typing.Literal:
        return {str(value): value for value in reversed(typing.get_args(hint))}[text]
    if hint is not Any:
        raise ValueError(f"text cannot become {hint}")
    for kind in (int, float):  # an option without a declared type becomes a number if possible
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def construct(owner: str, factory: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Call the factory and return the object. `owner` begins the message of an error, e.g. "tuner 'xgb'".

    Raises `PluginError`, with the line of a user's code, for any error of the factory other than pegbox's own.
    """
    try:
        return factory(*args, **options)
    except ArgumentError as error:
        named = type(error)(f"{owner}: {error.message}")
        named.source = located(error).source  # a part's error has its line already
        raise named from error
    except PegboxError as error:
        located(error)
        raise
    except (Exception, SystemExit) as error:
        raise located(PluginError(f"{owner} raised {explained(error, 'when it was made')}"), error) from error
