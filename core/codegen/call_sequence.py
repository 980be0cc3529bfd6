"""`CallSequence`: kernels that are called one after the other and share arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pegbox.codegen.compiled import ArgSpec, CompiledProgram
from pegbox.codegen.targets.target import Target

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pegbox.loops.foreign import ForeignCode

WORKSPACE, CONSTANTS = "workspace", "constants"
"""The areas of memory besides the arguments, which are areas `a0`, `a1`, ..."""


class AreaOffset(NamedTuple):
    """A place in memory, as a number of bytes from the beginning of an area."""

    area: str
    offset: int = 0


def argument(number: int) -> AreaOffset:
    """Return the place of an argument of the sequence."""
    return AreaOffset(f"a{number}")


class Call(NamedTuple):
    """A call of a kernel, with the places of its arguments and of its workspace, if it needs one."""

    kernel: int
    arguments: tuple[AreaOffset, ...]
    workspace: AreaOffset | None = None


class Copy(NamedTuple):
    """A copy of bytes."""

    target: AreaOffset
    source: AreaOffset
    nbytes: int


Step: TypeAlias = "Call | Copy"


@dataclass(frozen=True, eq=False)
class CallSequence:
    """A program that calls kernels.

    Attributes:
        name: the function's name.
        args: its arguments, inputs before outputs.
        kernels: the kernels, each listed once.
        steps: the calls and copies, in order.
        constants: the bytes of all constants, which are loaded at a multiple of `ALIGNMENT`.
        workspace_bytes: the size of the area `WORKSPACE`.
        target: the kernels' target.
    """

    name: str
    args: tuple[ArgSpec, ...]
    kernels: tuple[CompiledProgram, ...]
    steps: tuple[Step, ...]
    constants: NDArray[Any]
    workspace_bytes: int
    target: Target

    @property
    def num_threads(self) -> int:
        return max((kernel.num_threads for kernel in self.kernels), default=1)

    @property
    def externs(self) -> tuple[str, ...]:
        """The C functions that kernels call."""
        return tuple(dict.fromkeys(name for kernel in self.kernels for name in kernel.externs))

    @property
    def foreign(self) -> tuple[ForeignCode, ...]:
        """The C code given for functions that kernels call."""
        return tuple(dict.fromkeys(code for kernel in self.kernels for code in kernel.foreign))

    @property
    def constants_symbol(self) -> str:
        return f"{self.name}__constants"

    def prefix(self, kernel: int) -> str:
        """Return the prefix of a kernel's symbols, which differs from those of the other kernels."""
        return f"{self.name}__{kernel}__"

    def symbol(self, kernel: int) -> str:
        """Return the name by which the sequence calls a kernel."""
        return self.prefix(kernel) + self.kernels[kernel].name
