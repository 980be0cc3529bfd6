"""Kernels: compiled programs in this process, callable on NumPy arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from pegbox.checks import check_callable, check_instance, check_int, check_list, check_text
from pegbox.codegen.compiled import COMPILE_SECONDS, ArgSpec, CompiledProgram
from pegbox.codegen.runtime.checked_call import CheckedCall, Code, Workspace
from pegbox.codegen.runtime.loader import LoadedCode
from pegbox.errors import ArgumentError, CompileError
from pegbox.own_call import OwnCall
from pegbox.shown import value_text

if TYPE_CHECKING:
    from pegbox.codegen.program import Program
    from pegbox.codegen.runtime.time_evaluator import TimeEvaluator

_Self = TypeVar("_Self", bound="EntryPoint")


class EntryPoint(ABC):
    """Code that is called under one name: a kernel, or kernels for arrays of several shapes."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name under which the code was built."""

    @property
    @abstractmethod
    def programs(self) -> list[Program]:
        """The programs of all kernels that exist so far; their names differ.

        Raises:
            ArgumentError: there is no kernel yet, or the kernels were loaded from object code alone.
        """

    @abstractmethod
    def source(self, form: str = "ll") -> str:
        """Return the program as text: "ll" (LLVM assembly as emitted), "ir" (after LLVM's optimizer), "asm".

        Raises:
            ArgumentError: the form is unknown, or the kernel was loaded from object code alone.
        """

    @abstractmethod
    def time_ns(self, arrays: Any, number: int = 1) -> int:
        """Return the nanoseconds that `number` calls take together; the clock is read inside machine code.

        Raises:
            ArgumentError: the arrays are wrong, or number < 1.
        """

    @property
    def entry_name(self) -> str:
        """The name, for code written for TVM."""
        return self.name

    def __getitem__(self: _Self, name: str) -> _Self:
        """Return the object itself, for code that looks functions up in modules by name.

        Raises:
            ArgumentError: the object has another name.
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
            name: the kernel's own name; TVM's function has this parameter.
            dev: ignored, as kernels run on this machine's CPU; TVM's function has this parameter.
            number: the number of calls that are timed together, as one repeat.
            repeat: the number of repeats.
            min_repeat_ms: raise `number` until a repeat lasts that long.

        Raises:
            ArgumentError: the name is another, or a number is out of range.
        """
        from pegbox.codegen.runtime.time_evaluator import TimeEvaluator

        if name is not None:
            self[name]
        return TimeEvaluator(self.time_ns, number, repeat, min_repeat_ms)


class Kernel(EntryPoint, OwnCall):
    """A function in machine code: `kernel(a, b, c)` takes arrays in the order of `kernel.args`, and writes the outputs.

    Several threads may call one kernel at once: each call has its own workspace.

    Attributes:
        origin: "predicted, not tuned" if `pegbox.build` had to predict the configuration of a task, else empty.
    """

    origin = ""

    if TYPE_CHECKING:

        def __call__(self, *arrays: Any, out: Any = None) -> Any:
            """Run once; return `out`.

            Args:
                arrays: all arrays in the order of `args`; with `out` only the inputs.
                out: the output, or a tuple of the outputs.

            Raises:
                ArgumentError: the arrays are not what the kernel was built for, or are passed by name.
                TargetError: this machine's processor lacks instructions of the kernel's target.
            """

    def __init__(self, compiled: CompiledProgram, program: Program | None, code: Code | None = None) -> None:
        self.compiled = compiled
        self._program = program
        self._code = code or LoadedCode(compiled)
        self._checked = CheckedCall(compiled, self._code)
        self._lent = Workspace(compiled.workspace_bytes)
        if self._code.python:
            self._code.python.lend(self._lent.address)
        self.call_by(self.function(self._checked))

    def function(
        self,
        otherwise: Callable[..., Any],
        *,
        make_outputs: Callable[[], Any] | None = None,
        unless: ContextVar[Any] | None = None,
    ) -> Callable[..., Any]:
        """Return a function that runs the kernel on its arrays, and passes other calls on.

        The function is machine code if the kernel was built for this Python; otherwise it is `otherwise` itself.

        Args:
            otherwise: a function for calls that machine code does not handle: with other arguments than the kernel's,
                or that only Python can run.
            make_outputs: a function that makes the outputs for a call with only inputs, which then returns them: an
                array, or a tuple of several. Outputs can then be passed only by the name `out`.
            unless: a variable whose default is None; while it has another value, all calls go to `otherwise`.
        """
        check_callable("otherwise", otherwise, "a function that takes the other calls")
        if make_outputs is not None:
            check_callable("make_outputs", make_outputs, "a function that makes the outputs")
        if unless is not None:
            check_instance("unless", unless, ContextVar, "a context variable")
        if self._code.python is None or self._checked.refusal is not None:
            return otherwise
        return self._code.python.function(otherwise, make_outputs, unless, self._code, self._lent)

    @property
    def name(self) -> str:
        return self.compiled.name

    @property
    def args(self) -> tuple[ArgSpec, ...]:
        return self.compiled.args

    @property
    def calls_python(self) -> bool:
        """True if the kernel calls Python functions, which may raise any error."""
        if not self.compiled.externs:
            return False
        from pegbox.codegen.runtime.python_functions import are_called  # loads the loop IR

        return are_called(self.compiled.externs)

    def time_ns(self, arrays: Any, number: int = 1) -> int:
        from pegbox.codegen.runtime.time_evaluator import MOST_CALLS  # imports statistics, which is slow

        number = check_int(f"{self.name}: number", number, maximum=MOST_CALLS)
        return self._checked.time_ns(check_list("arrays", arrays, "the kernel's arguments"), number)

    def source(self, form: str = "ll") -> str:
        from pegbox.codegen.runtime import machine  # a kernel that is loaded does without LLVM

        forms = {"ll": lambda p: p.ll, "ir": machine.optimized_ir, "asm": machine.assembly}
        if not isinstance(form, str) or form not in forms:
            raise ArgumentError(f"unknown form {value_text(form)} of source; use one of {', '.join(forms)}")
        return str(forms[form](*self.programs))

    @property
    def programs(self) -> list[Program]:
        if self._program is None:
            raise ArgumentError(f"{self.name} was loaded from object code alone; use load(compiled, program=program)")
        return [self._program]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the object code, which is loaded without LLVM.

        Raises:
            ArgumentError: the kernel calls functions of this process, or belongs to a library.
        """
        if self.calls_python:
            raise ArgumentError(
                f"{self.name} cannot be pickled: it calls Python functions, which exist only in this process; build it "
                "in the other process, or use a C function (tir.c_source)"
            )
        if not self.compiled.object_code:
            raise ArgumentError(
                f"{self.name} cannot be pickled: it was loaded from a library; load the file in the other process "
                "(pegbox.codegen.load_library)"
            )
        from pegbox.codegen.targets.host import cpu_flags

        return _unpickled, (self.compiled, self._program, self.origin, cpu_flags())

    def __repr__(self) -> str:
        return f"Kernel({self.name}({', '.join(map(str, self.args))}) for {self.compiled.target})"


class KernelFamily(EntryPoint):
    """A set of kernels for arrays of several shapes; the shapes of a call select one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._latest: tuple[tuple[Any, ...], Kernel] | None = None  # with the shapes of its arrays

    @property
    def name(self) -> str:
        return self._name

    @abstractmethod
    def of(self, arrays: Sequence[Any]) -> Kernel:
        """Return the kernel for arrays of these shapes.

        Raises:
            ArgumentError: there is no such kernel.
        """

    def __call__(self, *arrays: Any) -> None:
        """Run once.

        Raises:
            ArgumentError: the arrays are not what the kernels were built for, or there is no kernel for their shapes.
        """
        shapes = tuple([getattr(array, "shape", None) for array in arrays])
        latest = self._latest
        if latest is None or latest[0] != shapes:
            latest = self._latest = shapes, self.of(arrays)
        latest[1](*arrays)

    def time_ns(self, arrays: Any, number: int = 1) -> int:
        return self.of(arrays).time_ns(arrays, number)


def load(compiled: CompiledProgram, *, program: Program | None = None) -> Kernel:
    """Load object code into this process. `program` lets the kernel show its source.

    Raises:
        TargetError: the code needs an OpenMP runtime and there is none, or it is for another architecture.
        CompileError: the object code is damaged.
    """
    wanted = "what pegbox.codegen.compile_program gives"
    return Kernel(check_instance("compiled", compiled, CompiledProgram, wanted, error=CompileError), program)


def _unpickled(compiled: CompiledProgram, program: Program | None, origin: str, flags: tuple[str, ...]) -> Kernel:
    """Load a kernel that another process has pickled.

    Raises:
        TargetError: the processor lacks instructions of its target, or see `load`.
    """
    from pegbox.codegen.targets.features import check_processor

    check_processor(compiled.target, f"the pickled kernel {compiled.name}", built_on=flags)
    kernel = load(compiled, program=program)
    kernel.origin = origin
    return kernel


def build(program: Program, *, timeout: float = COMPILE_SECONDS) -> Kernel:
    """Compile a program, in at most `timeout` seconds, and load it.

    Raises:
        TargetError, CompileError: see `compile_program` and `load`.
    """
    from pegbox.codegen.program import check_program
    from pegbox.codegen.runtime import machine  # a kernel that is loaded does without LLVM
    from pegbox.codegen.runtime.python_call import with_python_call

    return load(machine.compile_program(with_python_call(check_program(program)), timeout=timeout), program=program)
