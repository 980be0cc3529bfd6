"""The workloads of a script by their names; they are not in pegbox's own registry, whose names they may have."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from pegbox.compute.tensor import Tensor
from pegbox.errors import ArgumentError, UnknownName
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.auto_scheduler.utils import (
    decode_workload_key,
    deserialize_args,
    get_func_name,
    serialize_args,
)
from pegbox.task.workload import Workload

__getattr__ = names(__name__)

Function = Callable[..., Sequence[Tensor]]

_Entry = TypeVar("_Entry", bound=Function | Sequence[Tensor])

WORKLOAD_FUNC_REGISTRY: dict[str, Function | Sequence[Tensor]] = {}
"""Functions that make a kernel's tensors, by their names, and tensors that are made already, by workload keys."""


@overload
def register_workload(func_name: Function, f: None = None, override: bool = False) -> Function: ...
@overload
def register_workload(func_name: str, f: None = None, override: bool = False) -> Callable[[Function], Function]: ...
@overload
def register_workload(func_name: str, f: Function, override: bool = False) -> Function: ...
def register_workload(func_name: str | Function, f: Function | None = None, override: bool = False) -> Any:
    """Decorator: a function that gives the tensors of a kernel, inputs and outputs, is a workload from now on.

    It has its own name, or the one that is given.

    Raises:
        ArgumentError: another definition has the name, and `override` is not given; or it is no name.
    """
    if callable(func_name):
        f, func_name = func_name, get_func_name(func_name)
    if not isinstance(func_name, str):
        raise ArgumentError(f"register_workload({func_name!r}): give a function, or a name for one")
    return functools.partial(_register, func_name, override) if f is None else _register(func_name, override, f)


def _register(name: str, override: bool, function: _Entry) -> _Entry:
    known = WORKLOAD_FUNC_REGISTRY.get(name, function)
    if not override and _definition(known) != _definition(function):
        raise ArgumentError(
            f"there is a workload {name!r} already: give this one another name, or override=True to replace it"
        )
    WORKLOAD_FUNC_REGISTRY[name] = function
    return function


def _definition(entry: Function | Sequence[Tensor]) -> object:
    """What tells two definitions apart: the same one may run again, as in a notebook."""
    return (getattr(entry, "__module__", ""), entry.__qualname__) if hasattr(entry, "__qualname__") else id(entry)


def register_workload_tensors(workload_key: str, tensors: Sequence[Tensor], override: bool = True) -> str:
    """Register the tensors of a kernel under a workload key; gives that key."""
    decode_workload_key(workload_key)
    _register(workload_key, override, list(tensors))
    return workload_key


def make_workload_key(func: str | Function, args: Sequence[Any]) -> str:
    """The text that names a workload with its arguments: a JSON list of both.

    Raises:
        ArgumentError: `func` is neither a function nor a name.
        UnknownName: it is not registered.
    """
    if not isinstance(func, str) and not callable(func):
        raise ArgumentError(f"make_workload_key({func!r}): give the workload's function, or its name")
    name = func if isinstance(func, str) else _name_of(func)
    _find(name)
    return json.dumps((name, *serialize_args(args)))


def workload_key_to_tensors(workload_key: str) -> Sequence[Tensor]:
    """The tensors of a workload, made anew where a function makes them. Raises as `workload_of`."""
    workload, args = workload_of(workload_key)
    return workload.tensors(*args)


def workload_of(workload_key: str) -> tuple[Workload, tuple[Any, ...]]:
    """What pegbox calls a workload, and its arguments.

    Raises:
        ArgumentError: it is no key.
        UnknownName: the workload is not registered.
    """
    name, args = decode_workload_key(workload_key)
    made = WORKLOAD_FUNC_REGISTRY.get(workload_key)
    if made is not None and not callable(made):
        return Workload(name, lambda: made), ()
    return Workload(name, _Deserializing(_find(name))), args


class _Deserializing:
    """A function of what a workload key holds."""

    def __init__(self, function: Function) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
        return self.function(*deserialize_args(args), **kwargs)


def _name_of(function: Function) -> str:
    """The name that a function is registered under, or else its own."""
    return next((name for name, known in WORKLOAD_FUNC_REGISTRY.items() if known is function), get_func_name(function))


def _find(name: str) -> Function:
    found = WORKLOAD_FUNC_REGISTRY.get(name)
    if not callable(found):
        raise UnknownName(
            f"there is no workload {name!r}; register its function with @auto_scheduler.register_workload"
        )
    return found


def serialize_workload_registry_entry(workload_key: str) -> tuple[str, Function | Sequence[Tensor]]:
    """The entry of a workload key, or of a name, to be pickled. Raises `UnknownName` where there is none."""
    if workload_key in WORKLOAD_FUNC_REGISTRY:
        return workload_key, WORKLOAD_FUNC_REGISTRY[workload_key]
    name = decode_workload_key(workload_key)[0]
    return name, _find(name)


def deserialize_workload_registry_entry(data: tuple[str, Function | Sequence[Tensor]]) -> None:
    """Take an entry in, unless the name is known."""
    WORKLOAD_FUNC_REGISTRY.setdefault(*data)
