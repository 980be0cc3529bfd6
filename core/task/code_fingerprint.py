"""Fingerprints of code, which show that a template's function is still the one that was measured."""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from types import CodeType, FunctionType, ModuleType

import numpy as np

_MAKERS = ("__init__", "__new__", "__post_init__", "__setstate__")
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(...))


def code_fingerprint(function: object) -> str:
    """Compute a fingerprint of a function's code, as "cpython-312:9f2c5a..."; empty if it is not written in Python.

    It covers the bytecode of the function, and of all functions and classes that it reaches in files of its folder,
    also through `functools.partial`, instances and tables of functions. It covers the constants that they use,
    including arrays, members of enumerations and attributes of instances of these classes; lists and mappings are
    constants if their NAMES are in capitals. Comments, formatting, the names of local variables, the function's
    docstring, and variables and attributes that it assigns itself don't count. Bytecode depends on the version of
    Python and on `-O`, so that the fingerprint begins with these: see `differ`.
    """
    plain = inspect.unwrap(function) if callable(function) else function
    if not isinstance(plain, FunctionType):
        return ""
    digest = hashlib.sha256()
    for part in _Reach(plain).parts():
        digest.update(part.encode())
        digest.update(b"\n")
    optimized = f"-O{sys.flags.optimize}" if sys.flags.optimize else ""
    return f"{sys.implementation.cache_tag}{optimized}:{digest.hexdigest()[:32]}"


def differ(one: str, other: str) -> bool:
    """Decide if two fingerprints show different code; False if one is unknown, or comes from another Python."""
    return one != other and one.partition(":")[0] == other.partition(":")[0]


class _Reach:
    """A walk over the values that a function reaches, in the order in which it names them."""

    def __init__(self, function: FunctionType) -> None:
        self._first = function
        self._module = function.__module__
        self._folder = _folder(function.__code__.co_filename)
        self._seen: set[int] = set()
        self._assigned: set[str] = set()  # attributes that the functions so far assign

    def parts(self) -> Iterator[str]:
        """Yield text for each piece of code and each constant."""
        pending: list[tuple[str, object]] = [("", self._first)]
        while pending:
            name, value = pending.pop(0)
            if id(value) in self._seen and not isinstance(value, _CONSTANTS):
                continue
            self._seen.add(id(value))
            value = inspect.unwrap(value) if callable(value) else value
            if isinstance(value, FunctionType) and self._is_near(value.__code__.co_filename, value.__module__):
                yield f"def {name} {_text_of_code(value.__code__, value.__doc__)}"
                self._assigned |= _attributes_assigned_by(value)
                pending += [*_values_of(value)]
            elif isinstance(value, type) and self._is_near(_file_of(value.__module__), value.__module__):
                yield f"class {name}"
                pending += [
                    (f"{name}.{key}", member)
                    for key, member in _functions_of(vars(value))
                    if isinstance(member, FunctionType) or not key.startswith("__")
                ]
            elif isinstance(value, functools.partial):
                pending += [(name, value.func), (name, value.args)]
                pending += [(f"{name}.{key}", given) for key, given in value.keywords.items()]
            elif isinstance(value, list | set | Mapping) and not name.rpartition(".")[2].isupper():
                continue  # state rather than a constant: a log of calls, not TILES = [4, 8]
            elif (text := _text_of_constant(value)) is not None:
                yield f"{name} = {text}"
                pending += self._inside(name, value) if isinstance(value, Enum) else []
            else:
                pending += self._inside(name, value)

    def _inside(self, name: str, value: object) -> list[tuple[str, object]]:
        """List the values inside a container, or inside an instance of a class in the function's folder."""
        match value:
            case Mapping():
                return [(f"{name}[{_text_of_constant(key)}]", item) for key, item in value.items()]
            case list() | tuple():
                return [(name, item) for item in value]
        kind = type(value)
        if not self._is_near(_file_of(kind.__module__), kind.__module__):
            return []
        return [(name, kind), *((f"{name}.{key}", item) for key, item in self._attributes(value))]

    def _attributes(self, value: object) -> Iterator[tuple[str, object]]:
        """Yield an instance's attributes, except state: those that functions assign after it was made."""
        if isinstance(value, Enum):
            return
        kinds = [kind for kind in type(value).__mro__ if self._is_near(_file_of(kind.__module__), kind.__module__)]
        members = {name: member for kind in kinds for name, member in vars(kind).items()}
        assigned = self._assigned.union(*(_attributes_assigned_by(member) for _, member in _functions_of(members)))
        slots = [name for name, member in members.items() if inspect.ismemberdescriptor(member)]
        for name in sorted({*getattr(value, "__dict__", ()), *slots} - assigned):
            if not isinstance(members.get(name), functools.cached_property) and hasattr(value, name):
                yield name, getattr(value, name)

    def _is_near(self, path: str, module: str) -> bool:
        return module == self._module or (bool(self._folder) and _folder(path) == self._folder)


def _values_of(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the values that a function has and names: defaults, closure, globals, attributes of modules."""
    yield from ((f"default {number}", value) for number, value in enumerate(function.__defaults__ or ()))
    yield from sorted((function.__kwdefaults__ or {}).items())
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    # Names such as __name__ and __file__ say where the code is, not what it does.
    own = set(_assigned_by(function.__code__, "STORE_GLOBAL"))
    names = [n for n in dict.fromkeys(_names_of(function.__code__)) if not n.startswith("__") and n not in own]
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            yield from (
                (f"{name}.{attribute}", vars(value)[attribute]) for attribute in names if attribute in vars(value)
            )
        elif name in function.__globals__:
            yield name, value


def _names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names_of(const)


def _assigned_by(code: CodeType, operation: str) -> Iterator[str]:
    """Yield the names that code assigns with an operation: STORE_GLOBAL global variables, STORE_ATTR attributes."""
    wanted, number = dis.opmap[operation], 0
    for opcode, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):  # `dis` itself takes ten times as long
        number = number << 8 | low
        if opcode == wanted:
            yield code.co_names[number]
        if opcode != dis.EXTENDED_ARG:
            number = 0
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _assigned_by(const, operation)


def _attributes_assigned_by(function: object) -> set[str]:
    """List the attributes that a function assigns; none for a method that makes instances."""
    if not isinstance(function, FunctionType) or function.__name__ in _MAKERS:
        return set()
    return set(_assigned_by(function.__code__, "STORE_ATTR"))


def _text_of_code(code: CodeType, doc: str | None = None) -> str:
    consts = [
        _text_of_code(const) if isinstance(const, CodeType) else _text_of_constant(const)
        for const in code.co_consts
        if const is not None and const != doc
    ]
    return f"{code.co_code.hex()} {code.co_names} {consts}"


def _text_of_constant(value: object) -> str | None:
    """Write a constant as Python text, the same in every process; None for other values."""
    parts: list[str | None]
    match value:
        case Enum():
            return f"{type(value).__qualname__}.{value.name} = {_text_of_constant(value.value)}"
        case np.ndarray() | np.generic() if not value.dtype.hasobject:
            return f"{value.dtype.str}{value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
        case tuple() | list():
            parts = [*map(_text_of_constant, value)]
        case set() | frozenset():
            parts = [*sorted(map(repr, value))] if all(isinstance(item, _CONSTANTS) for item in value) else [None]
        case Mapping():
            parts = [_text_of_constant(item) for pair in value.items() for item in pair]
        case _:
            return repr(value) if isinstance(value, _CONSTANTS) else None
    return None if None in parts else f"{type(value).__name__}({', '.join(map(str, parts))})"


def _functions_of(members: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the members of a class, with the functions behind methods, properties and cached properties."""
    for name, member in sorted(members.items()):
        match member:
            case property():
                yield name, member.fget
            case functools.cached_property():
                yield name, member.func
            case _:
                yield name, getattr(member, "__func__", member)


def _folder(path: str) -> str:
    """Return a file's folder, resolved, so that "./ops.py" and "ops.py" agree; empty if there is no file."""
    return os.path.dirname(os.path.realpath(path)) if path and not path.startswith("<") else ""


def _file_of(module: str) -> str:
    return str(getattr(sys.modules.get(module), "__file__", None) or "")
