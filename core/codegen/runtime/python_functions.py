"""Python functions that kernels of this process call: their addresses as C functions, and the errors they raised."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING, Any

from pegbox.errors import CompileError
from pegbox.expr import dtypes
from pegbox.loops.python_function import PREFIX, PythonFunction, python_function

if TYPE_CHECKING:
    import numpy as np

_made: dict[str, Any] = {}  # ctypes' functions must live as long as their addresses are used
_raised: list[BaseException] = []


def address(symbol: str) -> int | None:
    """Where the function of a symbol is; None where the symbol is none of Python's.

    Raises:
        CompileError: it is a function of another process.
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
        try:
            known.function(*(_array(at, *kind) for at, kind in zip(pointers, known.operands, strict=True)))
        except BaseException as error:  # ctypes would print it and go on
            _raised.append(error)
        return 0

    return called


def _array(at: int, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    import numpy as np  # processes that compile do without

    kind = dtypes.numpy_dtype(dtype)
    size = prod(shape) * kind.itemsize
    return np.frombuffer((ctypes.c_uint8 * size).from_address(at), kind).reshape(shape)


def with_errors(entry: Callable[..., Any], symbols: Iterable[str]) -> Callable[..., Any]:
    """The entry of a kernel that raises what Python functions raised in it; the entry itself if it calls none."""
    if not any(symbol.startswith(PREFIX) for symbol in symbols):
        return entry

    def called(*arguments: Any) -> None:
        _raised.clear()
        entry(*arguments)
        if _raised:
            raise _raised.pop(0)

    return called
