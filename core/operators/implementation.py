"""`Implementation`: a kernel for arrays of some shapes, and its origin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from pegbox.operators.arrays import Array
from pegbox.operators.packed import PackedOperand
from pegbox.records.in_effect import in_effect

if TYPE_CHECKING:
    from pegbox.codegen.program import ArgSpec
    from pegbox.codegen.runtime.kernel import Kernel
    from pegbox.space import Config
    from pegbox.task.task import Task

Origin: TypeAlias = Literal["tuned", "predicted, not tuned", "kept"]

Packers: TypeAlias = Mapping[int, Callable[[Array], Array]]
"""The functions that pack inputs, by the places of these."""


@dataclass(frozen=True)
class Implementation:
    """A kernel for arrays of some shapes.

    Attributes:
        kernel: the function in machine code.
        origin: "tuned" (the best of measurements), "predicted, not tuned" (by experience), or "kept" (the code that an
            earlier process compiled).
        task, config: the kernel's sources; None for a kernel that was kept, whose template was not run.
        packers: those of the inputs that it takes packed.
    """

    kernel: Kernel
    origin: Origin
    task: Task | None = None
    config: Config | None = None
    packers: Packers = field(default_factory=dict, repr=False)

    @cached_property
    def outputs(self) -> tuple[ArgSpec, ...]:
        """The outputs among the kernel's arguments."""
        return tuple(spec for spec in self.kernel.args if spec.is_output)

    @cached_property
    def has_outputs_last(self) -> bool:
        """A flag of kernels that take all inputs before the outputs."""
        return all(spec.is_output for spec in self.kernel.args[-len(self.outputs) :])

    def run(self, inputs: Sequence[Array]) -> Any:
        """Compute from the inputs, and return the result, or a tuple where there are several."""
        outputs = [np.empty(shape, dtype) for shape, dtype in self._results]
        if self.has_outputs_last:
            self.kernel(*inputs, *outputs)
        else:
            self.write(inputs, outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def function(self, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """The kernel as a function of inputs and `out=`, which hands other calls on; see `Kernel.function`."""
        return self.kernel.function(otherwise, make_outputs=self._made_outputs, unless=in_effect)

    def write(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Compute from the inputs into the outputs, both in the order of the kernel's arguments."""
        given, written = iter(inputs), iter(outputs)
        self.kernel(*(next(written if spec.is_output else given) for spec in self.kernel.args))

    def packed_input(self, place: int, operand: PackedOperand) -> Array:
        """The array that the kernel takes for a packed operand."""
        pack = self.packers.get(place)
        return operand.original if pack is None or self.task is None else operand.packed_for(self.task, pack)

    @cached_property
    def _made_outputs(self) -> Callable[[], Any]:
        makers = [partial(np.empty, shape, dtype) for shape, dtype in self._results]
        return makers[0] if len(makers) == 1 else lambda: tuple([make() for make in makers])

    @cached_property
    def _results(self) -> list[tuple[tuple[int, ...], Any]]:
        return [(spec.shape, _numpy_dtype(spec)) for spec in self.outputs]


def allocated(spec: ArgSpec) -> Array:
    """A new array for an argument, whose values are not set."""
    return np.empty(spec.shape, _numpy_dtype(spec))


def _numpy_dtype(spec: ArgSpec) -> Any:
    from pegbox.expr import dtypes

    return dtypes.numpy_dtype(spec.dtype)
