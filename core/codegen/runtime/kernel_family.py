"""Kernels of one name for arrays of several shapes: the shapes of a call say which one runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from pegbox.codegen.program import Program
from pegbox.codegen.runtime.entry import EntryPoint
from pegbox.codegen.runtime.kernel import Kernel


class KernelFamily(EntryPoint):
    """Called as a `Kernel` is."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

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
