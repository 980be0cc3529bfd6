"""Runtime modules: kernels by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pegbox.checks import check_instance, check_text
from pegbox.codegen.compiled import COMPILE_SECONDS
from pegbox.codegen.emitter.emit import emit
from pegbox.codegen.emitter.function_text import identifier
from pegbox.codegen.program import Program
from pegbox.codegen.runtime.kernel import Kernel, KernelFamily, build
from pegbox.codegen.runtime.time_evaluator import TimeEvaluator
from pegbox.codegen.targets.target import Target
from pegbox.errors import ArgumentError, CompileError
from pegbox.loops.module import ENTRY, IRModule


class RuntimeModule:
    """A set of kernels by name: `mod["mm_relu"]`. A module with a single function can itself be called."""

    def __init__(self, kernels: Mapping[str, Kernel | KernelFamily]) -> None:
        self.kernels = dict(kernels)

    def __getitem__(self, name: str) -> Kernel | KernelFamily:
        """Return the kernel of that name; a single kernel is also found as "main".

        Raises:
            ArgumentError: there is no such kernel.
        """
        check_text("name of a function", name)
        if name == ENTRY and len(self.kernels) == 1:
            return next(iter(self.kernels.values()))
        if name not in self.kernels:
            raise ArgumentError(f"the module has no function {name!r}; it has {', '.join(self.kernels)}")
        return self.kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    @property
    def entry_name(self) -> str:
        """The name of the only function, or "main".

        Raises:
            ArgumentError: there are several functions, none of them "main".
        """
        if len(self.kernels) == 1:
            return next(iter(self.kernels))
        if ENTRY in self.kernels:
            return ENTRY
        raise ArgumentError(f"the module has the functions {', '.join(self.kernels)}; name one: mod[name](...)")

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Run the only function, or "main"; see `Kernel.__call__`.

        Raises:
            ArgumentError: there are several functions, or the arrays are not what it was built for.
        """
        return self[self.entry_name](*arrays, **named)

    def time_evaluator(self, name: str | None = None, dev: object = None, **options: Any) -> TimeEvaluator:
        """Return a timer, as `Kernel.time_evaluator` does, of the function `name`, by default the only one."""
        return self[self.entry_name if name is None else name].time_evaluator(dev=dev, **options)

    @property
    def programs(self) -> list[Program]:
        """The programs of all kernels.

        Raises:
            ArgumentError: there is no kernel yet, or the kernels were loaded from object code alone.
        """
        return [program for kernel in self.kernels.values() for program in kernel.programs]

    def __repr__(self) -> str:
        return f"RuntimeModule({', '.join(map(repr, self.kernels.values()))})"


def build_module(mod: IRModule, target: Target, *, timeout: float = COMPILE_SECONDS) -> RuntimeModule:
    """Compile every function of a lowered module, each in at most `timeout` seconds.

    Raises:
        CompileError: a function cannot be compiled, or two functions would have the same name in C.
    """
    check_instance("mod", mod, IRModule, "what pegbox.lower makes of a module", error=CompileError)
    names: dict[str, str] = {}
    for name in mod:
        other = names.setdefault(identifier(name), name)
        if other != name:
            raise CompileError(f"{other} and {name} would both be called {identifier(name)} in C; rename one")
    return RuntimeModule({name: build(emit(func, target), timeout=timeout) for name, func in mod.functions.items()})
