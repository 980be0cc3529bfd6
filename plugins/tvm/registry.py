"""Functions of Python by name: `tvm.register_func`, `tvm.get_global_func`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegbox import te
from pegbox.errors import ArgumentError

_functions: dict[str, Callable[..., Any]] = {}


def register_func(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Register a function under a name; a decorator if no function is given.

    `tir.call_packed` calls it in `te.extern`, in this process.

    Raises `ArgumentError` if the name is taken.
    """
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    if f is None:
        return lambda function: register_func(func_name, function, override)
    if func_name in _functions and not override:
        raise ArgumentError(f"register_func({func_name!r}): the name is taken; pass override=True to exchange it")
    _functions[func_name] = f
    return f


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """Return the function that was registered under a name; None if there is none and that is allowed.

    Raises `ArgumentError` if there is none; TVM's own functions are not here.
    """
    if name in _functions or allow_missing:
        return _functions.get(name)
    raise ArgumentError(f"get_global_func({name!r}): not registered, and TVM's own are not here")


def remove_global_func(name: str) -> None:
    """Forget the function of that name."""
    _functions.pop(name, None)


def definition_of(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the place of a definition, which may run again, as in a notebook."""
    return function.__module__, function.__qualname__


def tuples(value: Any) -> Any:
    """Return lists as tuples, at any depth."""
    return tuple(map(tuples, value)) if isinstance(value, list | tuple) else value


def convert(value: Any) -> Any:
    """Make a number an expression, the members of a list one by one; everything else stays."""
    if isinstance(value, list | tuple):
        return [convert(member) for member in value]
    return te.const(value) if isinstance(value, bool | int | float) else value
