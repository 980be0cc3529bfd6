"""Foreign code that programs call: C as source text or a library, kept in attributes of a function, and Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pegbox.checks import check_callable, check_list, check_path
from pegbox.errors import ArgumentError
from pegbox.expr.low_level import Address, call_extern
from pegbox.expr.nodes import Call
from pegbox.loops.nodes import Function
from pegbox.shown import value_text

IMPORT_C = "import_c"
IMPORT_LIBRARY = "import_library"


@dataclass(frozen=True, slots=True)
class CSource:
    """A C text, or a C++ text with `extern "C"` functions; the system's compiler compiles it on demand."""

    text: str


@dataclass(frozen=True, slots=True)
class CLibrary:
    """An existing shared library."""

    path: str


ForeignCode: TypeAlias = CSource | CLibrary


def c_source(text: str) -> CSource:
    """Return a C text with the functions that `call_extern` calls.

    Raises:
        ArgumentError: it is not text.
    """
    if not isinstance(text, str) or not text.strip():
        raise ArgumentError(f"c_source({value_text(text)}): give the text of C functions")
    return CSource(text)


def c_library(path: str | os.PathLike[str]) -> CLibrary:
    """Return a shared library with the functions that `call_extern` calls.

    Raises:
        ArgumentError: there is no such file.
    """
    found = os.path.abspath(check_path("c_library: path", path))
    if not os.path.isfile(found):
        raise ArgumentError(f"c_library({os.fspath(path)!r}): there is no such file; compile it first, or use c_source")
    return CLibrary(found)


def code_of(func: Function) -> tuple[ForeignCode, ...]:
    """Return the C code that a function calls."""
    sources: Iterable[str] = func.attrs.get(IMPORT_C, ())
    libraries: Iterable[str] = func.attrs.get(IMPORT_LIBRARY, ())
    return (*map(CSource, sources), *map(CLibrary, libraries))


def foreign_code(code: ForeignCode | Iterable[ForeignCode]) -> tuple[ForeignCode, ...]:
    """List the C code that an argument means: one piece, or several.

    Raises:
        ArgumentError: it is neither.
    """
    if isinstance(code, CSource | CLibrary):
        return (code,)
    wanted = "what tir.c_source or tir.c_library makes, or a list of these"
    return tuple(check_list("code", code, wanted, of=(CSource, CLibrary)))


def with_code(func: Function, code: Iterable[ForeignCode]) -> Function:
    """Return the function with more C code, without repeating code that it has."""
    wanted = dict.fromkeys((*code_of(func), *foreign_code(code)))
    attrs = {k: v for k, v in func.attrs.items() if k not in (IMPORT_C, IMPORT_LIBRARY)}
    if sources := tuple(c.text for c in wanted if isinstance(c, CSource)):
        attrs[IMPORT_C] = sources
    if libraries := tuple(c.path for c in wanted if isinstance(c, CLibrary)):
        attrs[IMPORT_LIBRARY] = libraries
    return func if attrs == func.attrs else replace(func, attrs=attrs)


PREFIX = "pegbox_python_"
"""The prefix of Python functions' names as C functions."""


@dataclass(frozen=True)
class PythonFunction:
    """A Python function of an array for each operand, of its (shape, dtype); it writes those that it changes."""

    function: Callable[..., Any]
    operands: tuple[tuple[tuple[int, ...], str], ...]


_functions: dict[str, PythonFunction] = {}


def call_python(function: Callable[..., Any], operands: Sequence[Address]) -> Call:
    """Make a call of a Python function on the arrays of pointers. It works only in this process.

    Raises:
        ArgumentError: it is not a function.
    """
    check_callable("call_python: function", function, "a function of arrays")
    symbol = f"{PREFIX}{len(_functions)}"
    _functions[symbol] = PythonFunction(function, tuple((at.extents, at.buffer.dtype) for at in operands))
    return call_extern("int32", symbol, *operands)


def python_function(symbol: str) -> PythonFunction | None:
    """Return the function with a given name in this process."""
    return _functions.get(symbol)
