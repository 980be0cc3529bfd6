"""Checks of the argument types of a primitive against its signature.

The checks are made from the annotations, once for each primitive; a call costs microseconds. An annotation that cannot
be tested accepts anything, and the primitive itself has to check the argument.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Union

import numpy as np

from pegbox.errors import ScheduleError
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Expr
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.shown import value_text

_Test = Callable[[Any], bool]

_WORDS: dict[type, str] = {
    LoopRef: "a loop (from get_loops, or returned by a primitive)",
    BlockRef: "a block (from get_block, or its name)",
    Expr: "an expression",
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "True or False",
}


class Signature:
    """The parameters of a primitive: their names, defaults and tests."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        own = list(inspect.signature(method).parameters.values())[1:]
        self.names = [p.name for p in own if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.rest = next((p.name for p in own if p.kind is p.VAR_POSITIONAL), None)
        self.defaults = {p.name: p.default for p in own if p.default is not p.empty}
        self._hints: dict[str, Any] | None = None
        self._tests: dict[str, _Test] = {}

    def check(self, args: Sequence[Any], options: Mapping[str, Any]) -> None:
        """Check that each argument has the type that its parameter declares."""
        if self._hints is None:
            self._hints = _hints(self.method)
            self._tests = {name: _test(hint) for name, hint in self._hints.items()}
        for name, value in self.named(args, options):
            test = self._tests.get(name)
            if test is not None and not test(value):
                words = _words(self._hints[name])
                raise ScheduleError(f"{name} = {value_text(value)} is not {words}", f"give {words}")

    def named(self, args: Sequence[Any], options: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
        """Yield each argument with the name of its parameter."""
        count = len(self.names)
        yield from zip(self.names, args, strict=False)
        if self.rest is not None:
            yield from ((self.rest, value) for value in args[count:])
        yield from options.items()


def _hints(method: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(method)
    except NameError:  # a name that only type checkers import
        return {}


def _test(hint: Any) -> _Test:
    if hint is Any or hint is object or isinstance(hint, typing.TypeVar):
        return lambda value: True
    if hint is None or hint is type(None):
        return lambda value: value is None
    if hint in (int, float):
        return lambda value: (hint is float and isinstance(value, float)) or integer(value) is not None
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and origin is None:
        return lambda value: isinstance(value, hint)
    if origin in (Union, types.UnionType):
        tests = [_test(a) for a in args]
        return lambda value: any(test(value) for test in tests)
    if origin is typing.Literal:
        return lambda value: value in args
    if origin is Callable:
        return callable
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return _test_sequence(args)
    if isinstance(origin, type):
        return lambda value: isinstance(value, origin)
    return lambda value: True


def _test_sequence(args: tuple[Any, ...]) -> _Test:
    parts = {a for a in args if a is not Ellipsis}
    each = _test(parts.pop()) if len(parts) == 1 else _test(Any)

    def test(value: Any) -> bool:
        sequence = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return (sequence or isinstance(value, np.ndarray)) and _all(each, value)

    return test


def _all(test: _Test, values: Any) -> bool:
    try:
        return all(map(test, values))
    except TypeError:  # an array without axes cannot be iterated
        return False


@cache
def _words(hint: Any) -> str:
    """Return a type in words."""
    if hint in _WORDS:
        return _WORDS[hint]
    if hint is None or hint is type(None):
        return "None"
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        parts = dict.fromkeys(map(_words, args))
        if BlockRef in args and str in args:
            del parts[_WORDS[str]]
        *some, last = parts
        return f"{', '.join(some)} or {last}" if some else last
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        each = list(dict.fromkeys(_words(a) for a in args if a not in (Ellipsis, Any)))
        return f"a list, each entry {' or '.join(each)}" if each else "a list"
    return getattr(hint, "__name__", str(hint))
