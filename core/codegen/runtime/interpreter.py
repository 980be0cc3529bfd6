"""The running Python: its functions and objects, as the machine code of `python_call.py` reads them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np

from pegbox.codegen.compiled import ArgSpec
from pegbox.codegen.runtime import python_abi
from pegbox.codegen.runtime.python_abi import FUNCTIONS, SLOTS, TEAM
from pegbox.codegen.runtime.symbols import address_of, has_function, process
from pegbox.expr import dtypes

_WITH_KEYWORDS = 0x0001 | 0x0002  # METH_VARARGS | METH_KEYWORDS
_OBJECTS: dict[str, object] = {"ndarray": np.ndarray, "tuple": tuple, "None": None, "out": "out"}
_WORD = ctypes.sizeof(ctypes.c_void_p)


class LatestTeam(ctypes.Structure):
    """The latest team of any caller, as machine code reads it.

    Until the nanosecond `until` of the monotonic clock, the thread `thread` may run kernels of `size` threads without
    another check, as long as it stays on `core`. Threads are identified by PyThreadState_GetID, because the system
    reuses its numbers after a thread has ended.
    """

    _fields_ = [(name, ctypes.c_int64) for name in TEAM]

    def clear(self) -> None:
        """Make machine code pass the next call to Python."""
        self.thread = -1


latest_team = LatestTeam(thread=-1)
_OTHERS = {"workspace": 0, "team": ctypes.addressof(latest_team)}


class _Definition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class PythonEntry:
    """A kernel's function for Python in loaded code, with its table filled.

    Args:
        address: the address of the function.
        table: the address of its table.
    """

    def __init__(self, name: str, args: Sequence[ArgSpec], address: int, table: int) -> None:
        self._name, self._address, self._table = name, address, table
        self._dtypes = [dtypes.numpy_dtype(spec.dtype) for spec in args]
        entries = [*_addresses(), *map(id, self._dtypes)]
        ctypes.memmove(table, (ctypes.c_size_t * len(entries))(*entries), _WORD * len(entries))

    def lend(self, workspace: int) -> None:
        """Give the code the address of a workspace; one call at a time uses it."""
        ctypes.c_void_p.from_address(self._table + _WORD * SLOTS.index("workspace")).value = workspace

    def function(
        self,
        otherwise: Callable[..., Any],
        make_outputs: Callable[[], Any] | None,
        unless: ContextVar[Any] | None,
        *owners: object,
    ) -> Callable[..., Any]:
        """Return the code as a Python function, as `Kernel.function` does; `owners` live as long as the function."""
        document = f"{self._name}(*arrays, out=None)\n--\n\nRun the kernel."
        definition = _Definition(self._name.encode(), self._address, _WITH_KEYWORDS, document.encode())
        items = otherwise, make_outputs, unless, definition, self, owners  # the code reads python_abi.ITEMS
        made: Callable[..., Any] = _maker()(ctypes.byref(definition), items, None)
        return made


@cache
def _maker() -> Callable[..., Any]:
    """Make CPython's PyCFunction_NewEx callable."""
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return kind(("PyCFunction_NewEx", ctypes.pythonapi))


@cache
def _addresses() -> list[int]:
    """List the table entries that are the same for all kernels."""
    known = {slot: id(value) for slot, value in _OBJECTS.items()} | _OTHERS
    return [known[slot] if slot in known else address_of(process(), slot) for slot in SLOTS]


@cache
def is_known() -> bool:
    """Decide if this Python's functions and objects, and this NumPy's arrays, have the layout that the code expects."""
    if sys.implementation.name != "cpython" or "t" in sys.abiflags:  # "t" marks free-threaded builds
        return False
    if _WORD != 8 or sys.byteorder != "little":
        return False
    has_functions = all(has_function(process(), name) for name in FUNCTIONS)
    return has_functions and all(map(_has_layout, _samples()))


def _samples() -> list[np.ndarray[Any, Any]]:
    fixed = np.arange(6, dtype=np.int16)
    fixed.flags.writeable = False
    return [np.empty((2, 5), np.float32)[1:], fixed[1:4], np.empty((3, 4, 5))[:, ::2], np.empty((), np.bool_)]


def _has_layout(array: np.ndarray[Any, Any]) -> bool:
    """Decide if the fields of an array's object agree with its attributes."""

    def field(kind: Any, place: int, base: int = id(array)) -> Any:
        return kind.from_address(base + place).value

    word, number = ctypes.c_size_t, ctypes.c_int32
    shape = field(word, python_abi.SHAPE)
    flags = field(number, python_abi.FLAGS)
    return (
        field(word, python_abi.TYPE) == id(np.ndarray)
        and field(word, python_abi.DATA) == array.ctypes.data
        and field(number, python_abi.DIMENSIONS) == array.ndim
        and field(word, python_abi.DTYPE) == id(array.dtype)
        and all(field(word, 8 * axis, shape) == extent for axis, extent in enumerate(array.shape))
        and flags & python_abi.WRITABLE == array.flags.num & python_abi.WRITABLE
    )
