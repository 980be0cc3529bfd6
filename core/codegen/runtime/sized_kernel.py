"""Kernels for arrays of variable sizes: one compiled kernel for each set of sizes that they are called with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pegbox.codegen.runtime.kernel import Kernel
from pegbox.codegen.runtime.time_evaluator import TimeEvaluator
from pegbox.compute.axis import SizeVar
from pegbox.compute.sizes import check_bound, check_sizes, shown_tensor, sizes_of_arrays, stand_ins
from pegbox.compute.tensor import Tensor
from pegbox.errors import ArgumentError
from pegbox.origin import users_level


class SizedKernel:
    """`kernel(a, b, c)` finds the sizes in the shapes of the arrays, and compiles where it has not seen them yet.

    What it has compiled is kept: `kernel.sizes` lists the sizes, `kernel.at(n=128)` gives the `Kernel` of some.
    """

    def __init__(
        self,
        name: str,
        args: Sequence[Tensor],
        variables: Sequence[SizeVar],
        compile_at: Callable[[Mapping[SizeVar, int]], Kernel],
    ) -> None:
        """Raises `ArgumentError`: no argument tells the size of a variable."""
        check_bound(args, variables)
        self.name = name
        self._args, self._variables, self._compile_at = tuple(args), tuple(variables), compile_at
        self._kernels: dict[tuple[int, ...], Kernel] = {}

    @property
    def sizes(self) -> list[dict[str, int]]:
        """The sizes that there are kernels for, by the names of the variables."""
        names = [var.name for var in self._variables]
        return [dict(zip(names, key, strict=True)) for key in self._kernels]

    def at(self, **sizes: int) -> Kernel:
        """The kernel for some sizes, which are given by the names of the variables.

        Raises:
            ArgumentError: a size is missing or no positive integer, or there is no such variable.
            ScheduleError, CompileError: the schedule is not legal for these sizes, or cannot be compiled.
        """
        given: dict[str | SizeVar, int] = {**sizes}
        return self._at(check_sizes(self._variables, given))

    def __call__(self, *arrays: Any) -> None:
        """Run once.

        Raises:
            ArgumentError: the arrays are not what the kernel was built for, or their shapes contradict each other.
            ScheduleError, CompileError: the schedule is not legal for their sizes, or cannot be compiled.
        """
        self._of(arrays)(*arrays)

    def time_ns(self, arrays: Any, number: int = 1) -> int:
        """Nanoseconds that `number` calls take together (see `Kernel.time_ns`)."""
        return self._of(arrays).time_ns(arrays, number)

    def __getitem__(self, name: str) -> SizedKernel:
        """The kernel itself, for code that takes functions out of modules by name.

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

    def source(self, form: str = "ll") -> str:
        """The program of the sizes that were compiled last, as text (see `Kernel.source`); a warning names them.

        Before the first call it is that of numbers which stand in for the sizes.
        """
        key = next(reversed(self._kernels), None) or tuple(stand_ins(self._variables).values())
        sizes = dict(zip(self._variables, key, strict=True))
        shown = ", ".join(f"{var.name}={size}" for var, size in sizes.items())
        warnings.warn(
            f"the source of {self.name} is that of the sizes {shown}; see also .at({shown})", stacklevel=users_level()
        )
        return (self._kernels.get(key) or self._compile_at(sizes)).source(form)

    def __repr__(self) -> str:
        return f"SizedKernel({self.name}({', '.join(map(shown_tensor, self._args))}), compiled for {self.sizes})"

    def _of(self, arrays: Sequence[Any]) -> Kernel:
        if len(arrays) != len(self._args):
            wanted = ", ".join(map(shown_tensor, self._args))
            raise ArgumentError(f"{self.name}() takes {len(self._args)} arrays ({wanted}), got {len(arrays)}")
        for tensor, array in zip(self._args, arrays, strict=True):
            if not isinstance(getattr(array, "shape", None), tuple):
                raise ArgumentError(f"{self.name}: {tensor.name} is a {type(array).__name__}; expected a NumPy array")
        return self._at(sizes_of_arrays(self._args, [array.shape for array in arrays], self._variables))

    def _at(self, sizes: Mapping[SizeVar, int]) -> Kernel:
        key = tuple(sizes[var] for var in self._variables)
        if key not in self._kernels:
            self._kernels[key] = self._compile_at(sizes)
        return self._kernels[key]
