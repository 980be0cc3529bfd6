"""What compiled code is to who calls it: a name, and a clock. Kernels are that, and kernels of several shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

from pegbox.codegen.runtime.time_evaluator import TimeEvaluator
from pegbox.errors import ArgumentError

_Self = TypeVar("_Self", bound="EntryPoint")


class EntryPoint(ABC):
    """Code that is called by one name."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that it was built under."""

    @abstractmethod
    def time_ns(self, arrays: Any, number: int = 1) -> int:
        """Nanoseconds that `number` calls take together."""

    @property
    def entry_name(self) -> str:
        """The name, as TVM's modules have it."""
        return self.name

    def __getitem__(self: _Self, name: str) -> _Self:
        """Itself, for code that takes functions out of modules by name.

        Raises:
            ArgumentError: it has another name.
        """
        if name != self.name:
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
        """A function of arrays that gives the seconds of a call: `.mean`, `.median`, `.min`, `.max`, `.std`.

        Args:
            name: its own, as TVM asks for it.
            dev: a device, as TVM asks for it; kernels run on this machine's CPU.
            number: calls that are timed together, as one repeat.
            repeat: how many times that is done.
            min_repeat_ms: raise `number` until a repeat lasts that long.

        Raises:
            ArgumentError: another name, or a number out of its domain.
        """
        if name is not None:
            self[name]
        return TimeEvaluator(self.time_ns, number, repeat, min_repeat_ms)
