"""The public callables: functions and classes that the packages name in `__all__`, and the classes' public methods."""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import GenericAlias, ModuleType
from typing import Any

ROOMS = (
    "pegbox",
    "pegbox.te",
    "pegbox.tir",
    "pegbox.tir.script",
    "pegbox.schedule.ir_builder",
    "pegbox.space",
    "pegbox.search",
    "pegbox.measure",
    "pegbox.records",
    "pegbox.operators",
    "pegbox.store",
    "pegbox.hooks",
    "pegbox.errors",
    "pegbox.codegen",
    "pegbox.features",
    "pegbox.comparison",
    "pegbox.plugins.sketch",
)
"""The packages that users import, but for `pegbox.testing`, whose classes are tests that pytest calls."""

_KEPT = {"__call__", "__getitem__", "__contains__"}


@dataclass(frozen=True)
class Name:
    """A callable: a function or a class (`owner` is None), or a method of instances of `owner`.

    `parameters` are those that can be replaced; `required` are those of them that a call must give.
    """

    room: str
    label: str
    function: Any
    owner: type | None
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    places: tuple[str, ...]  # parameters that are given by their place
    variadic: str | None = None

    def __str__(self) -> str:
        return f"{self.room}.{self.label}"


@functools.cache
def public_names() -> list[Name]:
    """Find the callables of all packages, each once."""
    return list(_all())


def _all() -> Iterator[Name]:
    seen: set[int] = set()
    for room in ROOMS:
        for label, value in _exports(importlib.import_module(room)):
            if id(value) in seen or not callable(value) or _is_type_only(value):
                continue
            seen.add(id(value))
            yield from (name for name in _of(room, label, value) if name.parameters)


def _exports(module: ModuleType) -> Iterator[tuple[str, Any]]:
    listed = getattr(module, "__all__", None)
    if listed is None:
        listed = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    for label in listed:
        if not label.startswith("_"):
            yield label, getattr(module, label)


def _is_type_only(value: Any) -> bool:
    """Decide if a value only describes others: a protocol, or an alias of types."""
    if isinstance(value, GenericAlias):  # a type, too, to Python 3.10
        return True
    return bool(getattr(value, "_is_protocol", False)) or not (isinstance(value, type) or inspect.isroutine(value))


def _of(room: str, label: str, value: Any) -> Iterator[Name]:
    if not isinstance(value, type):
        yield _name(room, label, value, None, inspect.signature(value))
        return
    if issubclass(value, BaseException | enum.Enum):
        return
    if not dataclasses.is_dataclass(value) or hasattr(value, "__post_init__"):  # else nothing of ours runs
        yield _name(room, label, value, None, inspect.signature(value.__init__), 1)
    for member in dir(value):
        if member.startswith("_") and member not in _KEPT:
            continue
        found = inspect.getattr_static(value, member)
        if isinstance(found, staticmethod | classmethod):
            function = getattr(value, member)
            yield _name(room, f"{label}.{member}", function, None, inspect.signature(function))
        elif inspect.isfunction(found) and found.__module__.startswith("pegbox"):
            yield _name(room, f"{label}.{member}", member, value, inspect.signature(found), 1)


def _name(
    room: str, label: str, function: Any, owner: type | None, signature: inspect.Signature, skip: int = 0
) -> Name:
    parameters = list(signature.parameters.values())[skip:]
    plain = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    several = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    by_place = [p.name for p in plain if p.kind is p.POSITIONAL_ONLY or (several and p.kind is not p.KEYWORD_ONLY)]
    return Name(
        room,
        label,
        function,
        owner,
        parameters=tuple([p.name for p in plain] + several),
        required=tuple([p.name for p in plain if p.default is p.empty] + several),
        places=tuple(by_place),
        variadic=several[0] if several else None,
    )


def bases(name: Name) -> list[str]:
    """List the classes under whose names a method's arguments may be known: its own first, then their bases."""
    first = name.label.split(".")[0]
    if name.owner is None:
        return [first]
    return list(dict.fromkeys([first, *(each.__name__ for each in name.owner.__mro__)]))
