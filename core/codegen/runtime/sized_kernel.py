"""Kernels for arrays of variable sizes: one compiled kernel for each set of sizes that they are called with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pegbox.codegen.program import Program
from pegbox.codegen.runtime.kernel import Kernel, build
from pegbox.codegen.runtime.kernel_family import KernelFamily
from pegbox.compute.axis import SizeVar
from pegbox.compute.sizes import check_bound, check_sizes, shown_tensor, sizes_of_arrays, stand_ins
from pegbox.compute.tensor import Tensor
from pegbox.errors import ArgumentError
from pegbox.origin import users_level


class SizedKernel(KernelFamily):
    """`kernel(a, b, c)` finds the sizes in the shapes of the arrays, and compiles where it has not seen them yet.

    What it has compiled is kept: `kernel.sizes` lists the sizes, `kernel.at(n=128)` gives the `Kernel` of some.
    """

    def __init__(
        self,
        name: str,
        args: Sequence[Tensor],
        variables: Sequence[SizeVar],
        emit_at: Callable[[Mapping[SizeVar, int], str], Program],
    ) -> None:
        """From a function that makes the program for some sizes, under a name.

        Raises:
            ArgumentError: no argument tells the size of a variable.
        """
        super().__init__(name)
        check_bound(args, variables)
        self._args, self._variables, self._emit_at = tuple(args), tuple(variables), emit_at
        self._kernels: dict[tuple[int, ...], Kernel] = {}

    @property
    def sizes(self) -> list[dict[str, int]]:
        """The sizes that there are kernels for, by the names of the variables."""
        names = [var.name for var in self._variables]
        return [dict(zip(names, key, strict=True)) for key in list(self._kernels)]  # other threads may add some

    def at(self, **sizes: int) -> Kernel:
        """The kernel for some sizes, which are given by the names of the variables.

        Raises:
            ArgumentError: a size is missing or no positive integer, or there is no such variable.
            ScheduleError, CompileError: the schedule is not legal for these sizes, or cannot be compiled.
        """
        return self._at(check_sizes(self._variables, sizes))

    @property
    def programs(self) -> list[Program]:
        """A program for each set of sizes that it was compiled for, named after them: "scale_n128_m64".

        Raises:
            ArgumentError: it was not called yet.
        """
        if not self._kernels:
            raise ArgumentError(
                f"{self.name}: its sizes are variables, and it was not called yet; call it with arrays of the sizes "
                "that are wanted, or build it for numbers, sizes={...}"
            )
        return [self._named(dict(zip(self._variables, key, strict=True))) for key in list(self._kernels)]

    def _named(self, sizes: Mapping[SizeVar, int]) -> Program:
        name = "_".join([self.name, *(f"{var.name}{size}" for var, size in sizes.items())])
        return replace(self._emit_at(sizes, name), family=self.name)

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
        return (self._kernels.get(key) or build(self._emit_at(sizes, self.name))).source(form)

    def __repr__(self) -> str:
        return f"SizedKernel({self.name}({', '.join(map(shown_tensor, self._args))}), compiled for {self.sizes})"

    def of(self, arrays: Sequence[Any]) -> Kernel:
        """The kernel for arrays of these shapes, compiled where they are new.

        Raises:
            ArgumentError: the arrays are not what it was built for, or their shapes contradict each other.
            ScheduleError, CompileError: the schedule is not legal for their sizes, or cannot be compiled.
        """
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
            self._kernels[key] = build(self._emit_at(sizes, self.name))
        return self._kernels[key]
