"""The workloads of a script by their names; pegbox's own registry may have the same names."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable, Sequence
from typing import Any

from pegbox.errors import ArgumentError, UnknownName
from pegbox.plugins.tvm.registry import definition_of, tuples
from pegbox.task import Workload
from pegbox.te import Tensor

Function = Callable[..., Sequence[Tensor]]

WORKLOAD_FUNC_REGISTRY: dict[str, Workload] = {}
"""The workloads by their names."""


def register_workload(func_name: str | Function, f: Function | None = None, override: bool = False) -> Any:
    """Make a workload of a function of sizes that returns the tensors of a kernel; a decorator if no `f` is given.

    Raises `ArgumentError` if another definition has the name, unless `override` is given.
    """
    if callable(func_name):
        return register_workload(func_name.__name__, func_name, override)
    if f is None:
        return functools.partial(register_workload, func_name, override=override)
    known = WORKLOAD_FUNC_REGISTRY.get(func_name)
    if known is not None and not override and definition_of(known.function) != definition_of(f):
        raise ArgumentError(
            f"there is a workload {func_name!r} already: give this one another name, or override=True to replace it"
        )
    WORKLOAD_FUNC_REGISTRY[func_name] = Workload(func_name, f)
    return f


def make_workload_key(func: str | Function, args: Sequence[Any]) -> str:
    """Return the text that names a workload with its arguments, a JSON list of both.

    Raises `ArgumentError` for other arguments than numbers, text and lists, `UnknownName` for another function.
    """
    functions = (name for name, known in WORKLOAD_FUNC_REGISTRY.items() if known.function is func)
    name = _find(func if isinstance(func, str) else next(functions, repr(func))).name
    try:
        return json.dumps([name, *args], default=operator.index)
    except TypeError as error:
        raise ArgumentError(f"workload {name!r}: args={args!r}: give numbers, text, and lists of them") from error


def workload_of(workload_key: str) -> tuple[Workload, tuple[Any, ...]]:
    """Return the workload and the arguments that a key names.

    Raises `ArgumentError` for other text, `UnknownName` if the workload is not registered.
    """
    try:
        name, *args = json.loads(workload_key)
        return _find(str(name)), tuple(map(tuples, args))
    except (ValueError, TypeError) as error:
        raise ArgumentError(
            f"{workload_key!r} is not a workload key, which make_workload_key(function, args) gives, such as "
            "'[\"matmul\", 64, 64, 64]'"
        ) from error


def _find(name: str) -> Workload:
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise UnknownName(
            f"there is no workload {name!r}; register its function with @auto_scheduler.register_workload"
        )
    return WORKLOAD_FUNC_REGISTRY[name]
