"""Kernels for arrays of variable sizes: one compiled kernel for each set of sizes used in calls."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any

from pegbox.codegen.compiled import COMPILE_SECONDS
from pegbox.codegen.program import Program
from pegbox.codegen.runtime.kernel import Kernel, KernelFamily, build
from pegbox.compute.axis import SizeVar
from pegbox.compute.sizes import check_bound, check_sizes, shown_tensor, sizes_of_arrays, stand_ins
from pegbox.compute.tensor import Tensor
from pegbox.errors import ArgumentError
from pegbox.origin import users_level
from pegbox.shown import value_text

MAX_KERNELS = 64
"""The most kernels of one `SizedKernel` that stay in memory, each about a tenth of a megabyte with its tables."""


class SizedKernel(KernelFamily):
    """A kernel that takes its sizes from the arrays of a call, and compiles for new sizes.

    The 64 kernels used last are kept (`MAX_KERNELS`); older sizes are compiled again when needed. `kernel.at(n=128)`
    returns the `Kernel` for some sizes, which lives as long as its caller keeps it. `kernel.sizes` lists all sizes that
    were compiled. Several threads may call it at once.
    """

    def __init__(
        self,
        name: str,
        args: Sequence[Tensor],
        variables: Sequence[SizeVar],
        emit_at: Callable[[Mapping[SizeVar, int], str], Program],
        *,
        timeout: float = COMPILE_SECONDS,
    ) -> None:
        """Store a function that makes the program for some sizes, under a name; `timeout` is as for `compile_program`.

        Raises:
            ArgumentError: no argument's shape has a variable.
        """
        super().__init__(name)
        check_bound(args, variables)
        self._args, self._variables, self._emit_at = tuple(args), tuple(variables), emit_at
        self._timeout = timeout
        self._sizes: dict[tuple[int, ...], None] = {}  # in the order of their first compilation
        self._kernels: OrderedDict[tuple[int, ...], Kernel] = OrderedDict()  # in the order of their last use
        self._lock = Lock()

    @property
    def sizes(self) -> list[dict[str, int]]:
        """All sizes for which the kernel was compiled, by the names of the variables."""
        names = [var.name for var in self._variables]
        return [dict(zip(names, key, strict=True)) for key in list(self._sizes)]  # other threads may add sizes

    def at(self, **sizes: int) -> Kernel:
        """Return the kernel for some sizes, given by the names of the variables.

        Raises:
            ArgumentError: a size is missing or not a positive integer, or there is no such variable.
            ScheduleError, CompileError: the schedule is not legal for these sizes, or cannot be compiled.
        """
        return self._at(check_sizes(self._variables, sizes))

    @property
    def programs(self) -> list[Program]:
        """The program for each set of sizes that was compiled, named after the sizes: "scale_n128_m64".

        Raises:
            ArgumentError: the kernel was not called yet.
        """
        if not self._sizes:
            raise ArgumentError(
                f"{self.name}: its sizes are variables, and it was not called yet; call it with arrays of the sizes "
                "that are wanted, or build it for numbers, sizes={...}"
            )
        found = []
        for key in list(self._sizes):
            sizes = dict(zip(self._variables, key, strict=True))
            name = "_".join([self.name, *(f"{var.name}{size}" for var, size in sizes.items())])
            found.append(replace(self._emit_at(sizes, name), family=self.name))
        return found

    def source(self, form: str = "ll") -> str:
        """Return the program for the sizes used last, as text; a warning names them.

        Before the first call, it is the program for some small sizes.
        """
        with self._lock:
            last = next(reversed(self._kernels), None)
        key = last or tuple(stand_ins(self._variables).values())
        sizes = dict(zip(self._variables, key, strict=True))
        shown = ", ".join(f"{var.name}={size}" for var, size in sizes.items())
        warnings.warn(
            f"the source of {self.name} is for the sizes {shown}; see also .at({shown})", stacklevel=users_level()
        )
        return (self._kernels.get(key) or self._build(sizes)).source(form)

    def __repr__(self) -> str:
        return f"SizedKernel({self.name}({', '.join(map(shown_tensor, self._args))}), compiled for {self.sizes})"

    def of(self, arrays: Sequence[Any]) -> Kernel:
        """Return the kernel for arrays of these shapes; compile it if the sizes are new.

        Raises:
            ArgumentError: the arrays are not what it was built for, or their shapes contradict each other.
            ScheduleError, CompileError: the schedule is not legal for their sizes, or cannot be compiled.
        """
        if not isinstance(arrays, list | tuple):
            raise ArgumentError(
                f"{self.name}: arrays={value_text(arrays)} is not a list; give one array for each argument"
            )
        if len(arrays) != len(self._args):
            wanted = ", ".join(map(shown_tensor, self._args))
            raise ArgumentError(f"{self.name}() takes {len(self._args)} arrays ({wanted}), got {len(arrays)}")
        for tensor, array in zip(self._args, arrays, strict=True):
            if not isinstance(getattr(array, "shape", None), tuple):
                raise ArgumentError(f"{self.name}: {tensor.name} is a {type(array).__name__}; expected a NumPy array")
        return self._at(sizes_of_arrays(self._args, [array.shape for array in arrays], self._variables))

    def _at(self, sizes: Mapping[SizeVar, int]) -> Kernel:
        key = tuple(sizes[var] for var in self._variables)
        with self._lock:
            if kernel := self._kernels.get(key):
                self._kernels.move_to_end(key)
                return kernel
        kernel = self._build(sizes)  # without the lock, so that calls with other sizes need not wait
        with self._lock:
            self._sizes[key] = None
            kernel = self._kernels.setdefault(key, kernel)
            self._kernels.move_to_end(key)
            while len(self._kernels) > MAX_KERNELS:
                self._kernels.popitem(last=False)
        return kernel

    def _build(self, sizes: Mapping[SizeVar, int]) -> Kernel:
        return build(self._emit_at(sizes, self.name), timeout=self._timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the schedule; the other process compiles for the sizes of its own calls."""
        make = partial(SizedKernel, timeout=self._timeout)
        return make, (self.name, self._args, self._variables, self._emit_at)
