"""Functions of Python by name: `tvm.register_func`, `tvm.get_global_func`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pegbox.checks import check_callable, check_text, near_names
from pegbox.errors import ArgumentError
from pegbox.expr.build import as_expr
from pegbox.plugins.tvm.notice import means_nothing

_functions: dict[str, Callable[..., Any]] = {}


def register_func(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Register a function under a name; a decorator where no function is given.

    `tir.call_packed` calls it in `te.extern`, in this process; what scripts fetch with `get_global_func` they call
    themselves.

    Raises:
        ArgumentError: the name is taken.
    """
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    name = check_text("register_func: func_name", func_name)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if name in _functions and not override:
            raise ArgumentError(f"register_func({name!r}): the name is taken; pass override=True to exchange it")
        _functions[name] = check_callable("register_func: f", function, "a function")
        return function

    return register if f is None else register(f)


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """The function that was registered under a name; None where there is none and that is allowed.

    Raises:
        ArgumentError: there is none. TVM's own functions are not here.
    """
    if name in _functions or allow_missing:
        return _functions.get(name)
    raise ArgumentError(
        f"get_global_func({name!r}): not registered; TVM's own are not here{near_names(name, _functions)}"
    )


@partial(register_func, "runtime.config_threadpool")
def _config_threadpool(affinity_mode: int, num_threads: int, *_: Any) -> None:
    means_nothing("runtime.config_threadpool", "a kernel runs on the cores of its target: 'llvm -num-cores 4'")


def remove_global_func(name: str) -> None:
    """Forget the function of that name."""
    _functions.pop(name, None)


def convert(value: Any, span: object = None) -> Any:
    """A number as an expression, members of a list one by one; functions and everything else stay."""
    if isinstance(value, list | tuple):
        return [convert(member) for member in value]
    return as_expr(value) if isinstance(value, bool | int | float) else value
