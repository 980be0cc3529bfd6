"""Kernels: compiled programs in this process, callable on NumPy arrays."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from pegbox.checks import check_instance, check_int, check_list, check_text
from pegbox.codegen.emitter.placement import ALIGNMENT
from pegbox.codegen.program import COMPILE_SECONDS, ArgSpec, CompiledProgram, Program, check_program
from pegbox.codegen.runtime import machine, team
from pegbox.codegen.runtime.arguments import Checker
from pegbox.codegen.runtime.loader import LoadedCode
from pegbox.codegen.runtime.python_functions import with_errors
from pegbox.codegen.runtime.time_evaluator import MOST_CALLS, TimeEvaluator
from pegbox.errors import ArgumentError, CompileError
from pegbox.shown import value_text

_Self = TypeVar("_Self", bound="EntryPoint")


class EntryPoint(ABC):
    """Code that is called by one name: a kernel, or kernels for arrays of several shapes."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that it was built under."""

    @property
    @abstractmethod
    def programs(self) -> list[Program]:
        """The programs of all kernels that there are by now; each has a name of its own.

        Raises:
            ArgumentError: there is no kernel yet, or they were loaded from object code alone.
        """

    @abstractmethod
    def source(self, form: str = "ll") -> str:
        """Return the program as text: "ll" (LLVM assembly as emitted), "ir" (after LLVM's optimizer), "asm".

        Raises:
            ArgumentError: unknown form, or the kernel was loaded from object code alone.
        """

    @abstractmethod
    def time_ns(self, arrays: Any, number: int = 1) -> int:
        """Return the nanoseconds that `number` calls take together; the clock is read inside machine code.

        Raises:
            ArgumentError: wrong arrays, or number < 1.
        """

    @property
    def entry_name(self) -> str:
        """The name, as TVM's modules have it."""
        return self.name

    def __getitem__(self: _Self, name: str) -> _Self:
        """Return itself, for code that takes functions out of modules by name.

        Raises:
            ArgumentError: it has another name.
        """
        if check_text("name of a function", name) != self.name:
            raise ArgumentError(f"this is the kernel {self.name!r}; it has no function {name!r}")
        return self

    def time_evaluator(
        self,
        name: str | None = None,
        dev: object = None,
        *,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0.0,
    ) -> TimeEvaluator:
        """Return a function of arrays that gives the seconds of a call: `.mean`, `.median`, `.min`, `.max`, `.std`.

        Args:
            name: its own, as TVM asks for it.
            dev: a device, as TVM asks for it; kernels run on this machine's CPU.
            number: the calls that are timed together, as one repeat.
            repeat: the number of repeats.
            min_repeat_ms: raise `number` until a repeat lasts that long.

        Raises:
            ArgumentError: another name, or a number out of its domain.
        """
        if name is not None:
            self[name]
        return TimeEvaluator(self.time_ns, number, repeat, min_repeat_ms)


class Code(Protocol):
    """The addresses of a kernel's two functions; the code stays while the object lives."""

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

        def bound(function: Callable[..., Any], *, hold: bool) -> Callable[..., Any]:
            return with_errors(team.on_cores(function, compiled.num_threads, hold=hold), compiled.externs)

        self._entry = bound(ctypes.CFUNCTYPE(None, *pointers)(self._code.entry), hold=False)
        self._timed = bound(ctypes.CFUNCTYPE(ctypes.c_int64, *pointers, ctypes.c_int64)(self._code.timed), hold=True)
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
        number = check_int(f"{self.name}: number", number, maximum=MOST_CALLS)
        addresses = self._checker.addresses(check_list("arrays", arrays, "the kernel's arguments"))
        workspace = self._borrow()
        elapsed = self._timed(*addresses, workspace.address, number)
        self._spare.append(workspace)
        return int(elapsed)

    def source(self, form: str = "ll") -> str:
        forms = {"ll": lambda p: p.ll, "ir": machine.optimized_ir, "asm": machine.assembly}
        if not isinstance(form, str) or form not in forms:
            raise ArgumentError(f"unknown form {value_text(form)} of source; use one of {', '.join(forms)}")
        return str(forms[form](*self.programs))

    @property
    def programs(self) -> list[Program]:
        if self._program is None:
            raise ArgumentError(f"{self.name} was loaded from object code alone; use load(compiled, program=program)")
        return [self._program]

    def __repr__(self) -> str:
        return f"Kernel({self.name}({', '.join(map(str, self.args))}) for {self.compiled.target})"

    def _borrow(self) -> _Workspace:
        # list.pop and list.append are atomic: no lock needed.
        try:
            return self._spare.pop()
        except IndexError:
            return _Workspace(self.compiled.workspace_bytes)


class KernelFamily(EntryPoint):
    """Kernels of one name for arrays of several shapes; the shapes of a call select one."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @abstractmethod
    def of(self, arrays: Sequence[Any]) -> Kernel:
        """Return the kernel for arrays of these shapes.

        Raises:
            ArgumentError: there is none.
        """

    def __call__(self, *arrays: Any) -> None:
        """Run once.

        Raises:
            ArgumentError: the arrays are not what the kernels were built for, or there is none for their shapes.
        """
        self.of(arrays)(*arrays)

    def time_ns(self, arrays: Any, number: int = 1) -> int:
        return self.of(arrays).time_ns(arrays, number)


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
    wanted = "what pegbox.codegen.compile_program gives"
    return Kernel(check_instance("compiled", compiled, CompiledProgram, wanted, error=CompileError), program)


def build(program: Program, *, timeout: float = COMPILE_SECONDS) -> Kernel:
    """Compile, in at most `timeout` seconds, and load.

    Raises:
        TargetError, CompileError: see `compile_program` and `load`.
    """
    return load(machine.compile_program(check_program(program), timeout=timeout), program=program)
