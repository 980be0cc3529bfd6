"""Python functions that kernels of this process call: their addresses as C functions, and their errors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from math import prod
from threading import get_ident
from typing import TYPE_CHECKING, Any

from pegbox.errors import CompileError
from pegbox.expr import dtypes
from pegbox.loops.foreign import PREFIX, PythonFunction, python_function

if TYPE_CHECKING:
    import numpy as np

_made: dict[str, Any] = {}  # ctypes' functions must live as long as their addresses are used
_calls: dict[int, list[BaseException]] = {}  # by thread: the errors so far in its current call


def address(symbol: str) -> int | None:
    """Find the address of a symbol's function; None if it is not a Python function.

    Raises:
        CompileError: the function belongs to another process.
    """
    if not symbol.startswith(PREFIX):
        return None
    known = python_function(symbol)
    if known is None:
        raise CompileError(
            f"{symbol} is a Python function of another process: kernels that call such functions run where they were "
            "made; use a C function (tir.c_source) in searches and in libraries"
        )
    if symbol not in _made:
        _made[symbol] = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * len(known.operands))(_called(known))
    return ctypes.cast(_made[symbol], ctypes.c_void_p).value


def _called(known: PythonFunction) -> Callable[..., int]:
    def called(*pointers: int) -> int:
        raised = _calls.get(get_ident())
        if raised is None:  # a thread that a kernel started: the latest call started it
            raised = next(reversed(list(_calls.values())), [])
        if raised:  # an earlier function failed, so its results are missing
            return 0
        try:
            known.function(*(_array(at, *kind) for at, kind in zip(pointers, known.operands, strict=True)))
        except BaseException as error:  # ctypes would print it and go on
            raised.append(error)
        return 0

    return called


def _array(at: int, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    import numpy as np  # not needed by processes that compile

    kind = dtypes.numpy_dtype(dtype)
    size = prod(shape) * kind.itemsize
    return np.frombuffer((ctypes.c_uint8 * size).from_address(at), kind).reshape(shape)


def are_called(symbols: Iterable[str]) -> bool:
    """Decide if any of these functions is a Python function."""
    return any(symbol.startswith(PREFIX) for symbol in symbols)


def with_errors(function: Callable[..., Any], symbols: Iterable[str]) -> Callable[..., Any]:
    """Wrap a kernel's function so that it raises errors of the Python functions that it calls, if it calls any."""
    if not are_called(symbols):
        return function

    def called(*arguments: Any) -> Any:
        thread = get_ident()
        around = _calls.pop(thread, None)  # a Python function may call a kernel itself
        raised = _calls[thread] = []
        try:
            result = function(*arguments)
        finally:
            del _calls[thread]
            if around is not None:
                _calls[thread] = around
        if raised:
            raise raised[0]
        return result

    return called
