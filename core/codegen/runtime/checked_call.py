"""Calls of machine code, checked in Python: every valid call is made, and any other raises an error."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pegbox.codegen.compiled import ALIGNMENT, CompiledProgram
from pegbox.codegen.runtime.arguments import Checker
from pegbox.codegen.runtime.interpreter import PythonEntry
from pegbox.codegen.targets.features import check_processor
from pegbox.errors import ArgumentError, TargetError


class Code(Protocol):
    """The addresses of a kernel's functions; the code stays loaded as long as the object lives.

    `python` is None if the code has no function for this Python.
    """

    entry: int
    timed: int
    python: PythonEntry | None


LARGE_BYTES = 1 << 18
"""The fewest bytes of a result for which alignment is worth an allocation that takes a microsecond longer."""


class CheckedCall:
    """A kernel's code as a function of arrays; several threads may call it at once."""

    def __init__(self, compiled: CompiledProgram, code: Code) -> None:
        self._compiled, self.checker = compiled, Checker(compiled.name, compiled.args)
        self._code = code  # keeps the code loaded, which the functions below do not
        pointers = [ctypes.c_void_p] * (len(compiled.args) + 1)

        self.refusal = _refusal(compiled)

        def bound(function: Callable[..., Any], *, hold: bool) -> Callable[..., Any]:
            if self.refusal is not None:
                return self.refusal
            if compiled.num_threads > 1:
                from pegbox.codegen.runtime.team import on_cores  # not needed for one thread

                function = on_cores(function, compiled.num_threads, hold=hold)
            if compiled.externs:
                from pegbox.codegen.runtime.python_functions import with_errors  # loads the loop IR

                function = with_errors(function, compiled.externs)
            return function

        self._entry = bound(ctypes.CFUNCTYPE(None, *pointers)(code.entry), hold=False)
        self._timed = bound(ctypes.CFUNCTYPE(ctypes.c_int64, *pointers, ctypes.c_int64)(code.timed), hold=True)
        self._spare: list[Workspace] = []

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Run once; see `Kernel.__call__`."""
        if named:
            given = ", ".join(f"{name}=" for name in named)
            order = ", ".join(spec.name for spec in self._compiled.args)
            raise ArgumentError(
                f"{self._compiled.name}({given}): pass arrays by position: {self._compiled.name}({order})"
            )
        self._run(self.checker.addresses(arrays if out is None else self._with_outputs(arrays, out)))
        return out

    def time_ns(self, arrays: Sequence[Any], number: int) -> int:
        """Return the nanoseconds that `number` calls take together."""
        addresses = self.checker.addresses(arrays)
        workspace = self._borrow()
        elapsed = self._timed(*addresses, workspace.address, number)
        self._spare.append(workspace)
        return int(elapsed)

    def _with_outputs(self, inputs: Sequence[Any], out: Any) -> list[Any]:
        """List all arrays in the kernel's order."""
        name, args = self._compiled.name, self._compiled.args
        outputs = list(out) if isinstance(out, tuple) else [out]
        wanted = [[spec for spec in args if spec.is_output is is_output] for is_output in (False, True)]
        if [len(inputs), len(outputs)] != [len(specs) for specs in wanted]:
            order, results = (", ".join(map(str, specs)) for specs in wanted)
            raise ArgumentError(
                f"{name}(..., out=) takes {len(wanted[0])} arrays ({order}), and {len(wanted[1])} in out ({results}); "
                f"got {len(inputs)}, and {len(outputs)} in out"
            )
        remaining = iter(inputs), iter(outputs)
        return [next(remaining[spec.is_output]) for spec in args]

    def _run(self, addresses: Sequence[int]) -> None:
        if not self._compiled.workspace_bytes:
            self._entry(*addresses, None)
            return
        workspace = self._borrow()
        self._entry(*addresses, workspace.address)
        self._spare.append(workspace)

    def _borrow(self) -> Workspace:
        # list.pop and list.append are atomic: no lock needed.
        try:
            return self._spare.pop()
        except IndexError:
            return Workspace(self._compiled.workspace_bytes)


def _refusal(compiled: CompiledProgram) -> Callable[..., NoReturn] | None:
    """Return a function that raises `TargetError` if this processor lacks instructions of the code; None otherwise.

    Code for another processor of the same architecture is still loaded, to be read and exported.
    """
    try:
        check_processor(compiled.target, compiled.name)
    except TargetError as error:
        message = str(error)
    else:
        return None

    def refuse(*_addresses: Any) -> NoReturn:
        raise TargetError(message)

    return refuse


class Workspace:
    """A piece of memory at an aligned address, initially zero.

    Kernels compute unused values from elements that no statement writes. What other uses left in the memory may be
    subnormal, as integers and pointers often are when read as floats, and a multiply-add with a subnormal number may
    take a hundred times as long.
    """

    __slots__ = ("_memory", "address")

    def __init__(self, nbytes: int) -> None:
        self._memory = aligned_bytes(nbytes, make=np.zeros)
        self.address = address_of_data(self._memory)


def aligned_bytes(nbytes: int, *, make: Callable[..., NDArray[Any]] = np.empty) -> NDArray[np.uint8]:
    """Make an array of bytes, by default uninitialized, that begins at a multiple of `ALIGNMENT`."""
    memory = make(nbytes + ALIGNMENT, dtype=np.uint8)
    start = -address_of_data(memory) % ALIGNMENT
    return memory[start : start + nbytes]


def aligned_copy(array: NDArray[Any]) -> NDArray[Any]:
    """Copy an array in C order into memory that begins at a multiple of `ALIGNMENT`."""
    made: NDArray[Any] = np.ndarray(array.shape, array.dtype, aligned_bytes(array.nbytes))
    made[...] = array
    return made


def array_maker(shape: tuple[int, ...], dtype: DTypeLike) -> Callable[[], NDArray[Any]]:
    """Return a function that allocates an uninitialized array; large arrays begin at a multiple of `ALIGNMENT`.

    NumPy's large arrays begin 16 bytes after the start of a cache line, so each vector of 64 bytes spans two lines.
    """
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    if nbytes < LARGE_BYTES:
        return partial(np.empty, shape, dtype)
    return lambda: np.ndarray(shape, dtype, aligned_bytes(nbytes))


def address_of_data(array: NDArray[Any]) -> int:
    """Return the address of an array's first element."""
    address: int = array.__array_interface__["data"][0]
    return address
