"""Kernels of one name for arrays of several shapes: the shapes of a call say which one runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from pegbox.codegen.program import Program
from pegbox.codegen.runtime.kernel import Kernel
from pegbox.codegen.runtime.time_evaluator import TimeEvaluator
from pegbox.errors import ArgumentError


class KernelFamily(ABC):
    """Called as a `Kernel` is."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def of(self, arrays: Sequence[Any]) -> Kernel:
        """The kernel for arrays of these shapes.

        Raises:
            ArgumentError: there is none.
        """

    @property
    @abstractmethod
    def programs(self) -> list[Program]:
        """The programs of all kernels that there are by now; each has a name of its own.

        Raises:
            ArgumentError: there is no kernel yet, or they were loaded from object code alone.
        """

    @abstractmethod
    def source(self, form: str = "ll") -> str:
        """The program of one of the kernels as text: see `Kernel.source`."""

    def __call__(self, *arrays: Any) -> None:
        """Run once.

        Raises:
            ArgumentError: the arrays are not what the kernels were built for, or there is none for their shapes.
        """
        self.of(arrays)(*arrays)

    def time_ns(self, arrays: Any, number: int = 1) -> int:
        """Nanoseconds that `number` calls take together (see `Kernel.time_ns`)."""
        return self.of(arrays).time_ns(arrays, number)

    def __getitem__(self, name: str) -> KernelFamily:
        """Itself, for code that takes functions out of modules by name.

        Raises:
            ArgumentError: it has another name.
        """
        if name != self.name:
            raise ArgumentError(f"this is the kernel {self.name!r}; it has no function {name!r}")
        return self

    @property
    def entry_name(self) -> str:
        return self.name

    def time_evaluator(
        self,
        name: str | None = None,
        dev: object = None,
        *,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0.0,
    ) -> TimeEvaluator:
        """A function of arrays that gives the seconds of a call (see `Kernel.time_evaluator`)."""
        if name is not None:
            self[name]
        return TimeEvaluator(self.time_ns, number, repeat, min_repeat_ms)
