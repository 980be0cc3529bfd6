"""`Implementation`: a kernel for arrays of some shapes, and its origin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pegbox.codegen.runtime.checked_call import array_maker
from pegbox.operators.arrays import Array
from pegbox.operators.packed import PackedOperand, layout_for

if TYPE_CHECKING:
    from pegbox.codegen.compiled import ArgSpec
    from pegbox.codegen.runtime.kernel import Kernel
    from pegbox.space import Config
    from pegbox.task.task import Task

Origin: TypeAlias = Literal["tuned", "predicted, not tuned", "kept"]

Packers: TypeAlias = Mapping[int, Callable[[Array], Array]]
"""The functions that pack inputs, by the inputs' places."""


class Implementation:
    """A kernel for arrays of some shapes.

    Attributes:
        kernel: the function in machine code.
        origin: "tuned" (the best of measurements), "predicted, not tuned" (by experience), or "kept" (the code that an
            earlier process compiled).
        task, config: the kernel's sources. A kept kernel has no config, and a task only if it takes packed inputs:
            otherwise its template was not run.
        packers: the functions for the inputs that it takes packed.
    """

    def __init__(
        self,
        kernel: Kernel,
        origin: Origin,
        task: Task | None = None,
        config: Config | None = None,
        packers: Packers | None = None,
    ) -> None:
        self.kernel, self.origin, self.task, self.config = kernel, origin, task, config
        self.packers: Packers = packers or {}

    def __repr__(self) -> str:
        return f"Implementation({self.kernel!r}, {self.origin!r}, {self.task!r}, {self.config!r})"

    @cached_property
    def outputs(self) -> tuple[ArgSpec, ...]:
        """The outputs among the kernel's arguments."""
        return tuple(spec for spec in self.kernel.args if spec.is_output)

    @cached_property
    def make_outputs(self) -> Callable[[], Any]:
        """A function that allocates the result, or a tuple of several results."""
        makers = [array_maker(spec.shape, _numpy_dtype(spec)) for spec in self.outputs]
        return makers[0] if len(makers) == 1 else lambda: tuple(make() for make in makers)


def computed(found: Implementation, inputs: Sequence[Array], out: Any) -> Any:
    """Compute from the inputs into `out`, an array or a tuple of arrays, or else into new ones; return them.

    Raises:
        ArgumentError: the kernel was built for other arrays.
    """
    made = found.make_outputs() if out is None else out
    found.kernel(*inputs, out=made)
    return made


def input_of(found: Implementation, place: int, operand: PackedOperand) -> Array:
    """Return the array that a kernel takes for a packed operand."""
    pack = found.packers.get(place)
    return operand.original if pack is None or found.task is None else layout_for(operand, found.task, pack)


def allocated(spec: ArgSpec) -> Array:
    """Return a new uninitialized array for an argument."""
    return array_maker(spec.shape, _numpy_dtype(spec))()


def _numpy_dtype(spec: ArgSpec) -> Any:
    from pegbox.expr import dtypes

    return dtypes.numpy_dtype(spec.dtype)
