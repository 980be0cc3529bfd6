"""`Implementation`: a kernel for arrays of some shapes, and its origin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pegbox.codegen.program import ArgSpec
    from pegbox.codegen.runtime.kernel import Kernel
    from pegbox.space import Config
    from pegbox.task.task import Task

Origin: TypeAlias = Literal["tuned", "predicted, not tuned", "kept"]


@dataclass(frozen=True)
class Implementation:
    """A kernel for arrays of some shapes.

    Attributes:
        kernel: the function in machine code.
        origin: "tuned" (the best of measurements), "predicted, not tuned" (by experience), or "kept" (the code that an
            earlier process compiled).
        task, config: the kernel's sources; None for a kernel that was kept, whose template was not run.
    """

    kernel: Kernel
    origin: Origin
    task: Task | None = None
    config: Config | None = None

    @property
    def outputs(self) -> tuple[ArgSpec, ...]:
        """The outputs among the kernel's arguments."""
        return tuple(spec for spec in self.kernel.args if spec.is_output)
