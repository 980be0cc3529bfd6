"""The names that scripts import as `T`; they have a meaning inside scripts only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, overload

from pegbox.loops.nodes import Function
from pegbox.loops.script.functions import read_function
from pegbox.loops.script.words import WORDS, unknown


@overload
def prim_func(python: Callable[..., Any]) -> Function: ...


@overload
def prim_func(*, name: str | None = None, private: bool = False) -> Callable[[Callable[..., Any]], Function]: ...


def prim_func(python: Any = None, *, name: str | None = None, private: bool = False) -> Any:
    """Read the function's text as a program; the function itself never runs.

    Args:
        name: the program's name, if it cannot be the Python function's.
        private: True for a program that is not meant to be called from outside; kept as an attribute.

    Raises:
        ScriptError: the text is not in the dialect; the error shows file, line and column.
    """
    around = _names_around(sys._getframe(1))
    if python is None:
        return lambda given: read_function(given, {**around, **_cells(given)}, name=name, private=private)
    return read_function(python, {**around, **_cells(python)}, name=name, private=private)


def _names_around(frame: FrameType) -> Mapping[str, Any]:
    """Return the names visible to the decorated function, from its module and the functions and classes around it."""
    names: dict[str, Any] = {}
    here: FrameType | None = frame
    while here is not None and here.f_globals is frame.f_globals and here.f_locals is not here.f_globals:
        names = {**here.f_locals, **names}
        here = here.f_back if "__qualname__" in here.f_locals else None
    return {**frame.f_globals, **names}


def _cells(python: Any) -> Mapping[str, Any]:
    """Return the values in the function's closure."""
    cells = zip(python.__code__.co_freevars, python.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def __getattr__(name: str) -> Any:
    if name in WORDS:
        return WORDS[name]
    raise AttributeError(unknown(f"T.{name}", name, WORDS, "T"))


def __dir__() -> list[str]:
    return sorted({*globals(), *WORDS})
