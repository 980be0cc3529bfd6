"""Kernels: compiled programs in this process, callable on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from pegbox.codegen.emitter.placement import ALIGNMENT
from pegbox.codegen.program import COMPILE_SECONDS, ArgSpec, CompiledProgram, Program
from pegbox.codegen.runtime import machine, team
from pegbox.codegen.runtime.arguments import Checker
from pegbox.codegen.runtime.entry import EntryPoint
from pegbox.codegen.runtime.loader import LoadedCode
from pegbox.codegen.runtime.python_functions import with_errors
from pegbox.errors import ArgumentError


class Code(Protocol):
    """Addresses of a kernel's two functions; the code stays while the object lives."""

    entry: int
    timed: int


class Kernel(EntryPoint):
    """Machine code with its checks. `kernel(a, b, c)` takes arrays in the order of `kernel.args`; outputs are written.

    Several threads may call one kernel at once: each call has a workspace to itself.
    """

    def __init__(self, compiled: CompiledProgram, program: Program | None, code: Code | None = None) -> None:
        self.compiled = compiled
        self._program = program
        self._code = code or LoadedCode(compiled)
        self._checker = Checker(compiled.name, compiled.args)
        pointers = [ctypes.c_void_p] * (len(compiled.args) + 1)
        self._entry = self._function(ctypes.CFUNCTYPE(None, *pointers)(self._code.entry))
        self._timed = self._function(
            ctypes.CFUNCTYPE(ctypes.c_int64, *pointers, ctypes.c_int64)(self._code.timed), hold=True
        )
        self._spare: list[_Workspace] = []

    @property
    def name(self) -> str:
        return self.compiled.name

    @property
    def args(self) -> tuple[ArgSpec, ...]:
        return self.compiled.args

    def __call__(self, *arrays: Any, **named: Any) -> None:
        """Run once.

        Raises:
            ArgumentError: the arrays are not what the kernel was built for, or are given by name.
        """
        if named:
            given = ", ".join(f"{name}=" for name in named)
            order = ", ".join(spec.name for spec in self.args)
            raise ArgumentError(f"{self.name}({given}): arrays are given by their place: {self.name}({order})")
        addresses = self._checker.addresses(arrays)
        if not self.compiled.workspace_bytes:
            self._entry(*addresses, None)
            return
        workspace = self._borrow()
        self._entry(*addresses, workspace.address)
        self._spare.append(workspace)

    def time_ns(self, arrays: Any, number: int = 1) -> int:
        """Nanoseconds that `number` calls take together; the clock is read inside machine code.

        Raises:
            ArgumentError: wrong arrays, or number < 1.
        """
        if number < 1:
            raise ArgumentError(f"{self.name}: number of timed calls must be at least 1, got {number}")
        addresses = self._checker.addresses(arrays)
        workspace = self._borrow()
        elapsed = self._timed(*addresses, workspace.address, number)
        self._spare.append(workspace)
        return int(elapsed)

    def source(self, form: str = "ll") -> str:
        """The program as text: "ll" (LLVM assembly as emitted), "ir" (after LLVM's optimizer), "asm".

        Raises:
            ArgumentError: unknown form, or the kernel was loaded from object code alone.
        """
        forms = {"ll": lambda p: p.ll, "ir": machine.optimized_ir, "asm": machine.assembly}
        if form not in forms:
            raise ArgumentError(f"unknown form {form!r} of source; use one of {', '.join(forms)}")
        return str(forms[form](*self.programs))

    @property
    def programs(self) -> list[Program]:
        """The program that the kernel was compiled from; a list, as with kernels for several shapes.

        Raises:
            ArgumentError: the kernel was loaded from object code alone.
        """
        if self._program is None:
            raise ArgumentError(f"{self.name} was loaded from object code alone; use load(compiled, program=program)")
        return [self._program]

    def __repr__(self) -> str:
        return f"Kernel({self.name}({', '.join(map(str, self.args))}) for {self.compiled.target})"

    def _function(self, function: Callable[..., Any], *, hold: bool = False) -> Callable[..., Any]:
        return with_errors(team.on_cores(function, self.compiled.num_threads, hold=hold), self.compiled.externs)

    def _borrow(self) -> _Workspace:
        # list.pop and list.append are atomic: no lock needed.
        try:
            return self._spare.pop()
        except IndexError:
            return _Workspace(self.compiled.workspace_bytes)


class _Workspace:
    """Memory at an aligned address."""

    __slots__ = ("_memory", "address")

    def __init__(self, nbytes: int) -> None:
        self._memory = np.empty(nbytes + ALIGNMENT, dtype=np.uint8)
        start: int = self._memory.__array_interface__["data"][0]
        self.address = -(-start // ALIGNMENT) * ALIGNMENT


def load(compiled: CompiledProgram, *, program: Program | None = None) -> Kernel:
    """Bring object code into this process. `program` lets the kernel show its source.

    Raises:
        TargetError: the code needs an OpenMP runtime and there is none, or is for another architecture.
        CompileError: the object code is damaged.
    """
    return Kernel(compiled, program)


def build(program: Program, *, timeout: float = COMPILE_SECONDS) -> Kernel:
    """Compile, in at most `timeout` seconds, and load.

    Raises:
        TargetError, CompileError: see `compile_program` and `load`.
    """
    return load(machine.compile_program(program, timeout=timeout), program=program)
